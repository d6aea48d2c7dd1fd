/**
 * The items of a request as messages of the inner form. What one answer of the model was made of (reasoning, texts, calls) is
 * one message there, and the results of its calls follow right behind it, in the order of the calls.
 */
import { type JsonObject, objectOf, textOf } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { checked } from "../body/checked.ts";
import type { AssistantMessage, Message, ToolCall, ToolMessage, UserMessage } from "../chat/schema.ts";
import { ApiError } from "../errors.ts";
import type { NativeOnly } from "../native-only.ts";
import type { EarlierAnswers } from "../protocol.ts";
import { refuseKind } from "./check.ts";
import { answerOfItem } from "./ids.ts";
import { isReference, referredItem } from "./references.ts";
import { type ItemType, itemSchemas, MessageItem, type Part, type PartType, partSchemas, partsOf } from "./schema.ts";
import { TurnState } from "./state.ts";
import { summaryIn } from "./summary.ts";
import { freeTextArguments, type ToolNames } from "./tools.ts";

type InputMessages = {
  readonly messages: Message[];
  /** The place of each message in the request: of its content, and of its calls. */
  readonly places: readonly MessagePlace[];
};
export type MessagePlace = { readonly content: string; readonly calls?: readonly string[] };

type Known = {
  readonly names: ToolNames;
  /** True where the calls that results answer may be in the earlier part of the conversation. */
  readonly continues: boolean;
  readonly earlier: EarlierAnswers;
  /** Takes what only upstreams of this format know. */
  readonly nativeOnly: NativeOnly;
};

/** @param input checked to be a text or a list @throws ApiError */
export function conversationOf(
  instructions: string | null | undefined,
  input: string | readonly unknown[],
  known: Known,
): InputMessages {
  const builder = new ConversationBuilder(known);
  if (instructions != null && instructions !== "") {
    builder.message({ role: "system", content: instructions }, "instructions");
  }
  if (typeof input === "string") builder.message({ role: "user", content: input }, "input");
  else for (const [at, item] of input.entries()) builder.item(objectOf(item) ?? {}, ["input", at]);
  return builder.finish();
}

type Result = { readonly message: ToolMessage; readonly place: string };
type Call = { readonly call: ToolCall; readonly place: string; result?: Result };

/** One answer of the model. */
type Turn = {
  readonly kind: "turn";
  place: string;
  text: string;
  refusal: string;
  isSaid: boolean;
  readonly calls: Call[];
  readonly images: JsonObject[];
  readonly state: TurnState;
  /** Results of it have come: what the model says next is another answer. */
  isAnswered: boolean;
  /** The part that the ids of the items of one answer of ours share. */
  answer: string | undefined;
};
type Said = { readonly kind: "said"; readonly message: Message; readonly place: string };

/** Libraries that leave out what is empty send an answer that says nothing back without its content. */
const isSilentAnswer = ({ role, content }: JsonObject): boolean => role === "assistant" && content == null;

class ConversationBuilder {
  readonly #known: Known;
  readonly #entries: (Turn | Said)[] = [];
  /** Calls that wait for their result, by their id; the last one is meant first. */
  readonly #open = new Map<string, Call[]>();
  readonly #turnOf = new Map<Call, Turn>();
  #turn: Turn | undefined;

  constructor(known: Known) {
    this.#known = known;
  }

  message(message: Message, place: string): void {
    this.#turn = undefined;
    this.#entries.push({ kind: "said", message, place });
  }

  item(item: JsonObject, path: readonly PathPart[]): void {
    if (isReference(item)) {
      this.#reference(item["id"] as string, path);
      return;
    }
    const summary = summaryIn(item);
    if (summary !== undefined) {
      this.message({ role: "user", content: summary }, formatPath(path));
      return;
    }
    const type = item["type"] ?? (item["role"] === undefined ? undefined : "message");
    if (type === undefined) throw ApiError.missingField(formatPath([...path, "type"]));
    if (typeof type !== "string") {
      const at = formatPath([...path, "type"]);
      throw ApiError.invalidValue(at, `${at} must be a string.`);
    }
    if (type === "message") this.#messageItem(item, path);
    else if (Object.hasOwn(itemSchemas, type)) this.#knownItem(type as ItemType, item, path);
    else this.#other(type, path);
  }

  finish(): InputMessages {
    const written = this.#entries.flatMap((entry) => (entry.kind === "said" ? [saidOf(entry)] : writtenTurn(entry)));
    return { messages: written.map(({ message }) => message), places: written.map(({ place }) => place) };
  }

  #reference(id: string, path: readonly PathPart[]): void {
    const item = referredItem(id, this.#known.earlier);
    if (item !== undefined) {
      if (item !== null) this.item(item, path);
      return;
    }
    const at = formatPath([...path, "id"]);
    const message = `${at}: no item '${truncate(id)}' is kept here; send the item itself.`;
    this.#known.nativeOnly.refuse(ApiError.invalidValue(at, message));
  }

  #messageItem(item: JsonObject, path: readonly PathPart[]): void {
    const { role, content } = checked(MessageItem, isSilentAnswer(item) ? { ...item, content: "" } : item, path);
    const place = formatPath([...path, "content"]);
    const parts = typeof content === "string" ? content : checkedParts(content, partsOf[role], [...path, "content"]);
    if (role === "assistant") this.#say(parts, place, item["id"]);
    else this.message({ role, content: this.#content(parts, [...path, "content"]) } as Message, place);
  }

  #say(parts: string | readonly Part[], place: string, id: unknown): void {
    const turn = this.#turnFor(id, place);
    const answer = answerOfItem(id);
    const isOneAnswer = answer !== undefined && turn.answer === answer;
    const texts = typeof parts === "string" ? [parts] : parts.map((part) => ("text" in part ? part.text : ""));
    const text = texts.join("");
    turn.text += turn.text !== "" && text !== "" && !isOneAnswer ? `\n\n${text}` : text;
    if (typeof parts !== "string") {
      for (const part of parts) if (part.type === "refusal") turn.refusal += part.refusal;
    }
    turn.isSaid = true;
    turn.place = place;
    turn.state.text();
  }

  #knownItem(type: ItemType, item: JsonObject, path: readonly PathPart[]): void {
    switch (type) {
      case "function_call": {
        const { call_id, name, arguments: written, namespace } = checked(itemSchemas[type], item, path);
        this.#call(call_id, this.#known.names.innerName(name, namespace), written, path, item["id"]);
        return;
      }
      case "custom_tool_call": {
        const { call_id, name, input, namespace } = checked(itemSchemas[type], item, path);
        const written = freeTextArguments(input);
        this.#call(call_id, this.#known.names.innerName(name, namespace), written, path, item["id"]);
        return;
      }
      case "function_call_output":
      case "custom_tool_call_output":
        this.#result(item, type, path);
        return;
      case "reasoning": {
        const reasoning = checked(itemSchemas[type], item, path);
        this.#turnFor(item["id"], formatPath(path)).state.add(reasoning);
        return;
      }
      case "image_generation_call": {
        const { id, result, output_format } = checked(itemSchemas[type], item, path);
        const turn = this.#turnFor(id, formatPath(path));
        const url = `data:image/${output_format ?? "png"};base64,${result}`;
        if (result) turn.images.push({ type: "image_url", image_url: { url }, ...turn.state.image(id ?? "") });
        return;
      }
      case "additional_tools":
      case "configuration_update":
      // Read before: they are of the request, wherever they stand.
    }
  }

  #call(id: string, name: string, written: string, path: readonly PathPart[], itemId: unknown): void {
    const turn = this.#turnFor(itemId, formatPath(path));
    const call: Call = {
      call: { id, type: "function", function: { name, arguments: written }, ...turn.state.call(id) },
      place: formatPath(path),
    };
    turn.calls.push(call);
    this.#turnOf.set(call, turn);
    const open = this.#open.get(id);
    if (open === undefined) this.#open.set(id, [call]);
    else open.push(call);
  }

  #result(item: JsonObject, type: "function_call_output" | "custom_tool_call_output", path: readonly PathPart[]): void {
    const output = item["output"];
    const place = formatPath([...path, "output"]);
    const parts = Array.isArray(output) ? checkedParts(output, partsOf.output, [...path, "output"]) : undefined;
    const said = checked(itemSchemas[type], item, path);
    const content = parts === undefined ? (output as string) : this.#content(parts, [...path, "output"]);
    const call_id = said.call_id ?? this.#calledByName(item, path);
    if (call_id === undefined) {
      this.#unmatched(content, `Result of the tool ${textOf(item["name"])}:`, place);
      return;
    }
    const message = { role: "tool", content, tool_call_id: call_id } as ToolMessage;
    const open = this.#open.get(call_id) ?? [];
    // Two calls of one turn that share an id are answered in their order; of two turns the later one is meant.
    const last = open.at(-1);
    const call = last && open.find((one) => this.#turnOf.get(one) === this.#turnOf.get(last));
    if (call === undefined) {
      this.#orphan(message, place);
      return;
    }
    open.splice(open.indexOf(call), 1);
    call.result = { message, place };
    this.#turnOf.get(call)!.isAnswered = true;
  }

  /** No upstream takes a result without its call, which may have been cut off the history: it is passed on as text. */
  #orphan(message: ToolMessage, place: string): void {
    if (this.#known.continues) {
      this.message(message, place);
      return;
    }
    this.#unmatched(message.content, `Result of the tool call ${message.tool_call_id}:`, place);
  }

  #unmatched(content: string | readonly object[], opening: string, place: string): void {
    const said =
      typeof content === "string" ? `${opening}\n${content}` : [{ type: "text" as const, text: opening }, ...content];
    this.message({ role: "user", content: said } as UserMessage, place);
  }

  /** @returns the id of the latest call of the tool that waits for its result; undefined where none does @throws ApiError */
  #calledByName({ name, namespace }: JsonObject, path: readonly PathPart[]): string | undefined {
    if (name == null) throw ApiError.missingField(formatPath([...path, "call_id"]));
    const inner = this.#known.names.innerName(name as string, textOf(namespace));
    const waiting = [...this.#open.values()].flat();
    return waiting.findLast(({ call }) => call.function.name === inner)?.call.id;
  }

  /** One text is a text, as most upstreams are used to it. */
  #content(parts: string | readonly Part[], path: readonly PathPart[]): string | JsonObject[] {
    if (typeof parts === "string") return parts;
    const [first] = parts;
    if (first === undefined) return "";
    if (parts.length === 1 && first.type === "input_text") return first.text;
    return parts.map((part, at) => this.#part(part, [...path, at]));
  }

  #part(part: Part, path: readonly PathPart[]): JsonObject {
    switch (part.type) {
      case "input_image":
        return { type: "image_url", image_url: { url: this.#imageUrl(part, path), ...given(part, ["detail"]) } };
      case "input_file": {
        const file_data = part.file_data ?? part.file_url;
        return { type: "file", file: { ...given(part, ["filename", "file_id"]), ...(file_data && { file_data }) } };
      }
      case "input_audio":
        return { type: "input_audio", input_audio: part.input_audio };
      case "refusal":
        return { type: "text", text: part.refusal };
      default:
        return { type: "text", text: part.text };
    }
  }

  /** An image by its id lies with the provider that it was uploaded to. */
  #imageUrl(
    { image_url, file_id }: { image_url?: string | null; file_id?: string | null },
    path: readonly PathPart[],
  ): string {
    if (image_url != null) return image_url;
    if (file_id == null) throw ApiError.missingField(formatPath([...path, "image_url"]));
    const at = formatPath([...path, "file_id"]);
    this.#known.nativeOnly.part(at, "this provider takes images by their URL or as data URLs alone.");
    return file_id;
  }

  #other(type: string, path: readonly PathPart[]): void {
    const what = `'${truncate(type)}' is an item that only providers with this API of their own take.`;
    this.#known.nativeOnly.part(formatPath([...path, "type"]), what);
  }

  #turnFor(id: unknown, place: string): Turn {
    const answer = answerOfItem(id);
    const last = this.#turn;
    const isSame = last !== undefined && (!last.isAnswered || (answer !== undefined && last.answer === answer));
    if (isSame) {
      last.answer ??= answer;
      return last;
    }
    const turn: Turn = {
      kind: "turn",
      place,
      text: "",
      refusal: "",
      isSaid: false,
      calls: [],
      images: [],
      state: new TurnState(),
      isAnswered: false,
      answer,
    };
    this.#turn = turn;
    this.#entries.push(turn);
    return turn;
  }
}

/** The members of these names that say something. */
function given<T extends object>(value: T, names: readonly (keyof T & string)[]): JsonObject {
  return Object.fromEntries(names.flatMap((name) => (value[name] == null ? [] : [[name, value[name]]])));
}

/** @throws ApiError naming the part */
function checkedParts(
  parts: readonly { type: string }[],
  allowed: readonly PartType[],
  path: readonly PathPart[],
): Part[] {
  return parts.map((part, at) => {
    const type = objectOf(part)?.["type"];
    const kind = allowed.find((one) => one === type);
    if (kind !== undefined) return checked(partSchemas[kind], part, [...path, at]) as Part;
    if (typeof type !== "string") throw ApiError.missingField(formatPath([...path, at, "type"]));
    return refuseKind(type, [...path, at], allowed);
  });
}

type Written = { readonly message: Message; readonly place: MessagePlace };

const saidOf = ({ message, place }: Said): Written => ({ message, place: { content: place } });

/** Stands for a result that is missing, as after an agent was interrupted: no upstream takes a call without one. */
const noResult = "No result was given.";

function writtenTurn({ text, refusal, isSaid, calls, images, state, place }: Turn): Written[] {
  const fields = state.fields();
  const saysNothing = !isSaid && calls.length === 0 && images.length === 0;
  // Thoughts that led to nothing are worth nothing to the next turn, and some upstreams refuse them.
  if (saysNothing) return [];
  const message: AssistantMessage = {
    role: "assistant",
    content: text === "" && (calls.length > 0 || refusal !== "") ? null : text,
    ...(refusal !== "" && { refusal }),
    ...(calls.length > 0 && { tool_calls: calls.map(({ call }) => call) }),
    ...(images.length > 0 && { images }),
    ...fields,
  };
  const results = calls.map(({ call, place: at, result }): Written => {
    const missing: Message = { role: "tool", content: noResult, tool_call_id: call.id };
    return { message: result?.message ?? missing, place: { content: result?.place ?? at } };
  });
  return [{ message, place: { content: place, calls: calls.map((call) => call.place) } }, ...results];
}
