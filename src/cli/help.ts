/** Help of each command, with the global flags that it reads. */
import type { Command, Option } from "commander";
import type { Flags } from "../config/load.ts";
import { suggest } from "../lib/text/suggest.ts";

export type FlagName = keyof Flags;

const flagsRead = new WeakMap<Command, readonly FlagName[]>();

/** Declares which global flags a command reads: it gets these only, and its help shows no others. */
export function reading(command: Command, names: readonly FlagName[]): Command {
  flagsRead.set(command, names);
  return command;
}

/** The program's flags that a command reads. @param given all of them, as they stand on the command line */
export function flagsFor(command: Command, given: Flags): Flags {
  const names: readonly string[] = flagsRead.get(command) ?? [];
  return Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)));
}

/** The program's flags that mean something to a command, or to one of those below it. */
export function sharedOptions(command: Command): Option[] {
  const names = namesIn(command);
  return programOf(command).options.filter((option) => names.has(option.attributeName()));
}

function namesIn(command: Command): Set<string> {
  return new Set([...(flagsRead.get(command) ?? []), ...command.commands.flatMap((inner) => [...namesIn(inner)])]);
}

export const programOf = (command: Command): Command => (command.parent === null ? command : programOf(command.parent));

/**
 * Gives a command and each group below it a `help` that takes the way to any command, and lets `--help` behind a word that
 * is no command say so. The ones of the library show the first word's help alone, and nothing for an unknown one.
 */
export function addHelp(command: Command, shown: () => void): void {
  if (command.commands.length === 0) return;
  for (const inner of command.commands) addHelp(inner, shown);
  command.on("beforeHelp", () => {
    const [word] = command.args;
    if (word !== undefined && !word.startsWith("-") && commandNamed(command, word) === undefined)
      refuseUnknown(command, word);
  });
  command
    .helpCommand(false)
    .command("help")
    .description("Show help for a command")
    .argument("[command...]", "Its name, after that of its group")
    .action((words: readonly string[]) => {
      commandAt(command, words).outputHelp();
      shown();
    });
}

function commandAt(group: Command, words: readonly string[]): Command {
  return words.reduce((at, word) => commandNamed(at, word) ?? refuseUnknown(at, word), group);
}

const commandNamed = (group: Command, word: string) => group.commands.find((one) => one.name() === word);

/** Lets each command's errors point to its own help. */
export function addHints(command: Command): void {
  command.showHelpAfterError(helpHint(command));
  for (const inner of command.commands) addHints(inner);
}

/** Names the command line that shows how a command is used. */
export function helpHint(command: Command): string {
  const words: string[] = [];
  for (let at: Command | null = command; at !== null; at = at.parent) words.unshift(at.name());
  const what = command.commands.length > 0 ? "the commands and their flags" : "its arguments and flags";
  return `Run '${words.join(" ")} --help' for ${what}.`;
}

/** @throws CommanderError, once the message is written */
export function refuseUnknown(group: Command, word: string): never {
  const guess = suggest(
    word,
    group.commands.map((one) => one.name()),
  );
  const advice = guess === undefined ? "" : `\n(Did you mean ${guess}?)`;
  return group.error(`error: unknown command '${word}'${advice}`, { code: "commander.unknownCommand" });
}
