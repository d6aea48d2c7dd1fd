/** Reads one candidate of Gemini's answers, event by event. */
import { isEmpty, type JsonObject, listOf, objectOf, saysNothing, textOf } from "../../lib/json/json.ts";
import type { ChunkChoice, Delta, FinishReason, ToolCallDelta } from "../../protocols/chat/schema.ts";
import { InvalidAnswer } from "../../protocols/errors.ts";
import { finishOf, logprobsOf, reasonOf } from "../../protocols/generate-content/ending.ts";
import { idsFor, type MakeId } from "../made-ids.ts";
import type { AnsweredCall } from "../provider.ts";
import { objectIn, objectsIn, textAt, textIn } from "../reading.ts";
import { citationsOf } from "./citations.ts";
import { PartialArguments } from "./partial-arguments.ts";
import { thoughtsWanted } from "./thinking.ts";

/** A call whose arguments are still coming, piece by piece. */
type OpenCall = { readonly call: ToolCallDelta; readonly pieces: PartialArguments };

/** Reads the events of one candidate, and keeps its state between them. */
export class CandidateReader {
  readonly #index: number;
  readonly #makeId: MakeId;
  readonly #withThoughts: boolean;
  #toolCalls = 0;
  #images = 0;
  #open: OpenCall | undefined;
  #signature: string | undefined;
  #continuation: string | undefined;
  #grounding: JsonObject | undefined;
  #text = "";
  /** How many citations went out. */
  #cited = 0;
  /** The end that was told, while nothing more is said: the last one counts, as some models tell one with every event. */
  #reason: string | undefined;

  get finished(): boolean {
    return this.#reason !== undefined;
  }

  get grounding(): JsonObject | undefined {
    return this.#grounding;
  }

  constructor(index: number, call: AnsweredCall) {
    this.#index = index;
    this.#makeId = idsFor(call);
    this.#withThoughts = thoughtsWanted(call) === true;
  }

  /** @param whole whether this is the whole candidate: it may lack a finish reason, but not be empty */
  read(candidate: JsonObject, whole: boolean): ChunkChoice | undefined {
    const delta: Delta = {};
    const content = objectIn(candidate, "content");
    for (const part of content === undefined ? [] : objectsIn(content, "parts")) this.#part(part, delta);
    const finishReason = reasonOf(textOf(candidate["finishReason"]));
    if (isEmpty(delta) && this.#reason !== undefined && (finishReason ?? this.#reason) === this.#reason)
      return undefined;
    this.#reason = undefined;
    this.#text += delta.content ?? "";
    this.#grounding = objectOf(candidate["groundingMetadata"]) ?? this.#grounding;
    this.#continuation = textOf(candidate["continuationToken"]) ?? this.#continuation;
    if (whole && finishReason === undefined && isEmpty(delta)) throw new InvalidAnswer("an empty answer");
    const reason = finishReason ?? (whole ? "STOP" : undefined);
    const finish_reason = reason === undefined ? null : this.#finish(reason, delta);
    const logprobs = logprobsOf(objectOf(candidate["logprobsResult"]));
    if (finish_reason === null && logprobs === undefined && isEmpty(delta)) return undefined;
    return { index: this.#index, delta, finish_reason, ...(logprobs !== undefined && { logprobs }) };
  }

  #part(part: JsonObject, delta: Delta): void {
    const functionCall = objectIn(part, "functionCall");
    const inlineData = objectIn(part, "inlineData");
    const signature = textOf(part["thoughtSignature"]);
    const isThought = part["thought"] === true;
    // A thought that is no text is none; it never costs the answer.
    const text = (isThought ? textOf(part["text"]) : textIn(part, "text")) ?? "";
    // An empty call ends one that came in pieces, unless the part says something else.
    const isElse = text !== "" || !saysNothing(inlineData);
    if (functionCall !== undefined && !(isElse && saysNothing(functionCall))) {
      this.#functionCall(functionCall, signature, delta);
    } else if (inlineData !== undefined && !saysNothing(inlineData)) {
      this.#inlineData(inlineData, isThought, signature, delta);
    } else if (isThought) {
      if (this.#withThoughts) delta.reasoning_content = (delta.reasoning_content ?? "") + text;
    } else {
      if (text !== "") delta.content = (delta.content ?? "") + text;
      this.#signature = signature ?? this.#signature;
    }
  }

  /** Calls arrive whole, or, where streamed arguments were asked for, as a name, pieces of arguments, and an empty call. */
  #functionCall(given: JsonObject, signature: string | undefined, delta: Delta): void {
    const name = textIn(given, "name") || undefined;
    const pieces = objectsIn(given, "partialArgs");
    if (name !== undefined) {
      this.#closeCall(delta);
      const id = textOf(given["id"]) || this.#makeId("call", this.#index, this.#toolCalls);
      const call: ToolCallDelta = {
        index: this.#toolCalls++,
        id,
        type: "function",
        function: { name, arguments: JSON.stringify(objectIn(given, "args") ?? {}) },
        ...(signature && { extra_content: { google: { thought_signature: signature } } }),
      };
      this.#open = { call, pieces: new PartialArguments() };
    }
    if (this.#open === undefined) {
      if (pieces.length > 0 || given["args"] != null) throw new InvalidAnswer("a part of a call that has not begun");
      return;
    }
    for (const piece of pieces) this.#open.pieces.add(piece);
    if (given["willContinue"] !== true) this.#closeCall(delta);
  }

  /** @param isCut whether the answer was cut short within it */
  #closeCall(delta: Delta, isCut = false): void {
    if (this.#open === undefined) return;
    const { call, pieces } = this.#open;
    if (!isCut) pieces.end();
    if (!pieces.empty) call.function = { ...call.function, arguments: JSON.stringify(pieces.value) };
    delta.tool_calls = [...(delta.tool_calls ?? []), call];
    this.#open = undefined;
  }

  /** Images have no field in the public format: they go where other gateways put them too. Draft images are thoughts. */
  #inlineData(media: JsonObject, isThought: boolean, signature: string | undefined, delta: Delta): void {
    const [mimeType, data] = [textAt(media, "mimeType"), textAt(media, "data")];
    if (isThought) return;
    if (mimeType.startsWith("audio/")) {
      delta["audio"] = { id: this.#makeId("audio", this.#index, 0), data, transcript: "", expires_at: 0 };
      return;
    }
    const image = {
      index: this.#images++,
      type: "image_url",
      image_url: { url: `data:${mimeType};base64,${data}` },
      ...(signature && { extra_content: { google: { thought_signature: signature } } }),
    };
    delta["images"] = [...listOf(delta["images"]), image];
  }

  #finish(reason: string, delta: Delta): FinishReason {
    this.#reason = reason;
    this.#closeCall(delta, reason !== "STOP");
    const state = {
      ...(this.#signature && { thought_signature: this.#signature }),
      ...(reason === "CONTINUATION" && this.#continuation && { continuation_token: this.#continuation }),
    };
    if (!isEmpty(state)) delta.extra_content = { google: state };
    const annotations = citationsOf(this.#grounding, this.#text).slice(this.#cited);
    this.#cited += annotations.length;
    if (annotations.length > 0) delta.annotations = annotations;
    return finishOf(reason, this.#toolCalls > 0);
  }
}
