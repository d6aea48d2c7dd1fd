/**
 * The content blocks of one answer, from the deltas of the inner form. This format has one open block at a time: what comes for
 * another one while a call's arguments are still coming waits until that call is whole.
 */
import { type JsonObject, listOf, parseJson } from "../../lib/json/json.ts";
import { wholeDetails } from "../chat/reasoning-details.ts";
import type { Delta, ThinkingBlock, ToolCallDelta } from "../chat/schema.ts";
import { FunctionCalls } from "../function-calls.ts";
import { citationOf } from "./citations.ts";
import { cleanId } from "./facts.ts";
import { sealOfBlocks, sealOfCall, sealOfMessage, type ThinkingShown } from "./thinking.ts";

/** Receives blocks as they begin, grow and end, one after another. */
export interface BlockSink {
  start(index: number, block: JsonObject): void;
  delta(index: number, delta: JsonObject): void;
  stop(index: number): void;
}

/** A piece of an answer that can wait for its turn. */
type Piece =
  | { readonly kind: "text" | "thinking"; text: string }
  | { readonly kind: "seal"; readonly seal: string }
  | { readonly kind: "citation"; readonly citation: JsonObject }
  | Call;
type Call = {
  readonly kind: "call";
  readonly position: number;
  id: string;
  name: string;
  written: string;
  seal: string | undefined;
};

/** `written` is what came of the arguments so far, from which it follows whether the call is whole. */
type Open = { readonly kind: "text" } | { readonly kind: "thinking" } | Call;

export class Blocks {
  readonly #sink: BlockSink;
  readonly #shown: ThinkingShown;
  #next = 0;
  #open: Open | undefined;
  #waiting: Piece[] = [];
  readonly #details: unknown[] = [];
  /** Positions of the calls that ended. */
  readonly #ended = new Set<number>();
  #calls = 0;
  readonly #functions = new FunctionCalls();

  constructor(sink: BlockSink, shown: ThinkingShown) {
    this.#sink = sink;
    this.#shown = shown;
  }

  /** The number of calls of the caller's tools. */
  get calls(): number {
    return this.#calls;
  }

  /** @throws InvalidAnswer */
  push(delta: Delta): void {
    const { reasoning_content, content, refusal, tool_calls, thinking_blocks, extra_content } = delta;
    const details = listOf(delta["reasoning_details"]);
    if (this.#shown !== "none") this.#details.push(...details);
    if (reasoning_content) this.#take({ kind: "thinking", text: reasoning_content });
    // A whole answer in one piece has its state beside its thoughts.
    const state = this.#shown === "none" ? undefined : sealOfMessage({ extra_content: extra_content ?? null });
    if (state !== undefined && reasoning_content) this.#take({ kind: "seal", seal: state });
    if (content) this.#take({ kind: "text", text: content });
    if (refusal) this.#take({ kind: "text", text: refusal });
    for (const annotation of listOf(delta.annotations)) {
      const citation = citationOf(annotation);
      if (citation !== undefined) this.#take({ kind: "citation", citation });
    }
    for (const call of this.#functions.push(tool_calls)) this.#call(call);
    if (state !== undefined && !reasoning_content) this.#take({ kind: "seal", seal: state });
    if (thinking_blocks?.length) this.#take({ kind: "seal", seal: sealOfBlocks(thinking_blocks) });
  }

  /** Anthropic's own blocks, where they are known before what they led to. */
  native(blocks: readonly ThinkingBlock[]): void {
    for (const block of blocks) {
      this.#close();
      this.#sink.start(this.#next, { ...block });
      this.#sink.stop(this.#next);
      this.#next += 1;
    }
  }

  /** No more deltas: whatever waits is written, and the last block ends. */
  finish(): void {
    for (const call of this.#functions.end()) this.#call(call);
    if (this.#details.length > 0) {
      const seal = sealOfMessage({ reasoning_details: wholeDetails(this.#details) });
      if (seal !== undefined) this.#take({ kind: "seal", seal });
      this.#details.length = 0;
    }
    this.#close();
    for (const piece of this.#waiting.splice(0)) this.#write(piece);
    this.#close();
  }

  #call({ index, id, function: called, extra_content }: ToolCallDelta): void {
    const written = called?.arguments ?? "";
    const open = this.#open;
    if (open?.kind === "call" && open.position === index) {
      this.#arguments(open, written);
      if (this.#waiting.length > 0 && written.trimEnd().endsWith("}")) this.#release();
      return;
    }
    const waiting = this.#waiting.find((piece) => piece.kind === "call" && piece.position === index) as
      | Call
      | undefined;
    if (waiting !== undefined) {
      waiting.written += written;
      return;
    }
    // A call that is whole is followed by space at most.
    if (called?.name === undefined || this.#ended.has(index)) return;
    const seal = this.#shown === "none" ? undefined : sealOfCall(cleanId(id ?? ""), extra_content);
    this.#take({ kind: "call", position: index, id: cleanId(id ?? ""), name: called.name, written, seal });
  }

  /** Writes a piece, or lets it wait for the end of the open call. */
  #take(piece: Piece): void {
    if (this.#open?.kind === "call" && this.#waiting.length === 0 && isWhole(this.#open)) this.#close();
    if (this.#open?.kind !== "call") {
      this.#write(piece);
      return;
    }
    const last = this.#waiting.at(-1);
    if (last?.kind === piece.kind && (piece.kind === "text" || piece.kind === "thinking")) {
      (last as typeof piece).text += piece.text;
    } else this.#waiting.push(piece);
  }

  /** The open call may be whole now: then what waits is written, up to the next call that is not. */
  #release(): void {
    while (this.#open?.kind === "call" && isWhole(this.#open)) {
      this.#close();
      while (this.#waiting.length > 0 && this.#open?.kind !== "call") this.#write(this.#waiting.shift()!);
    }
  }

  #write(piece: Piece): void {
    switch (piece.kind) {
      case "text":
        this.#begin({ kind: "text" }, { type: "text", text: "" });
        this.#sink.delta(this.#next - 1, { type: "text_delta", text: piece.text });
        return;
      case "thinking":
        if (this.#shown !== "text") return;
        this.#begin({ kind: "thinking" }, { type: "thinking", thinking: "", signature: "" });
        this.#sink.delta(this.#next - 1, { type: "thinking_delta", thinking: piece.text });
        return;
      case "seal":
        this.#seal(piece.seal);
        return;
      case "citation":
        // Many upstreams name their sources last of all. A block that has ended takes no more.
        if (this.#open?.kind === "text")
          this.#sink.delta(this.#next - 1, { type: "citations_delta", citation: piece.citation });
        return;
      case "call":
        if (piece.seal !== undefined) this.#seal(piece.seal);
        this.#close();
        this.#calls += 1;
        this.#begin({ ...piece, written: "" }, { type: "tool_use", id: piece.id, name: piece.name, input: {} });
        this.#arguments(this.#open as Call, piece.written);
    }
  }

  /** Puts a seal on the thought that it came with, else in a block of its own. */
  #seal(seal: string): void {
    if (this.#open?.kind === "thinking") {
      this.#sink.delta(this.#next - 1, { type: "signature_delta", signature: seal });
      this.#close();
      return;
    }
    this.#close();
    this.#sink.start(this.#next, { type: "redacted_thinking", data: seal });
    this.#sink.stop(this.#next);
    this.#next += 1;
  }

  #arguments(call: Call, written: string): void {
    call.written += written;
    this.#sink.delta(this.#next - 1, { type: "input_json_delta", partial_json: written });
  }

  /** Goes on in an open block of the kind, or begins one. */
  #begin(open: Open, block: JsonObject): void {
    if (this.#open?.kind === open.kind && open.kind !== "call") return;
    this.#close();
    this.#open = open;
    this.#sink.start(this.#next, block);
    this.#next += 1;
  }

  #close(): void {
    if (this.#open === undefined) return;
    if (this.#open.kind === "call") this.#ended.add(this.#open.position);
    this.#open = undefined;
    this.#sink.stop(this.#next - 1);
  }
}

function isWhole({ written }: Call): boolean {
  return written.trimEnd().endsWith("}") && parseJson(written) !== undefined;
}
