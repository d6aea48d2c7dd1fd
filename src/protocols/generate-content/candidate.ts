/**
 * One candidate of an answer, from the deltas of the inner form. A part holds one kind of data, and a call is whole: what comes
 * behind a call that is still coming waits for the end, where the state that the next turn needs is known too.
 */
import { type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import type { ChunkBody, Delta, FinishReason, ThinkingBlock, ToolCallDelta } from "../chat/schema.ts";
import { argumentsIn } from "../chat/tools.ts";
import { FunctionCalls } from "../function-calls.ts";
import { citationMetadata, finishReason } from "./ending.ts";
import { imagePart, signatureOfCall, signaturesOf } from "./state.ts";

/** Options of the request that its answer depends on. */
export type Shown = {
  /** True where the text of thoughts was asked for. */
  readonly thoughts: boolean;
  /** The caller's own names of functions, by those that were asked for. */
  readonly names: ReadonlyMap<string, string>;
};

type Call = { readonly position: number; readonly id: string; readonly name: string; written: string; extra: unknown };
type Waiting = Call | JsonObject;

const isCall = (one: Waiting): one is Call => "written" in one;

export class Candidate {
  readonly index: number;
  readonly #shown: Shown;
  #waiting: Waiting[] = [];
  readonly #calls = new Map<number, Call>();
  readonly #functions = new FunctionCalls();
  #blocks: readonly ThinkingBlock[] = [];
  #extra: Record<string, unknown> = {};
  readonly #details: unknown[] = [];
  readonly #annotations: unknown[] = [];
  #refusal = "";
  #finish: FinishReason | null = null;
  #broken: string | undefined;
  #isSilent = true;

  constructor(index: number, shown: Shown) {
    this.index = index;
    this.#shown = shown;
  }

  /** @returns the parts that can go out now @throws InvalidAnswer */
  push(delta: Delta, finish: FinishReason | null): JsonObject[] {
    this.#note(delta);
    const parts = this.#partsOf(delta);
    const goOut = this.#calls.size === 0;
    if (!goOut) this.#waiting.push(...parts);
    for (const call of this.#functions.push(delta.tool_calls)) this.#call(call);
    if (finish !== null) this.#finish = finish;
    if (parts.length > 0) this.#isSilent = false;
    return goOut ? parts : [];
  }

  /** @returns the last parts: what waited, with the state that the next turn needs; never none */
  end(): JsonObject[] {
    for (const call of this.#functions.end()) this.#call(call);
    const { own, envelopes } = signaturesOf({
      thinking_blocks: [...this.#blocks],
      extra_content: this.#extra,
      reasoning_details: this.#details,
    });
    const left = [...envelopes];
    const parts: JsonObject[] = [];
    for (const one of this.#waiting) {
      if (!isCall(one)) parts.push(one);
      else parts.push(...this.#callPart(one, left));
    }
    this.#waiting = [];
    if (own !== undefined) left.push(own);
    for (const thoughtSignature of left) parts.push({ text: "", thoughtSignature });
    return parts.length === 0 ? [{ text: "" }] : parts;
  }

  /** True where nothing was said, and all that is known is that it may not be. */
  get isBlocked(): boolean {
    return this.#isSilent && this.#calls.size === 0 && this.#finish === "content_filter";
  }

  /** The members of the end, beside the parts. */
  ending(metadata: ChunkBody["metadata"]): JsonObject {
    const citations = citationMetadata(this.#annotations);
    return {
      ...this.#reason(metadata),
      ...(citations !== undefined && { citationMetadata: citations }),
    };
  }

  #reason(metadata: ChunkBody["metadata"]): JsonObject {
    if (this.#broken !== undefined) return { finishReason: "MALFORMED_FUNCTION_CALL", finishMessage: this.#broken };
    if (this.#refusal !== "") return { finishReason: "SAFETY", finishMessage: this.#refusal };
    return { finishReason: finishReason(this.#finish, this.index, metadata) };
  }

  /** The refusal, in the words of the model or of whoever stands between. */
  get refusal(): string {
    return this.#refusal;
  }

  #note({ thinking_blocks, extra_content, annotations, refusal, ...rest }: Delta): void {
    if (thinking_blocks?.length) this.#blocks = [...this.#blocks, ...thinking_blocks];
    if (extra_content != null) this.#extra = { ...this.#extra, ...extra_content };
    this.#details.push(...listOf(rest["reasoning_details"]));
    this.#annotations.push(...(annotations ?? []));
    this.#refusal += refusal ?? "";
  }

  #partsOf(delta: Delta): JsonObject[] {
    const { reasoning_content, content } = delta;
    const parts: JsonObject[] = [];
    if (reasoning_content && this.#shown.thoughts) parts.push({ text: reasoning_content, thought: true });
    if (content) parts.push({ text: content });
    const audio = textOf(objectOf(delta["audio"])?.["data"]);
    if (audio) parts.push({ inlineData: { mimeType: "audio/L16;codec=pcm;rate=24000", data: audio } });
    for (const image of listOf(delta["images"])) parts.push(...imagePart(image, signatureOfCall));
    return parts;
  }

  #call({ index, id, function: called, extra_content }: ToolCallDelta): void {
    const known = this.#calls.get(index);
    if (known !== undefined) {
      known.written += called?.arguments ?? "";
      known.extra ??= extra_content;
      return;
    }
    if (called?.name === undefined) return;
    const name = this.#shown.names.get(called.name) ?? called.name;
    const call: Call = { position: index, id: id ?? "", name, written: called.arguments ?? "", extra: extra_content };
    this.#calls.set(index, call);
    this.#waiting.push(call);
  }

  /**
   * A call that was cut off must not be run, and none can be shown whose arguments are no object.
   * @param envelopes the turn's, of which the first call without a signature takes one
   */
  #callPart({ id, name, written, extra }: Call, envelopes: string[]): JsonObject[] {
    const args = argumentsIn(written);
    if (args === undefined) {
      if (this.#finish !== "length") this.#broken ??= `The arguments of '${name}' are no JSON object: ${written}`;
      return [];
    }
    const thoughtSignature = signatureOfCall(extra) ?? envelopes.shift();
    const functionCall = { ...(id !== "" && { id }), name, args };
    return [{ functionCall, ...(thoughtSignature !== undefined && { thoughtSignature }) }];
  }
}
