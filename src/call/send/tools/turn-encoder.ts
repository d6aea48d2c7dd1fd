/** Writes the turns of a model that calls tools as one streamed message, whatever the client's format. */
import { downgradeChunk } from "../../../protocols/chat/legacy-functions.ts";
import type { ChunkBody, ChunkChoice, Delta, Metadata, ToolCallDelta, Usage } from "../../../protocols/chat/schema.ts";
import type { ErrorFields, EventEncoder } from "../../../protocols/protocol.ts";
import { addedUsage, joinedMetadata, turnBreak } from "./merge.ts";

type TurnEncoderOptions = {
  /** The client's own, one for all turns. */
  readonly encoder: EventEncoder;
  /** True for a tool that is called here. */
  readonly owns: (name: string) => boolean;
  /** Texts of turns that call tools are left out, as the answer has to be one JSON text. */
  readonly holdsText: boolean;
  /** The caller used the deprecated `functions`. */
  readonly legacyFunctions: boolean;
  /** Called with each chunk that the client gets. */
  readonly onChunk: ((chunk: ChunkBody) => void) | undefined;
};

/** State that continues a thought, which a client may give back: that of the last turn alone fits what it got. */
const stateNames: readonly string[] = ["thinking_blocks", "extra_content", "reasoning_details"];

export class TurnEncoder implements EventEncoder {
  readonly #options: TurnEncoderOptions;
  #hasBegun = false;
  #hasText = false;
  /** A later turn's text follows that of an earlier one. */
  #needsBreak = false;
  #usage: Usage | undefined;
  #metadata: Metadata | undefined;
  /** The number that the client knows of each call of its own tools, by the upstream's; undefined: a call that is made here. */
  #calls = new Map<number, number | undefined>();
  #callsShown = 0;
  /** What continues the thought behind this turn's calls, where a call that is made here had it: the first of the others takes it. */
  #callState: ToolCallDelta["extra_content"];
  /** Chunks of this turn that are given once it is known to be the last. */
  #held: ChunkBody[] = [];
  #finish: ChunkBody | undefined;

  constructor(options: TurnEncoderOptions) {
    this.#options = options;
  }

  /** Begins the next turn: what was held back of the one before is dropped. */
  nextTurn(): void {
    this.#held = [];
    this.#finish = undefined;
    this.#calls = new Map();
    this.#callState = undefined;
    this.#needsBreak = this.#hasText;
  }

  push(chunk: ChunkBody, events: string[]): void {
    const { choices, usage, metadata, ...rest } = chunk;
    if (usage != null) this.#usage = addedUsage(this.#usage, usage);
    if (metadata !== undefined) this.#metadata = joinedMetadata(this.#metadata, metadata);
    const [choice] = choices;
    if (choice === undefined) {
      // The reasoning of a turn whose calls are made here can't be sent back without them; the last turn's end has its own again.
      if (rest.ended_thought?.extra_content !== undefined) return;
      if (usage == null) this.#give({ ...rest, choices }, events);
      return;
    }
    if (choice.finish_reason !== null) {
      this.#finish = { ...rest, choices };
      return;
    }
    this.#deliver(rest, choice, this.#ownDelta(choice.delta), events);
  }

  end(): void {
    // A turn's end is the answer's end only where `finish` says so.
  }

  fault(error: ErrorFields, events: string[]): void {
    this.#options.encoder.fault(error, events);
  }

  /** Ends the answer with the turn that has just ended. @param calls its metadata */
  finish(calls: Metadata | undefined, events: string[]): void {
    for (const held of this.#held) this.#give(held, events);
    this.#held = [];
    const metadata = joinedMetadata(this.#metadata, calls);
    const { choices = [], ...rest } = this.#finish ?? {};
    const ended = choices.map((choice) => {
      const isLeftOut = choice.finish_reason === "tool_calls" && this.#callsShown === 0;
      return isLeftOut ? { ...choice, finish_reason: "length" as const } : choice;
    });
    this.#give({ ...rest, choices: ended, ...(metadata !== undefined && { metadata }) }, events);
    this.#give({ choices: [], ...(this.#usage !== undefined && { usage: this.#usage }) }, events);
    this.#options.encoder.end(events);
  }

  /** Gives a fragment, but for the state of thoughts and, where texts are held back, text. */
  #deliver(rest: Partial<ChunkBody>, choice: ChunkChoice, delta: Delta, events: string[]): void {
    const held: Delta = {};
    const shown: Delta = {};
    for (const [name, value] of Object.entries(delta)) {
      const isHeld = stateNames.includes(name) || (name === "content" && this.#options.holdsText);
      if (isHeld) held[name] = value;
      else shown[name] = name === "content" ? this.#textAfterBreak(value as string | null) : value;
    }
    const { logprobs: _, ...bare } = choice;
    if (Object.keys(held).length > 0) this.#held.push({ choices: [{ ...bare, delta: held }] });
    if (Object.keys(shown).length > 0) this.#give({ ...rest, choices: [{ ...choice, delta: shown }] }, events);
  }

  #textAfterBreak(content: string | null): string | null {
    if (!content) return content;
    const text = this.#needsBreak ? turnBreak + content : content;
    this.#needsBreak = false;
    this.#hasText = true;
    return text;
  }

  /** The fragment without the calls that are made here, the others numbered from 0 over all turns; the role once. */
  #ownDelta({ role, tool_calls, ...delta }: Delta): Delta {
    const own: Delta = { ...(role !== undefined && !this.#hasBegun && { role }), ...delta };
    this.#hasBegun ||= role !== undefined;
    const calls = (tool_calls ?? []).flatMap((call) => this.#ownCall(call));
    // Beside calls that are made here, there is no text yet.
    if (tool_calls !== undefined && calls.length === 0 && own.content === null) own.content = "";
    return calls.length === 0 ? own : { ...own, tool_calls: calls };
  }

  #ownCall(call: ToolCallDelta): ToolCallDelta[] {
    const isFirst = !this.#calls.has(call.index);
    if (isFirst) {
      const isOwned = call.function?.name !== undefined && this.#options.owns(call.function.name);
      this.#calls.set(call.index, isOwned ? undefined : this.#callsShown);
      if (!isOwned) this.#callsShown += 1;
    }
    const index = this.#calls.get(call.index);
    if (index === undefined) {
      this.#callState ??= call.extra_content;
      return [];
    }
    const state = isFirst ? (call.extra_content ?? this.#callState) : call.extra_content;
    if (isFirst) this.#callState = undefined;
    return [{ ...call, index, ...(state !== undefined && { extra_content: state }) }];
  }

  #give(chunk: ChunkBody, events: string[]): void {
    const { encoder, legacyFunctions, onChunk } = this.#options;
    onChunk?.(chunk);
    encoder.push(legacyFunctions ? downgradeChunk(chunk) : chunk, events);
  }
}
