/** Texts that a persona puts first in messages of the user, said in clients' own formats. */
import { derive, isObject, type JsonObject } from "../../lib/json/json.ts";

export type Insertion = {
  /** The place of the message among those of the inner form. */
  readonly message: number;
  /** The same among the user's messages, and how many these are: each format counts them by itself. */
  readonly user: number;
  readonly users: number;
  readonly text: string;
};

/**
 * @param turns of a client's body
 * @param isOfUser true for a turn that is a message of the user in the inner form
 * @param put returns the turn with the text first
 * @returns the list itself where there is nothing to put; undefined where the user's turns are others than those of the inner form
 */
export function putInsertions(
  turns: readonly unknown[],
  within: readonly Insertion[],
  isOfUser: (turn: JsonObject) => boolean,
  put: (turn: JsonObject, text: string) => JsonObject | undefined,
): readonly unknown[] | undefined {
  if (within.length === 0) return turns;
  const users = turns.flatMap((turn, at) => (isObject(turn) && isOfUser(turn) ? at : []));
  const next = [...turns];
  for (const { user, users: expected, text } of within) {
    const at = users[user];
    if (at === undefined || users.length !== expected) return undefined;
    const turn = put(next[at] as JsonObject, text);
    if (turn === undefined) return undefined;
    next[at] = turn;
  }
  return derive(turns, next);
}
