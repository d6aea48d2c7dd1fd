/** System text and contents of this format as messages of the inner form. */
import type { JsonObject } from "../../lib/json/json.ts";
import type { AssistantMessage, Message, TextPart, ToolCall, ToolMessage, UserPart } from "../chat/schema.ts";
import { ApiError } from "../errors.ts";
import type { NativeOnly } from "../native-only.ts";
import { Calls } from "./calls.ts";
import { inlinePart, isText, uriPart } from "./media.ts";
import type { FunctionNames } from "./names.ts";
import type { Content, GenerateContentBody, Part } from "./schema.ts";
import { ReturnedSignatures } from "./state.ts";

/** The places of a message's parts in the caller's body. */
export type MessagePlace = {
  readonly whole: string;
  readonly parts: readonly string[];
  readonly calls?: readonly string[];
};

type ContentMessages = { readonly messages: Message[]; readonly places: MessagePlace[] };

/** Collects what a translation finds. @property nativeOnly takes what no other provider can be sent */
export type Translation = { readonly nativeOnly: NativeOnly; readonly names: FunctionNames };

export function conversationOf({ systemInstruction, contents }: GenerateContentBody, to: Translation): ContentMessages {
  const conversation = new Builder(to);
  conversation.system(systemInstruction?.parts ?? []);
  for (const [at, content] of contents.entries()) conversation.content(content, `contents[${at}]`);
  conversation.end();
  return conversation;
}

const isModel = ({ role }: Content): boolean => (role as string | null) === "model";

/** One part of the model's turn, with its place. */
type Placed = { readonly part: Part; readonly path: string };

class Builder implements ContentMessages {
  readonly messages: Message[] = [];
  readonly places: MessagePlace[] = [];
  readonly #to: Translation;
  readonly #calls = new Calls();
  /** Parts of the model's turn, which streams are given back in many contents. */
  #model: Placed[] = [];
  /** The place behind the results of the user's turn, which stand right behind the calls that they answer. */
  #resultsEnd = 0;

  constructor(to: Translation) {
    this.#to = to;
  }

  system(parts: readonly Part[]): void {
    const texts = parts.filter(({ text }) => text != null && text !== "");
    if (texts.length === 0) return;
    const content = texts.map(({ text }): TextPart => ({ type: "text", text: text! }));
    this.#add({ role: "system", content: content.length === 1 ? content[0]!.text : content }, "systemInstruction", []);
  }

  content(content: Content, path: string): void {
    const placed = (content.parts ?? []).map((part, at) => ({ part, path: `${path}.parts[${at}]` }));
    if (isModel(content)) {
      this.#model.push(...placed);
      return;
    }
    this.end();
    this.#user(placed, path);
  }

  /** Ends the model's turn. */
  end(): void {
    if (this.#model.length === 0) return;
    const parts = this.#model;
    this.#model = [];
    this.#calls.nextTurn();
    this.#assistant(parts);
    this.#resultsEnd = this.messages.length;
  }

  #add(message: Message, whole: string, parts: readonly string[], calls?: readonly string[]): void {
    this.messages.push(message);
    this.places.push({ whole, parts, ...(calls !== undefined && { calls }) });
  }

  #user(placed: readonly Placed[], whole: string): void {
    const parts: UserPart[] = [];
    const paths: string[] = [];
    const responses = placed.flatMap(({ part }) => part.functionResponse ?? []);
    const ids = responses.length === 0 ? [] : this.#calls.answered(responses);
    for (const { part, path } of placed) {
      if (part.functionResponse != null) {
        this.#result(part.functionResponse, ids.shift(), `${path}.functionResponse`);
        continue;
      }
      for (const one of userParts(part, path, this.#to.nativeOnly)) {
        parts.push(one);
        paths.push(path);
      }
    }
    const isSilent = responses.length === 0 && placed.some(({ part }) => part.text === "");
    if (parts.length === 0 && !isSilent) return;
    const [only] = parts;
    // The user said nothing, which is a turn, too.
    const content = only === undefined ? "" : parts.length === 1 && isText(only) ? only.text : parts;
    this.#add({ role: "user", content }, whole, paths);
  }

  #result(response: NonNullable<Part["functionResponse"]>, id: string | undefined, path: string): void {
    const { nativeOnly } = this.#to;
    if (id === undefined) {
      const isNamed = Boolean(response.id || response.name);
      const message = isNamed
        ? `${path} answers no functionCall of an earlier content.`
        : `${path} must name the function or the id of the call that it answers.`;
      nativeOnly.refuse(ApiError.invalidValue(path, message));
      return;
    }
    const media = (response.parts ?? []).flatMap(({ inlineData, fileData }, at) =>
      mediaParts({ inlineData, fileData } as Part, `${path}.parts[${at}]`, nativeOnly),
    );
    const { text, isError } = resultText(response.response ?? {});
    const message = {
      role: "tool",
      tool_call_id: id,
      content: media.length === 0 ? text : [{ type: "text", text }, ...media],
      ...(isError && { is_error: true }),
    };
    const place = { whole: path, parts: [path, ...media.map((_, at) => `${path}.parts[${at}]`)] };
    this.messages.splice(this.#resultsEnd, 0, message as ToolMessage);
    this.places.splice(this.#resultsEnd, 0, place);
    this.#resultsEnd += 1;
  }

  #assistant(placed: readonly Placed[]): void {
    const { nativeOnly, names } = this.#to;
    const state = new ReturnedSignatures();
    const texts: string[] = [];
    const thoughts: string[] = [];
    const images: JsonObject[] = [];
    const calls: ToolCall[] = [];
    const callPlaces: string[] = [];
    for (const { part, path } of placed) {
      const { text, thought, thoughtSignature, functionCall, inlineData } = part;
      if (functionCall != null) {
        const { id, name, args } = functionCall;
        const called = { name: names.inner(name), arguments: JSON.stringify(args ?? {}) };
        calls.push({
          id: this.#calls.called(id, name),
          type: "function",
          function: called,
          ...state.take(thoughtSignature),
        });
        callPlaces.push(`${path}.functionCall`);
        continue;
      }
      state.takeText(thoughtSignature);
      if (inlineData != null) {
        const { mimeType, data } = inlineData;
        if (thought !== true) images.push(imageOf(mimeType, data));
      } else if (text == null) {
        // Clients that leave out what is empty send an empty text back so.
        if (Object.keys(part).length > 0) refusePart(part, path, nativeOnly);
      } else if (text !== "") (thought === true ? thoughts : texts).push(text);
    }
    const said = texts.join("");
    const fields = state.fields();
    const isEmpty = said === "" && calls.length === 0 && images.length === 0 && Object.keys(fields).length === 0;
    if (isEmpty && thoughts.length === 0) return;
    const message = {
      role: "assistant",
      content: said === "" && calls.length > 0 ? null : said,
      ...(thoughts.length > 0 && { reasoning_content: thoughts.join("") }),
      ...fields,
      ...(images.length > 0 && { images }),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
    this.#add(message as AssistantMessage, placed[0]!.path, [], callPlaces);
  }
}

const imageOf = (mimeType: string, data: string): JsonObject => ({
  type: "image_url",
  image_url: { url: `data:${mimeType};base64,${data}` },
});

function userParts(part: Part, path: string, nativeOnly: NativeOnly): UserPart[] {
  if (part.text != null) return part.text === "" ? [] : [{ type: "text", text: part.text }];
  if (part.inlineData != null || part.fileData != null) return mediaParts(part, path, nativeOnly);
  refusePart(part, path, nativeOnly);
  return [];
}

function mediaParts({ inlineData, fileData }: Part, path: string, nativeOnly: NativeOnly): UserPart[] {
  if (inlineData != null) {
    try {
      return [inlinePart(inlineData, `${path}.inlineData.data`)];
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // Google reads it by itself.
      nativeOnly.refuse(error);
      return [];
    }
  }
  return fileData == null ? [] : uriPart(fileData, path, nativeOnly);
}

/** Members of a part beside its one kind of data. */
const besides: ReadonlySet<string> = new Set([
  ...["thought", "thoughtSignature", "videoMetadata", "mediaResolution", "partMetadata", "text"],
]);

function refusePart(part: Part, path: string, nativeOnly: NativeOnly): void {
  const kind = Object.entries(part).find(([name, value]) => value != null && !besides.has(name))?.[0];
  if (kind !== undefined) nativeOnly.part(`${path}.${kind}`, "such a part is known to Google alone.");
  else if (part.thoughtSignature == null && part.thought !== true) {
    nativeOnly.refuse(
      ApiError.invalidValue(path, `${path} must hold text, inlineData, fileData, a call or a response.`),
    );
  }
}

/** Google's own libraries wrap what is no object in one of these. */
const wrappers = ["output", "result"];

/** @returns the text that stands in place of an object; undefined for others */
export function textWrappedIn(response: JsonObject): string | undefined {
  const [name, ...others] = Object.keys(response);
  if (name === undefined || others.length > 0 || !wrappers.includes(name)) return undefined;
  const value = response[name];
  return typeof value === "string" ? value : undefined;
}

function resultText(response: JsonObject): { readonly text: string; readonly isError: boolean } {
  const wrapped = textWrappedIn(response);
  if (wrapped !== undefined) return { text: wrapped, isError: false };
  const { error, ...others } = response;
  if (error != null && Object.keys(others).length === 0)
    return { text: typeof error === "string" ? error : JSON.stringify(error), isError: true };
  return { text: JSON.stringify(response), isError: false };
}
