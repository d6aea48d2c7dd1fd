/** The common parts of all commands. */
import type { Context, ExitCode } from "./context.ts";

const actions = () => import("./actions.ts");

type Actions = Awaited<ReturnType<typeof actions>>;

/** What a command does, loaded when it is run. */
export function late<Name extends keyof Actions>(name: Name) {
  type Action = (...given: Parameters<Actions[Name]>) => ExitCode | Promise<ExitCode>;
  return async (...given: Parameters<Actions[Name]>) => ((await actions())[name] as Action)(...given);
}

export type Act = <Given extends unknown[]>(
  command: (context: Context, ...given: Given) => ExitCode | Promise<ExitCode>,
) => (...given: unknown[]) => Promise<void>;

export const examples = (...lines: string[]) => `\nExamples:\n${lines.map((line) => `  $ ${line}\n`).join("")}`;
