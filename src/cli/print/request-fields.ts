/** Parts of a call that are given on the command line. */

import { isObject, type JsonObject } from "../../lib/json/json.ts";
import type { Io } from "../../lib/process/io.ts";
import { CommandError, UsageError } from "../context.ts";

/** @param given a text, `-` for the standard input, or `@<file>` @throws CommandError where there is no such file */
export async function readInput(io: Io, given: string): Promise<string> {
  if (given === "-") return io.stdin.text();
  return given.startsWith("@") ? readText(io, given.slice(1)) : given;
}

/** @throws CommandError */
export function readText(io: Io, path: string): string {
  const text = io.readFile(path);
  if (text === undefined) throw new CommandError(`There is no file ${path}.`);
  return text;
}

/** Reads a file of messages: a list of them, or a whole request. @throws CommandError, UsageError */
export function readMessages(io: Io, path: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(readText(io, path));
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new UsageError(`${path} is no JSON: ${(error as Error).message}`);
  }
  if (Array.isArray(value)) return { messages: value };
  if (isObject(value) && Array.isArray(value["messages"])) return value;
  throw new UsageError(`${path} must hold a list of messages, or a request with one.`);
}
