/** Calls of an answer for formats that know functions alone. */
import { truncate } from "../lib/text/truncate.ts";
import type { ToolCallDelta } from "./chat/schema.ts";
import { isOtherKind } from "./chat/tools.ts";
import { InvalidAnswer } from "./errors.ts";

/**
 * Calls of custom tools as those of functions with one text, `input`. They end with the answer, as fragments of parallel calls come
 * in turns.
 */
export class FunctionCalls {
  /** Places of custom calls whose text may go on. */
  readonly #open = new Set<number>();

  /** @throws InvalidAnswer for a call of another kind: nobody behind these formats could run it, or see that it was made */
  push(calls: readonly ToolCallDelta[] | undefined): readonly ToolCallDelta[] {
    if (calls === undefined || (this.#open.size === 0 && calls.every(isFunction))) return calls ?? [];
    return calls.map((call) => this.#asFunction(call));
  }

  /** @returns the ends of the custom calls */
  end(): readonly ToolCallDelta[] {
    const ends = [...this.#open].map((index) => ({ index, function: { arguments: '"}' } }));
    this.#open.clear();
    return ends;
  }

  #asFunction(given: ToolCallDelta): ToolCallDelta {
    refuseOtherKinds(given);
    const { custom, ...call } = given;
    const { index } = call;
    const isOpen = this.#open.has(index);
    if (custom === undefined || (!isOpen && custom.name === undefined)) return call;
    this.#open.add(index);
    const text = JSON.stringify(custom.input ?? "").slice(1, -1);
    if (isOpen) return { ...call, function: { arguments: text } };
    return { ...call, type: "function", function: { name: custom.name!, arguments: `{"input":"${text}` } };
  }
}

const isFunction = ({ type, function: called }: ToolCallDelta) =>
  called !== undefined && (type === undefined || type === "function");

/** @throws InvalidAnswer */
export function refuseOtherKinds(call: ToolCallDelta): void {
  if (!isOtherKind(call)) return;
  const type = truncate(String(call.type));
  throw new InvalidAnswer(`a call of a tool of type '${type}', which has no place in this format`);
}
