/** The common parts of all commands. */
import type { Flags } from "../config/load.ts";
import type { Context, ExitCode } from "./context.ts";

export const allFlags = ["config", "host", "port", "data", "personas", "workers"] as const satisfies (keyof Flags)[];

/** What a command does: with its arguments, its options and itself, as commander gives them. */
export type Action = (context: Context, ...given: never[]) => ExitCode | Promise<ExitCode>;

/** Makes what commander calls of an action. */
export type Act = (action: Action) => (...given: unknown[]) => Promise<void>;

const actions = () => import("./actions.ts");

export type ActionName = keyof Awaited<ReturnType<typeof actions>>;

/** An action that is loaded when it is run. */
export const late =
  (name: ActionName): Action =>
  async (...given) =>
    ((await actions())[name] as Action)(...given);

export const examples = (...lines: string[]) => `\nExamples:\n${lines.map((line) => `  $ ${line}\n`).join("")}`;
