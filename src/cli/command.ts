/** The common parts of all commands. */
import type { Command } from "commander";
import type { Flags } from "../config/load.ts";
import { collected, collectedFields, collectedTexts } from "./arguments.ts";
import type { Context, ExitCode } from "./context.ts";

export const allFlags = ["config", "host", "port", "data", "personas", "workers"] as const satisfies (keyof Flags)[];

/** The function of a command: it gets its arguments, its options and the command itself, as commander gives them. */
export type Action = (context: Context, ...given: never[]) => ExitCode | Promise<ExitCode>;

/** Makes what commander calls of an action. */
export type ActionRunner = (action: Action) => (...given: unknown[]) => Promise<void>;

const actions = () => import("./actions.ts");

export type ActionName = keyof Awaited<ReturnType<typeof actions>>;

/** An action that is loaded when it is run. */
export const late =
  (name: ActionName): Action =>
  async (...given) =>
    ((await actions())[name] as Action)(...given);

/** Parsers of flags that may be given again. */
const repeated: ReadonlySet<unknown> = new Set([collected, collectedFields, collectedTexts]);

/** Lets commands refuse a flag that has a second value: the library takes the last one, which may not be what was meant. */
export function refuseRepeated(command: Command): void {
  for (const inner of command.commands) refuseRepeated(inner);
  for (const option of command.options) {
    if (option.isBoolean() || option.variadic || repeated.has(option.parseArg)) continue;
    let isGiven = false;
    command.on(`option:${option.name()}`, () => {
      if (isGiven) command.error(`error: option '${option.flags}' is given twice; it takes one value`);
      isGiven = true;
    });
  }
}

export const examples = (...lines: string[]) => `\nExamples:\n${lines.map((line) => `  $ ${line}\n`).join("")}`;
