/** Ids of tool calls for upstreams that want each of them once in a conversation. */
import type { Message } from "../protocols/chat/schema.ts";

/**
 * The ids of a conversation's calls and results. What is unique already stays as it is; some upstreams count from one in
 * every turn, so that a long conversation holds an id many times. A result has the id of the call that it answers: of the
 * last turn that calls by its id, in the order of that turn's calls.
 * @param form an id in the characters and the length that are taken; gives back an id that fits
 * @returns for each message the ids of its calls, or the one of its result
 */
export function uniqueCallIds(messages: readonly Message[], form: (id: string) => string): (readonly string[])[] {
  const said = messages.map(saidIds);
  const ids = new UniqueIds(new Set(said.flat()), form);
  const answerable = new Map<string, { readonly turn: number; readonly ids: string[]; answered: number }>();
  let turn = 0;
  return messages.map((message, at) => {
    if (message.role === "assistant") {
      if (messages[at - 1]?.role !== "assistant") turn += 1;
      return eachOf(said[at]!, (one) => {
        const id = ids.next(one);
        const calls = answerable.get(one);
        if (calls?.turn === turn) calls.ids.push(id);
        else answerable.set(one, { turn, ids: [id], answered: 0 });
        return id;
      });
    }
    return eachOf(said[at]!, (one) => {
      const calls = answerable.get(one);
      // Its call may be held by the upstream.
      if (calls === undefined) return ids.keep(one);
      const id = calls.ids[Math.min(calls.answered, calls.ids.length - 1)]!;
      calls.answered += 1;
      return id;
    });
  });
}

/** Most messages have none, for which no list is made. */
const none: readonly string[] = [];

function saidIds(message: Message): readonly string[] {
  if (message.role === "tool") return [message.tool_call_id];
  if (message.role !== "assistant" || message.tool_calls == null) return none;
  return message.tool_calls.map(({ id }) => id);
}

const eachOf = (ids: readonly string[], change: (id: string) => string) => (ids.length === 0 ? none : ids.map(change));

class UniqueIds {
  readonly #said: ReadonlySet<string>;
  readonly #form: (id: string) => string;
  readonly #taken = new Set<string>();
  /** The times that an id came, so that no number is tried twice. */
  readonly #counts = new Map<string, number>();

  constructor(said: ReadonlySet<string>, form: (id: string) => string) {
    this.#said = said;
    this.#form = form;
  }

  /** The id itself where it fits and comes for the first time, else one that neither was said nor given. */
  next(said: string): string {
    const fitting = this.#form(said);
    let id = fitting;
    let count = this.#counts.get(fitting) ?? 1;
    while (this.#taken.has(id) || (id !== said && this.#said.has(id))) {
      count += 1;
      id = this.#form(`${fitting}_${count}`);
    }
    this.#counts.set(fitting, count);
    this.#taken.add(id);
    return id;
  }

  keep(said: string): string {
    const fitting = this.#form(said);
    this.#taken.add(fitting);
    return fitting;
  }
}
