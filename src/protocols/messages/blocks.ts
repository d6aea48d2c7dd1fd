/**
 * The content blocks of one answer, from the deltas of the inner form. This format has one open block at a time: what comes for
 * another one while a call's arguments are still coming waits until that call is whole.
 */
import { type JsonObject, listOf, parseJson } from "../../lib/json/json.ts";
import type { Delta, ThinkingBlock, ToolCallDelta } from "../chat/schema.ts";
import { FunctionCalls } from "../function-calls.ts";
import { citationOf } from "./citations.ts";
import { cleanId } from "./facts.ts";
import { EndedState, type MessageState, sealOfCall, sealOfNothing, type ThinkingShown } from "./thinking.ts";

/** Receives blocks as they begin, grow and end, one after another. */
export interface BlockSink {
  start(index: number, block: JsonObject): void;
  delta(index: number, delta: JsonObject): void;
  stop(index: number): void;
}

/** A piece of an answer that can wait for its turn. */
type Piece =
  | { readonly kind: "text" | "thinking"; text: string }
  | { readonly kind: "state"; readonly block: ThinkingBlock }
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
type Open = { readonly kind: "text" } | { readonly kind: "thinking"; text: string } | Call;

/** Stands between the thoughts of several blocks where they are one text. */
const thoughtSeparator = "\n\n";

export class Blocks {
  readonly #sink: BlockSink;
  readonly #shown: ThinkingShown;
  #next = 0;
  #open: Open | undefined;
  #waiting: Piece[] = [];
  readonly #state: EndedState;
  /** State that stands before the next text or call: it belongs to no thought that is open, and no answer ends with it. */
  #before: ThinkingBlock[] = [];
  #hasThoughts = false;
  /** True once the open thought has its signature. */
  #isSigned = false;
  /** Positions of the calls that ended. */
  readonly #ended = new Set<number>();
  #calls = 0;
  readonly #functions = new FunctionCalls();
  readonly #answerId: string;

  /** @param answerId names the answer in its envelopes, so that what comes too late for them is found by it */
  constructor(sink: BlockSink, shown: ThinkingShown, answerId: string) {
    this.#sink = sink;
    this.#shown = shown;
    this.#answerId = answerId;
    this.#state = new EndedState(answerId);
  }

  /** The number of calls of the caller's tools. */
  get calls(): number {
    return this.#calls;
  }

  /** @throws InvalidAnswer */
  push(delta: Delta): void {
    const { reasoning_content, content, refusal, tool_calls } = delta;
    if (reasoning_content) this.#take({ kind: "thinking", text: reasoning_content });
    // A whole answer in one piece has its state beside what it led to.
    if (delta.extra_content != null || delta.thinking_blocks != null || delta["reasoning_details"] != null)
      this.endThought(delta);
    if (this.#state.hasDetails && (content || refusal || tool_calls?.length)) this.#takeDetails();
    if (content) this.#take({ kind: "text", text: content });
    if (refusal) this.#take({ kind: "text", text: refusal });
    for (const annotation of listOf(delta.annotations)) {
      const citation = citationOf(annotation);
      if (citation !== undefined) this.#take({ kind: "citation", citation });
    }
    for (const call of this.#functions.push(tool_calls)) this.#call(call);
  }

  /** The state of a thought that ended: of the one that is open, or of one without a text. */
  endThought(state: MessageState): void {
    if (this.#shown === "none") return;
    for (const block of this.#state.take(state)) this.#take({ kind: "state", block });
  }

  /** Anthropic's own blocks, where they are known before what they led to. */
  native(blocks: readonly ThinkingBlock[]): void {
    for (const block of blocks) this.#whole(block);
  }

  /** No more deltas: whatever waits is written, and the last block ends. State that nothing follows has no place any more. */
  finish(): void {
    for (const call of this.#functions.end()) this.#call(call);
    this.#takeDetails();
    this.#close();
    for (const piece of this.#waiting.splice(0)) this.#write(piece);
    this.#close();
    this.#before = [];
  }

  #takeDetails(): void {
    const block = this.#state.takeDetails();
    if (block !== undefined && this.#shown !== "none") this.#take({ kind: "state", block });
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
        if (this.#shown === "text") this.#think(piece.text);
        return;
      case "state":
        this.#endThought(piece.block);
        return;
      case "citation":
        // Many upstreams name their sources last of all. A block that has ended takes no more.
        if (this.#open?.kind === "text")
          this.#sink.delta(this.#next - 1, { type: "citations_delta", citation: piece.citation });
        return;
      case "call":
        if (piece.seal !== undefined) this.#endThought({ type: "redacted_thinking", data: piece.seal });
        this.#calls += 1;
        this.#begin({ ...piece, written: "" }, { type: "tool_use", id: piece.id, name: piece.name, input: {} });
        this.#arguments(this.#open as Call, piece.written);
    }
  }

  /** Goes on with the open thought, or begins one: without what separates it from the one before, which its maker did not sign. */
  #think(text: string): void {
    const isNext = this.#open?.kind !== "thinking" && this.#hasThoughts && text.startsWith(thoughtSeparator);
    const own = isNext ? text.slice(thoughtSeparator.length) : text;
    if (own === "") return;
    this.#hasThoughts = true;
    this.#begin({ kind: "thinking", text: "" }, { type: "thinking", thinking: "", signature: "" });
    const open = this.#open as Extract<Open, { kind: "thinking" }>;
    open.text += own;
    this.#sink.delta(this.#next - 1, { type: "thinking_delta", thinking: own });
  }

  /** Signs the open thought, where the state is of that one; else it stands before what comes next. */
  #endThought(block: ThinkingBlock): void {
    const open = this.#open;
    if (open?.kind !== "thinking") {
      this.#before.push(block);
      return;
    }
    const signature = this.#state.signatureFor(block, open.text);
    if (signature === undefined) {
      this.#close();
      this.#before.push(block);
      return;
    }
    this.#sign(signature);
    this.#close();
  }

  #sign(signature: string): void {
    this.#sink.delta(this.#next - 1, { type: "signature_delta", signature });
    this.#isSigned = true;
  }

  #whole(block: ThinkingBlock): void {
    this.#close();
    this.#sink.start(this.#next, { ...block });
    this.#sink.stop(this.#next);
    this.#next += 1;
  }

  #arguments(call: Call, written: string): void {
    call.written += written;
    this.#sink.delta(this.#next - 1, { type: "input_json_delta", partial_json: written });
  }

  /** Goes on in an open block of the kind, or begins one. */
  #begin(open: Open, block: JsonObject): void {
    if (this.#open?.kind === open.kind && open.kind !== "call" && this.#before.length === 0) return;
    this.#close();
    for (const block of this.#before.splice(0)) this.#whole(block);
    this.#open = open;
    this.#sink.start(this.#next, block);
    this.#next += 1;
  }

  #close(): void {
    if (this.#open === undefined) return;
    if (this.#open.kind === "call") this.#ended.add(this.#open.position);
    // Clients take a thought without a signature for words of the user, or refuse it.
    if (this.#open.kind === "thinking" && !this.#isSigned) this.#sign(sealOfNothing(this.#answerId));
    this.#isSigned = false;
    this.#open = undefined;
    this.#sink.stop(this.#next - 1);
  }
}

function isWhole({ written }: Call): boolean {
  return written.trimEnd().endsWith("}") && parseJson(written) !== undefined;
}
