/** The manual pages say what the program declares, in a form that readers of such pages have nothing to say about. */
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { $ } from "bun";
import type { Command } from "commander";
import { manPages } from "../../../deploy/release/man.ts";
import { buildProgram } from "../../../src/cli/program.ts";
import type { Io } from "../../../src/lib/process/io.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const pages = await manPages(resolve("."), "9.8.7", 1_763_719_200);
const shown = (text: string) => text.replaceAll("\\-", "-").replaceAll("\\(aq", "'");

/** The commands below which there are no others, by their whole names. */
function leavesOf(command: Command, above: readonly string[] = []): [string, Command][] {
  return command.commands
    .filter((inner) => inner.name() !== "help")
    .flatMap((inner): [string, Command][] => {
      const path = [...above, inner.name()];
      return inner.commands.length > 0 ? leavesOf(inner, path) : [[path.join(" "), inner]];
    });
}

describe("troupe(1)", () => {
  const page = shown(pages["troupe.1"]!);

  test("has every command, with every argument and option, and nothing else", async () => {
    const leaves = leavesOf(await buildProgram({} as Io, false, () => {}));
    expect(leaves.length).toBeGreaterThan(50);
    const sections = page.split("\n.SS ").slice(1);
    expect(sections).toHaveLength(leaves.length);
    for (const [at, [name, command]] of leaves.entries()) {
      expect(sections[at]).toStartWith(`"troupe ${name}`);
      for (const { flags, hidden } of command.options) if (!hidden) expect(sections[at]).toContain(`.B "${flags}"`);
      for (const argument of command.registeredArguments) expect(sections[at]).toContain(argument.description);
    }
  });

  test("shows a command's examples and the program's own", () => {
    expect(page).toContain("$ troupe keys create alice\n");
    expect(page).toContain("$ troupe check\n.fi\n.SH SEE ALSO");
  });

  test("carries version and date, and no letter that is a macro by chance", () => {
    expect(page).toStartWith('.TH TROUPE 1 2025-11-21 "troupe 9.8.7" "User Commands"\n');
    const macros = page.split("\n").flatMap((line) => /^[.'](\S*)/.exec(line)?.[1] ?? []);
    expect([...new Set(macros)].toSorted()).toEqual([
      "B",
      "BR",
      "PP",
      "SH",
      "SS",
      "TH",
      "TP",
      '\\"',
      "ad",
      "fi",
      "nf",
      "nh",
    ]);
  });
});

test("troupe.yaml(5) has every key of the table in docs/settings.md", () => {
  const rows = readFileSync("docs/settings.md", "utf8").match(/^\| `.+$/gm)!;
  expect(pages["troupe.yaml.5"]!.match(/^\.TP$/gm)).toHaveLength(rows.length);
  expect(shown(pages["troupe.yaml.5"]!)).toContain(
    '.TP\n.B "data"\nThe data folder. Default: $STATE_DIRECTORY, else ./data.\n',
  );
});

describe.each(Object.keys(pages))("%s", (name) => {
  test.skipIf(Bun.which("man") === null)("gives groff no reason to warn", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file(name), pages[name]!);
    const env = { ...process.env, LC_ALL: "C.UTF-8" };
    const { stdout, stderr } = await $`man --warnings -E UTF-8 -l -Tutf8 ${folder.file(name)}`.env(env).quiet();
    expect(stderr.toString()).toBe("");
    expect(stdout.length).toBeGreaterThan(10_000);
  });

  test.skipIf(Bun.which("mandoc") === null)("gives mandoc no reason to warn", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file(name), pages[name]!);
    const { stdout } = await $`mandoc -T lint -W warning ${folder.file(name)}`.nothrow().quiet();
    expect(stdout.toString()).toBe("");
  });
});
