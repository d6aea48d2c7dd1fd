/** Completion scripts for shells, made from the program itself, so that they know what it knows. */
import type { Command, Option } from "commander";
import type { Context, ExitCode } from "./context.ts";
import { programOf, sharedOptions } from "./help.ts";

export const shells = ["bash", "zsh", "fish"] as const;
type Shell = (typeof shells)[number];

type Word = { readonly text: string; readonly summary: string };
type Place = {
  /** The commands so far: `["keys", "create"]`. */
  readonly path: readonly string[];
  readonly commands: readonly Word[];
  readonly flags: readonly Word[];
};

export function printCompletion({ io }: Context, shell: Shell, _: unknown, command: Command): ExitCode {
  const program = programOf(command);
  io.stdout.write({ bash, zsh, fish }[shell](program.name(), placesIn(program, [])));
  return 0;
}

function placesIn(command: Command, path: readonly string[]): Place[] {
  const commands = command.commands.map((inner) => ({ text: inner.name(), summary: inner.description() }));
  const flags = path.length === 0 ? command.options : [...command.options, ...sharedOptions(command)];
  const below = command.commands.flatMap((inner) => placesIn(inner, [...path, inner.name()]));
  return [{ path, commands, flags: [...wordsOf(flags), { text: "--help", summary: "Show help" }] }, ...below];
}

const wordsOf = (options: readonly Option[]): Word[] =>
  options.flatMap(({ long, description, hidden }) => (long && !hidden ? [{ text: long, summary: description }] : []));

const keyOf = (path: readonly string[]) => path.map((word) => `/${word}`).join("");
const textsOf = ({ commands, flags }: Place) => [...commands, ...flags].map(({ text }) => text).join(" ");

/** Follows the words typed so far, as far as they are commands. */
function walk(places: readonly Place[], words: string): string {
  const known = places.slice(1).map(({ path }) => keyOf(path));
  return `  for word in ${words}; do
    case "$at/$word" in
      ${known.join("|")}) at="$at/$word" ;;
    esac
  done`;
}

function bash(name: string, places: readonly Place[]): string {
  const cases = places.map((place) => `    "${keyOf(place.path)}") words="${textsOf(place)}" ;;`);
  return `_${name}() {
  local at="" word words=""
${walk(places, `"\${COMP_WORDS[@]:1:COMP_CWORD-1}"`)}
  case "$at" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _${name} ${name}
`;
}

function zsh(name: string, places: readonly Place[]): string {
  const quoted = (text: string) => text.replaceAll("'", "'\\''").replaceAll(":", "\\:");
  const listed = (words: readonly Word[]) => words.map(({ text, summary }) => `'${text}:${quoted(summary)}'`).join(" ");
  const cases = places.map(
    ({ path, commands, flags }) => `    "${keyOf(path)}") commands=(${listed(commands)}); flags=(${listed(flags)}) ;;`,
  );
  return `#compdef ${name}
_${name}() {
  local at="" word
  local -a commands flags
${walk(places, '"${(@)words[2,CURRENT-1]}"')}
  case "$at" in
${cases.join("\n")}
  esac
  _describe command commands || _describe -o flag flags || _files
}
if [ "$funcstack[1]" = "_${name}" ]; then _${name} "$@"; else compdef _${name} ${name}; fi
`;
}

function fish(name: string, places: readonly Place[]): string {
  const quoted = (text: string) => text.replaceAll(/['\\]/g, "\\$&");
  const lines = places.flatMap(({ path, commands, flags }) => {
    const seen = path.map((word) => `__fish_seen_subcommand_from ${word}`);
    const further = commands.map(({ text }) => text).join(" ");
    const unseen = further === "" ? [] : [`not __fish_seen_subcommand_from ${further}`];
    const start = `complete -c ${name} -n '${[...seen, ...unseen].join("; and ")}'`;
    return [
      ...commands.map(({ text, summary }) => `${start} -f -a ${text} -d '${quoted(summary)}'`),
      ...flags.map(({ text, summary }) => `${start} -l ${text.slice(2)} -d '${quoted(summary)}'`),
    ];
  });
  return `${lines.join("\n")}\n`;
}
