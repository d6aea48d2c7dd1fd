/** The manual pages of a release: troupe(1) of the program's own commands, troupe.yaml(5) of the table in docs/settings.md. */
import type { EventEmitter } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { buildProgram } from "../../src/cli/program.ts";
import type { Io } from "../../src/lib/process/io.ts";

/** @returns the pages by their names */
export async function manPages(folder: string, version: string, seconds: number): Promise<Record<string, string>> {
  const date = new Date(seconds * 1000).toISOString().slice(0, 10);
  const title = (name: string, section: number, manual: string) =>
    `.TH ${name} ${section} ${date} "troupe ${version}" "${manual}"\n.\\" Hyphens stand at the ends of lines only where a word has one.\n.nh\n.ad l`;
  // Nothing is run: the program is asked for what it declares.
  const program = await buildProgram({} as Io, false, () => {});
  return {
    "troupe.1": page(title("TROUPE", 1, "User Commands"), commandSections(program)),
    "troupe.yaml.5": page(title("TROUPE.YAML", 5, "File Formats"), settingSections(folder)),
  };
}

type Section = readonly [heading: string, ...lines: readonly string[]];

const page = (title: string, sections: readonly Section[]) =>
  [title, ...sections.map(([heading, ...lines]) => [`.SH ${heading}`, ...lines].join("\n")), ""].join("\n");

function commandSections(program: Command): Section[] {
  return [
    ["NAME", "troupe \\- chat\\-completion gateway and persona orchestrator"],
    ["SYNOPSIS", ".B troupe", "[\\fIoptions\\fR] [\\fIcommand\\fR]"],
    [
      "DESCRIPTION",
      text(program.description()),
      "Without a command it serves. Every command has",
      ".B \\-\\-help",
      "too.",
    ],
    ["OPTIONS", ...partsOf(program)],
    ["COMMANDS", ...program.commands.flatMap((command) => describe(command, []))],
    [
      "EXIT STATUS",
      ...items([
        ["0", "Done."],
        ["1", "It failed, or found what is wrong."],
        ["2", "Wrong usage."],
      ]),
    ],
    [
      "ENVIRONMENT",
      text("A provider's usual variable, such as OPENAI_API_KEY, sets that provider up."),
      text("TROUPE_… stands for a key of the configuration: TROUPE_LOG_LEVEL for log.level."),
    ],
    [
      "FILES",
      ...items([
        ["./troupe.yaml, /etc/troupe/troupe.yaml", "The configuration, the first of both that is there."],
        ["./data", "Keys, ledger, stored answers. Of the service: /var/lib/troupe."],
        ["./personas", "Personas; without any, those in the executable."],
      ]),
    ],
    ["EXAMPLES", ".nf", ...examplesOf(program), ".fi"],
    [
      "SEE ALSO",
      ".BR troupe.yaml (5),",
      text("the pages in /usr/share/doc/troupe/docs or /usr/local/share/doc/troupe/docs"),
    ],
  ];
}

/** A command, and those below it, each under its whole name. The library's own `help` is everywhere the same. */
function describe(command: Command, above: readonly string[]): string[] {
  if (command.name() === "help") return [];
  const path = [...above, command.name()];
  if (command.commands.length > 0) return command.commands.flatMap((inner) => describe(inner, path));
  const usage = command.usage().replace(/^\[options\] ?/, "");
  const shown = examplesOf(command);
  const shared = command
    .createHelp()
    .visibleGlobalOptions(command)
    .map(({ long }) => long);
  return [
    `.SS "${text(["troupe", ...path, usage].join(" ").trim()).replaceAll('"', '""')}"`,
    text(`${command.description()}.`),
    ...partsOf(command),
    ...(shared.length > 0 ? [".PP", text(`Takes ${shared.join(", ")}, too.`)] : []),
    ...(shown.length > 0 ? [".PP", ".nf", ...shown, ".fi"] : []),
  ];
}

function partsOf(command: Command): string[] {
  const help = command.createHelp();
  const options = help.visibleOptions(command).filter(({ long }) => long !== "--help");
  return items([
    ...help.visibleArguments(command).map((one) => [help.argumentTerm(one), help.argumentDescription(one)] as const),
    ...options.map((one) => [help.optionTerm(one), help.optionDescription(one)] as const),
  ]);
}

/** What stands behind a command's help. */
function examplesOf(command: Command): string[] {
  const found: string[] = [];
  // Commands are emitters; their types do not say so.
  (command as unknown as EventEmitter).emit("afterHelp", {
    error: false,
    command,
    write: (part: string) => found.push(part),
  });
  return found
    .join("")
    .split("\n")
    .filter((line) => line.startsWith("  $ "))
    .map((line) => text(line.trimStart()));
}

function settingSections(folder: string): Section[] {
  const [first, ...others] = readFileSync(join(folder, "docs/settings.md"), "utf8").split(/^## /m).map(settingsIn);
  return [
    ["NAME", "troupe.yaml \\- configuration of troupe"],
    ["DESCRIPTION", ...first!.prose],
    ["KEYS", ...first!.rows],
    ...others.map(({ heading, prose, rows }): Section => [heading.toUpperCase(), ...prose, ...rows]),
    ["SEE ALSO", ".BR troupe (1)"],
  ];
}

/** What stands below one heading of the page: paragraphs, and the rows of its table of keys. */
function settingsIn(part: string) {
  const [heading, ...blocks] = part.split(/\n\n+/);
  const prose = blocks
    .filter((block) => /^[A-Z`]/.test(block))
    .map((block) => text(plain(block.replaceAll("\n", " "))));
  const rows = [...part.matchAll(/^\| (`.+?`) \| (.*?) ?\| (.*) \|$/gm)].map(([, key, value, said]) => {
    const fallback = value === "" ? "" : ` Default: ${value}.`;
    return [plain(key!), plain(`${said}${fallback}`)] as const;
  });
  return {
    heading: plain(heading!),
    prose: prose.flatMap((line, at) => (at > 0 ? [".PP", line] : [line])),
    rows: items(rows),
  };
}

/** Without Markdown's marks. */
const plain = (markdown: string) =>
  markdown
    .replace(/\[([^\]]+)\]\(([^)]+)\)/g, "$1")
    .replaceAll("\\|", "|")
    .replaceAll("`", "");

const items = (pairs: readonly (readonly [string, string])[]) =>
  pairs.flatMap(([term, said]) => [".TP", `.B "${text(term).replaceAll('"', '""')}"`, text(said)]);

/** Text as roff takes it, on one line. Source: groff_char(7), "Fundamental character set" */
function text(line: string): string {
  const escaped = line.replaceAll("\\", "\\e").replaceAll("-", "\\-").replaceAll("'", "\\(aq").replaceAll("…", "...");
  return escaped.startsWith(".") ? `\\&${escaped}` : escaped;
}
