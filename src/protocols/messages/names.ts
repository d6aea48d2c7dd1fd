/** Names of tools: this format takes longer ones than others, whose calls come back by the caller's own. */
import { type JsonObject, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { fittingName, maxName } from "../long-names.ts";
import type { MessagesBody } from "./schema.ts";

/** The caller's names, by those that go up in their place. */
export type OwnNames = Readonly<Record<string, string>>;

/** @returns undefined where every name is short enough */
export function longNamesOf({ tools }: MessagesBody): OwnNames | undefined {
  const long = (tools ?? []).flatMap((tool) => {
    const { name } = tool as JsonObject;
    return typeof name === "string" && name.length > maxName ? [name] : [];
  });
  return long.length === 0 ? undefined : Object.fromEntries(long.map((name) => [fittingName(name), name]));
}

export function withOwnName(block: JsonObject, names: OwnNames | undefined): JsonObject {
  if (names === undefined || block["type"] !== "tool_use") return block;
  const name = ownMember(names, textOf(block["name"]) ?? "");
  return name === undefined ? block : { ...block, name };
}
