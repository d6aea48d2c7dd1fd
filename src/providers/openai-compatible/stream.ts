/**
 * The stream of an upstream that speaks chat completions, chunk by chunk.
 * Source: https://platform.openai.com/docs/api-reference/chat/streaming
 */

import type { Quirks } from "../../facts/vocabulary/chat.ts";
import { keepNumbers, longRun } from "../../lib/json/exact.ts";
import { isObject, type JsonObject, parseJson, saysNothing } from "../../lib/json/json.ts";
import { type SseEvent, sseFraming } from "../../lib/streams/sse.ts";
import { DetailNumbers } from "../../protocols/chat/reasoning-details.ts";
import type { Annotation, ChunkBody, ChunkChoice, Delta, ToolCallDelta, Usage } from "../../protocols/chat/schema.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { calledIn, isOtherKind, saysNoArguments, type ToolKind, toolKinds } from "../../protocols/chat/tools.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import type { MakeId } from "../made-ids.ts";
import type { StreamDecoder } from "../provider.ts";
import { eventIn, isSignOfLife, metadataOf, objectIn, objectsIn, plainWords, textIn } from "../reading.ts";
import {
  argumentsOf,
  audioOf,
  choiceExtrasOf,
  chunkExtrasOf,
  deltaExtrasOf,
  finishReasonOf,
  indexOf,
  isFailure,
  isPadding,
  stringOf,
  textsOf,
  thoughtsIn,
  usageOf,
} from "./answer.ts";
import { faultStatus, isFault, saysError } from "./faults.ts";
import { plainUsageOf } from "./plain-answer.ts";
import { type Served, withServed } from "./served.ts";
import { ThinkTags } from "./think-tags.ts";

/** A tool call that has begun. */
type OpenCall = {
  readonly upstreamIndex: number | undefined;
  id: string;
  /** Absent until its name is known: then it goes out. */
  index?: number;
  /** Sure once the call goes out. */
  type: ToolKind | "other";
  /** The input that came before the name. */
  held: string;
  hasArguments: boolean;
};

type ChoiceState = {
  readonly index: number;
  readonly tags: ThinkTags | undefined;
  readonly calls: OpenCall[];
  readonly makeId: (count: number) => string;
  /** They go out together: clients can't join lists without numbers. */
  readonly annotations: Annotation[];
  details?: DetailNumbers;
  hasFragments: boolean;
  finished: boolean;
  /** More came behind an end that was told: another end must be. */
  goesOn: boolean;
};

const nothing: ChunkBody[] = [];
/** These may ride on every chunk: short, and they never change. */
const perChunk = ["system_fingerprint", "service_tier"] as const;
/** Longer than `[DONE]` with some space around it. */
const maxWord = 16;

export class ChatStream implements StreamDecoder {
  readonly framing = sseFraming;
  finished = false;
  /** `[DONE]` came before a reason. */
  closing = false;
  readonly #quirks: Quirks;
  readonly #makeId: MakeId;
  readonly #choices = new Map<number, ChoiceState>();
  /** Fields beyond the format: each goes out once, with the end of a choice or of the stream. */
  #extras: JsonObject = {};
  readonly #sentExtras = new Set<string>();
  /** The text that the first one may repeat. */
  #echo: string | undefined;
  /** The event that told an end. */
  #ending = "";

  readonly #served: Served | undefined;
  #servedBy: string | undefined;

  /** @param echo a first text that is no answer but a repetition of what was sent @param served for calls that list several models */
  constructor(quirks: Quirks, makeId: MakeId, echo?: string, served?: Served) {
    this.#served = served;
    this.#quirks = quirks;
    this.#makeId = makeId;
    this.#echo = echo;
  }

  push({ data, event }: SseEvent): ChunkBody[] {
    if (data.length <= maxWord) {
      const word = data.trim();
      if (word === doneData) return this.#done();
      if (word === "") return nothing;
    }
    if (this.closing) throw new InvalidAnswer("more of the answer behind its end");
    // A comment that someone on the way took for data.
    if (data.startsWith(":") && this.#complete) return nothing;
    if (event === "error" && !isObject(parseJson(data))) throw new UpstreamFault(plainWords(data), 503);
    const chunk = eventIn(data);
    if (longRun.test(data)) keepNumbers(chunk, data);
    if (event === "error" || isFault(chunk))
      throw new UpstreamFault(data, faultStatus(chunk), usageOf(chunk["usage"], this.#quirks));
    if (this.#served !== undefined) this.#servedBy ??= this.#served(chunk["model"]);
    const plain = this.#plainFragment(chunk);
    if (plain !== undefined) return [plain];
    return isSilent(chunk, event) ? nothing : this.#bodies(chunk, data);
  }

  /** Without a reason for the end, `[DONE]` itself is the upstream's word that it ended; without an answer it is none. */
  #done(): ChunkBody[] {
    this.#checkEnds();
    if (this.#choices.size === 0 || this.#complete) this.finished = true;
    else this.closing = true;
    return nothing;
  }

  /** A choice without a finish reason stays without one, unless `[DONE]` came: the answer may well have been cut. */
  end(): ChunkBody[] {
    this.#checkEnds();
    const open = this.closing ? [...this.#choices.values()].filter(({ finished }) => !finished) : [];
    if (open.length > 0) {
      return this.#withExtras({ choices: open.map((state) => choiceOf(state, { finish_reason: "stop" })) });
    }
    const late = this.#complete ? this.#takeExtras() : undefined;
    return late === undefined ? [] : [{ choices: [], ...late }];
  }

  /** By far the most common chunk, a text fragment and no more: looked at once and sent on. */
  #plainFragment(chunk: JsonObject): ChunkBody | undefined {
    const choices = chunk["choices"] as JsonObject[] | undefined;
    const choice = choices?.[0];
    if (choice == null || choices!.length !== 1 || chunk["usage"] != null) return undefined;
    const delta = choice["delta"] as JsonObject | null | undefined;
    const content = delta?.["content"];
    if (typeof content !== "string" || this.#echo !== undefined) return undefined;
    const state = this.#choices.get(indexOf(choice, 0));
    if (state === undefined || state.finished || state.tags?.settled === false) return undefined;
    for (const key in delta!) if (key !== "content" && key !== "role" && delta[key] != null) return undefined;
    for (const key in choice) if (key !== "delta" && key !== "index" && choice[key] != null) return undefined;
    this.#keepExtras(chunk);
    return dressed(chunk, [{ index: state.index, delta: { content }, finish_reason: null }]);
  }

  #bodies(chunk: JsonObject, data: string): ChunkBody[] {
    this.#keepExtras(chunk);
    const given = objectsIn(chunk, "choices");
    const quirks = this.#quirks;
    const plain = quirks.usage_without_reasoning === true ? undefined : plainUsageOf(chunk["usage"]);
    let usage = plain ?? usageOf(chunk["usage"], quirks) ?? usageOf(groqUsage(chunk), quirks);
    const choices: ChunkChoice[] = [];
    for (const [at, choice] of given.entries()) {
      // https://platform.moonshot.ai/docs/api/chat puts the counts into the choice
      usage ??= usageOf(choice["usage"], quirks);
      if (saysError(choice["error"]) || isFailure(choice["finish_reason"])) {
        throw new UpstreamFault(data, faultStatus(choice), usage);
      }
      const state = this.#state(indexOf(choice, at));
      if (state.finished && !saysMore(choice)) continue;
      if (state.finished) this.#goOn(state, data);
      choices.push(this.#withoutEcho(choiceOf(state, choice)));
      if (state.finished) this.#ending = data;
    }
    if (usage !== undefined) usage = withServed(usage, this.#servedBy);
    const metadata = metadataOf(chunk["metadata"]);
    const whole = { ...(usage && { usage }), ...(metadata && { metadata }) };
    if (choices.length > 0) return this.#withExtras({ ...dressed(chunk, choices), ...whole });
    // A chunk without choices matters for its counts alone; Azure's first one has none either.
    return usage === undefined && metadata === undefined ? nothing : [{ choices: [], ...whole }];
  }

  /** The counts come with the end: before it only the model is known that answers, where it is another one. */
  get counted(): Usage | undefined {
    return withServed(undefined, this.#servedBy);
  }

  /** Every choice that began has ended. */
  get #complete(): boolean {
    return this.#choices.size > 0 && this.#choices.values().every(({ finished }) => finished);
  }

  /** Some tell an end with every call, or with every event: the last one counts. @throws InvalidAnswer for the same event again */
  #goOn(state: ChoiceState, data: string): void {
    state.goesOn = true;
    if (data === this.#ending) throw new InvalidAnswer("an event twice");
    state.finished = false;
  }

  /** @throws InvalidAnswer for more behind an end, with no end of its own: events may have changed their places */
  #checkEnds(): void {
    const isOpen = this.#choices.values().some(({ goesOn, finished }) => goesOn && !finished);
    if (isOpen) throw new InvalidAnswer("more of the answer behind its end");
  }

  #withoutEcho(choice: ChunkChoice): ChunkChoice {
    const { content, ...delta } = choice.delta;
    if (this.#echo === undefined || content === undefined) return choice;
    const repeats = content === this.#echo;
    this.#echo = undefined;
    return repeats ? { ...choice, delta } : choice;
  }

  /** The end of a choice carries the extras, and no fragment beside them: a body's extras ride on each of its chunks. */
  #withExtras(body: ChunkBody): ChunkBody[] {
    const ending = body.choices.filter(({ finish_reason }) => finish_reason !== null);
    const extras = ending.length > 0 ? this.#takeExtras() : undefined;
    if (extras === undefined) return [body];
    const open = body.choices.map((choice) => ({ ...choice, finish_reason: null }));
    const ends = ending.map(({ index, finish_reason }) => ({ index, delta: {}, finish_reason }));
    return [
      { ...body, choices: open },
      { ...extras, choices: ends },
    ];
  }

  #state(index: number): ChoiceState {
    let state = this.#choices.get(index);
    if (state === undefined) {
      state = {
        index,
        tags: this.#quirks.think_tags === true ? new ThinkTags() : undefined,
        calls: [],
        makeId: (count) => this.#makeId("call", index, count),
        annotations: [],
        hasFragments: false,
        finished: false,
        goesOn: false,
      };
      this.#choices.set(index, state);
    }
    return state;
  }

  #keepExtras(chunk: JsonObject): void {
    for (const key in chunk) {
      if (isCommon(key) || chunk[key] == null || this.#sentExtras.has(key)) continue;
      Object.assign(this.#extras, chunkExtrasOf({ [key]: chunk[key] }));
    }
  }

  #takeExtras(): JsonObject | undefined {
    const extras = this.#extras;
    const names = Object.keys(extras);
    if (names.length === 0) return undefined;
    for (const name of names) this.#sentExtras.add(name);
    this.#extras = {};
    return extras;
  }
}

function dressed(chunk: JsonObject, choices: ChunkChoice[]): ChunkBody {
  const body: ChunkBody = { choices };
  for (const name of perChunk) if (typeof chunk[name] === "string") body[name] = chunk[name];
  return body;
}

function isCommon(key: string): boolean {
  switch (key) {
    case "id":
    case "object":
    case "created":
    case "model":
    case "choices":
    case "usage":
    case "system_fingerprint":
    case "service_tier":
      return true;
    default:
      return isPadding(key);
  }
}

/** True if a choice that has ended says more words; many upstreams send its frame again, with nothing or with notes in it. */
function saysMore(choice: JsonObject): boolean {
  const delta = objectIn(choice, "delta") ?? {};
  const { content, tool_calls, function_call, refusal, audio } = delta;
  if (![content, tool_calls, function_call, audioOf(audio)].every(saysNothing)) return true;
  return stringOf(refusal) !== "" || thoughtsIn(delta) !== undefined;
}

/** What gateways send in a silence, in the form of other formats: `{"type":"ping"}`, or anything by such a name. */
const isSilent = (chunk: JsonObject, event: string) =>
  chunk["choices"] === undefined && (isSignOfLife(event) || isSignOfLife(String(chunk["type"])));

function choiceOf(state: ChoiceState, choice: JsonObject): ChunkChoice {
  const fragment = fragmentOf(state, choice);
  const isLast = isTold(choice);
  const { content, thoughts } = textsOf(isLast ? { content: "", ...fragment } : fragment, state.tags, isLast);
  const { annotations, ...delta }: Delta = deltaExtrasOf(fragment);
  if (delta["reasoning_details"] !== undefined) {
    state.details ??= new DetailNumbers();
    delta["reasoning_details"] = state.details.number(delta["reasoning_details"] as JsonObject[]);
  }
  if (annotations !== undefined) state.annotations.push(...annotations);
  if (isLast && state.annotations.length > 0) delta["annotations"] = state.annotations.splice(0);
  if (thoughts) delta.reasoning_content = thoughts;
  if (content) delta.content = content;
  const calls = callFragments(state, objectsIn(fragment, "tool_calls"));
  if (isLast) closeCalls(state.calls, calls);
  if (calls.length > 0) delta.tool_calls = calls;
  const finish_reason = finishReasonOf(choice, state.calls.some(isOut)) ?? null;
  if (finish_reason === "tool_calls" && state.calls.length === 0)
    throw new InvalidAnswer("an end with calls, and none of them");
  state.finished = finish_reason !== null;
  return { index: state.index, delta, finish_reason, ...choiceExtrasOf(choice) };
}

/**
 * Some send the message as far as it has come beside the fragment, where only the fragment counts; where there has been
 * no fragment at all, the message is the answer.
 */
function fragmentOf(state: ChoiceState, choice: JsonObject): JsonObject {
  const { role: _, ...delta } = objectIn(choice, "delta") ?? {};
  if (!saysNothing(delta)) state.hasFragments = true;
  // A message that grows beside empty fragments goes out at the end.
  const isAsked = !state.hasFragments && (choice["delta"] == null || isTold(choice));
  const message = isAsked ? objectIn(choice, "message") : undefined;
  return message ?? delta;
}

function isTold({ finish_reason }: JsonObject): boolean {
  return typeof finish_reason === "string" && finish_reason !== "";
}

/** https://console.groq.com/docs/api-reference#chat-create */
function groqUsage(chunk: JsonObject): unknown {
  return isObject(chunk["x_groq"]) ? chunk["x_groq"]["usage"] : undefined;
}

function callFragments({ calls, makeId }: ChoiceState, given: readonly JsonObject[]): ToolCallDelta[] {
  const fragments: ToolCallDelta[] = [];
  for (const entry of given) {
    for (const kind of toolKinds) objectIn(entry, kind);
    const call = callOf(calls, entry, textIn(calledIn(entry)?.said ?? {}, "name") ?? "");
    if (call.type === "other" || isOtherKind(entry)) {
      fragments.push(otherFragment(calls, call, entry, makeId));
      continue;
    }
    const type = toolKinds.find((kind) => kind === entry["type"]) ?? call.type;
    const { kind, said } = calledIn(entry, type) ?? { kind: type, said: {} };
    if (call.index === undefined) call.type = kind;
    const name = textIn(said, "name") ?? "";
    const text = kind === "function" ? argumentsOf(said["arguments"]) : (textIn(said, "input") ?? "");
    const fragment = call.index === undefined ? begin(calls, call, name, text, makeId) : more(call, text);
    if (fragment === undefined) continue;
    if (isObject(entry["extra_content"])) fragment.extra_content = entry["extra_content"];
    fragments.push(fragment);
  }
  return fragments;
}

/**
 * Finds the call that a fragment belongs to: by its index, or by its id where the index is missing (Mistral) or is 0 for all of them.
 * https://docs.mistral.ai/capabilities/function_calling
 */
function callOf(calls: OpenCall[], entry: JsonObject, name: string): OpenCall {
  const upstreamIndex = Number.isInteger(entry["index"]) ? (entry["index"] as number) : undefined;
  const id = stringOf(entry["id"]);
  const known =
    upstreamIndex !== undefined
      ? calls.findLast((call) => call.upstreamIndex === upstreamIndex)
      : id !== ""
        ? calls.findLast((call) => call.id === id)
        : name === ""
          ? calls.at(-1)
          : undefined;
  const isAnother = known !== undefined && id !== "" && known.id !== "" && id !== known.id && name !== "";
  if (known !== undefined && !isAnother) {
    if (known.id === "") known.id = id;
    return known;
  }
  const call: OpenCall = { upstreamIndex, id, type: "function", held: "", hasArguments: false };
  calls.push(call);
  return call;
}

function isOut({ index }: OpenCall): boolean {
  return index !== undefined;
}

/** Passes a fragment of a call of another type as it came. */
function otherFragment(
  calls: readonly OpenCall[],
  call: OpenCall,
  entry: JsonObject,
  makeId: ChoiceState["makeId"],
): ToolCallDelta {
  if (call.index !== undefined) return { ...entry, index: call.index };
  call.type = "other";
  call.index = calls.filter(isOut).length;
  return { ...entry, index: call.index, id: call.id || makeId(call.index) };
}

/** A call goes out once its name is known; what came earlier goes with it. */
function begin(
  calls: readonly OpenCall[],
  call: OpenCall,
  name: string,
  text: string,
  makeId: ChoiceState["makeId"],
): ToolCallDelta | undefined {
  call.held += text;
  if (name === "") return undefined;
  const index = calls.filter(isOut).length;
  call.index = index;
  // What says so comes in one piece: an object begins otherwise.
  if (call.type !== "custom" && saysNoArguments(call.held)) call.held = "";
  call.hasArguments = call.held !== "";
  const id = call.id || makeId(index);
  return call.type === "custom"
    ? { index, id, type: "custom", custom: { name, input: call.held } }
    : { index, id, type: "function", function: { name, arguments: call.held } };
}

function more(call: OpenCall, text: string): ToolCallDelta | undefined {
  if (text === "" || (!call.hasArguments && call.type !== "custom" && saysNoArguments(text))) return undefined;
  call.hasArguments = true;
  return call.type === "custom"
    ? { index: call.index!, custom: { input: text } }
    : { index: call.index!, function: { arguments: text } };
}

/** A call without arguments still ends with valid JSON. @throws InvalidAnswer for arguments of which nobody said whose */
function closeCalls(calls: readonly OpenCall[], fragments: ToolCallDelta[]): void {
  for (const call of calls) {
    const { index } = call;
    if (index === undefined && call.held !== "") throw new InvalidAnswer("a part of a call that has not begun");
    if (index === undefined || call.hasArguments || call.type !== "function") continue;
    const begun = fragments.find((fragment) => fragment.index === index)?.function;
    call.hasArguments = true;
    if (begun === undefined) fragments.push({ index, function: { arguments: "{}" } });
    else begun.arguments = "{}";
  }
}
