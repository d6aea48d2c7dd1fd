/** Ids for what an upstream gave none. */
import type { AnsweredCall } from "./provider.ts";

/** @param choice which of the answer's choices @param count which call of the choice */
export type MakeId = (kind: "call" | "audio", choice: number, count: number) => string;

/**
 * Makes ids that no other answer has, since clients, stores and upstreams find a call by its id for a whole conversation and
 * beyond it. They are made from the answer's own id, so that the same place of an answer has the same id each time.
 */
export function idsFor({ answerId }: AnsweredCall): MakeId {
  return (kind, choice, count) => {
    const digest = Bun.SHA256.hash(`${answerId}\n${kind}\n${choice}\n${count}`, "hex");
    return `${kind}_${digest.slice(0, 24)}`;
  };
}
