/** Which table a statement writes, or else reads first, and which row where it names one: what the log says of a fault. */
import { rowWords } from "../contract/storage-error.ts";
import type { Parameter } from "./sql.ts";
import { movedTables } from "./tables.ts";

const written = /\b(?:insert into|update|delete from) troupe\.(\w+)(?: \(([\w, ]+)\)\s+(\w+))?/g;

/** @returns undefined for a statement of no table @param text as PostgreSQL reads it */
export function faultPlace(text: string, parameters: readonly Parameter[]): string | undefined {
  const [, name, columns = "", source] = [...text.matchAll(written)].at(-1) ?? /\btroupe\.(\w+)/.exec(text) ?? [];
  if (name === undefined) return undefined;
  const table = movedTables.find((one) => one.name === name);
  if (table === undefined) return `the statement of ${name}`;
  const places = columns.split(", ");
  const values = table.key.map((column) => {
    if (source !== undefined) return source === "values" ? parameters[places.indexOf(column)] : undefined;
    return parameters[Number(new RegExp(`\\b${column} = \\$(\\d+)`).exec(text)?.[1]) - 1];
  });
  return rowWords(name, values.includes(undefined) ? [] : values);
}
