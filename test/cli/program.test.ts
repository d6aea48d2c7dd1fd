import { describe, expect, test } from "bun:test";
import { Console } from "./console.ts";

const shell = new Console(import.meta.dir);

describe("wrong usage", () => {
  test.each([
    [
      "chek",
      "error: unknown command 'chek'\n(Did you mean check?)\nRun 'troupe --help' for the commands and their flags.\n",
    ],
    ["keys crate", "\nRun 'troupe keys --help' for the commands and their flags.\n"],
    ["keys create", "\nRun 'troupe keys create --help' for its arguments and flags.\n"],
    ["keys create a --tier enterprise", "\nRun 'troupe keys create --help' for its arguments and flags.\n"],
    ["data move --to", "\nRun 'troupe data move --help' for its arguments and flags.\n"],
    ["frobnicate", "error: unknown command 'frobnicate'\n"],
    ["keys crate x", "error: unknown command 'crate'\n(Did you mean create?)"],
    ["--prot 80", "error: unknown option '--prot'\n(Did you mean --port?)"],
    ["keys create", "error: missing required argument 'name'"],
    ["keys create a b", "error: too many arguments for 'create'"],
    ["keys create a --tier gold", "error: option '--tier <tier>' argument 'gold' is invalid."],
    ["keys create a --per-minute many", "It must be a whole number."],
    ["keys create a --surfaces gateway,console", "Known: orchestrator, gateway, admin, raw, preview."],
    ["keys create a --expires soon", "It must be a date, a time, or a duration such as 90d."],
    ["--port", "error: option '-p, --port <port>' argument missing"],
    ["completion tcsh", "Allowed choices are bash, zsh, fish."],
    ["keys", "Usage: troupe keys [options] [command]"],
    ["help chek", "error: unknown command 'chek'\n(Did you mean check?)"],
    ["help keys crate", "error: unknown command 'crate'\n(Did you mean create?)"],
    ["keys help nope", "error: unknown command 'nope'\n"],
    ["help keys create x", "error: unknown command 'x'\n"],
    ["nope --help", "error: unknown command 'nope'\n"],
    ["keys nope --help", "error: unknown command 'nope'\n"],
    ["--data <empty> check", "option '--data <folder>' argument '' is invalid. It must not be empty."],
    ["--config <empty> check", "It must not be empty."],
    ["keys create a --tier pro --tier free", "error: option '--tier <tier>' is given twice; it takes one value\n"],
    ["keys create a --models openai/* --models xai/*", "error: option '--models <globs>' is given twice"],
    ["--data a check --data b", "error: option '--data <folder>' is given twice"],
    ["check -p 1 --port 2", "error: option '-p, --port <port>' is given twice"],
    ["--port 1 --port 2", "error: option '-p, --port <port>' is given twice"],
  ])("troupe %s", async (line, message) => {
    const { code, out, err } = await shell.run(line.split(" ").map((word) => word.replace("<empty>", "")));
    expect(err).toContain(message);
    expect(out).toBe("");
    expect(code).toBe(2);
  });
});

test.each(["serve", "check", "check --json", "doctor", "doctor --json", "health", "config print"])(
  "a shared flag with a wrong value is wrong usage of %s, too",
  async (line) => {
    const { code, out, err } = await shell.run(`${line} --port many`);
    expect(out + err).toContain("command line: --port: ");
    expect(code).toBe(2);
  },
);

describe("help", () => {
  test("names every command and the flags they share", async () => {
    const { code, out, err } = await shell.run("--help");
    for (const name of ["serve", "check", "keys", "personas", "config", "openapi", "completion", "version", "help"]) {
      expect(out).toMatch(new RegExp(`^  ${name}\\b`, "m"));
    }
    for (const flag of [
      "--config <file>",
      "--host <host>",
      "--port <port>",
      "--data <folder>",
      "--personas <folder>",
    ]) {
      expect(out).toContain(flag);
    }
    expect(err).toBe("");
    expect(code).toBe(0);
  });

  test.each(["help keys create", "keys help create", "keys create --help", "keys create -h"])(
    "of one command: troupe %s",
    async (line) => {
      const { code, out, err } = await shell.run(line);
      expect(out).toStartWith("Usage: troupe keys create [options] <name>\n");
      expect(out).toContain("--expires <when>");
      expect(out).toContain("--data <folder>");
      expect(out).toContain("$ troupe keys create ci --tier free --surfaces gateway --expires 30d");
      expect([code, err]).toEqual([0, ""]);
    },
  );

  test.each([
    ["serve", "config host port data personas workers"],
    ["check", "config host port data personas workers"],
    ["doctor", "config host port data personas workers"],
    ["config print", "config host port data personas workers"],
    ["config", "config host port data personas workers"],
    ["health", "config host port"],
    ["keys", "config data"],
    ["keys list", "config data"],
    ["data restore", "config data"],
    ["personas check", "config personas"],
    ["personas schema", ""],
    ["config schema", ""],
    ["service install", ""],
    ["completion", ""],
    ["version", ""],
    ["openapi", ""],
    ["help", ""],
  ])("of %s shows the shared flags that mean something there: %s", async (command, flags) => {
    const { out } = await shell.run(`help ${command}`);
    const shared = out.split("Global Options:")[1]?.split("\n\n")[0] ?? "";
    expect([...shared.matchAll(/--(\w+)/g)].map(([, name]) => name).join(" ")).toBe(flags);
    expect(out).toStartWith(`Usage: troupe ${command} `);
  });

  test("has --json for whatever lists or inspects", async () => {
    const without = async (words: string): Promise<string[]> => {
      const { out } = await shell.run(`help ${words}`);
      const inner = [...(out.split("\nCommands:\n")[1] ?? "").split("\n\n")[0]!.matchAll(/^ {2}([a-z-]+)/gm)];
      const names = inner.flatMap(([, name]) => (name === "help" ? [] : `${words} ${name}`.trim()));
      const found = names.length > 0 || out.includes("--json") ? [] : [words];
      for (const one of names) found.push(...(await without(one)));
      return found;
    };
    // These print what is a file, or serve.
    expect((await without("")).toSorted()).toEqual([
      ...[
        "completion",
        "config init",
        "config schema",
        "demo",
        "import litellm",
        "openapi",
        "personas diff",
        "personas export",
        "personas keep-test",
        "personas new",
        "personas schema",
        "serve",
        "service print",
      ],
    ]);
  });

  test("a flag that a command does not read is neither told nor looked at", async () => {
    expect((await shell.run("version --port many")).code).toBe(0);
    expect((await shell.run("personas list --workers many")).code).toBe(0);
  });
});

test("the version is one line, or JSON", async () => {
  const { out } = await shell.run("version");
  expect(out).toMatch(/^troupe \d+\.\d+\.\d+ \(commit \S+, built \S+, bun \d+\.\d+\.\d+\)\n$/);
  expect((await shell.run("--version")).out).toBe(out);
  const json = JSON.parse((await shell.run("version --json")).out);
  expect(json).toMatchObject({ name: "troupe", api_version: "v1" });
  expect(Object.keys(json)).toEqual(["name", "version", "api_version", "commit", "built_at", "runtime"]);
});

test("the API's description is printed whole", async () => {
  const { code, out } = await shell.run("openapi");
  const document = JSON.parse(out);
  expect(document.openapi).toBe("3.1.0");
  expect(Object.keys(document.paths)).toContain("/v1/chat/completions");
  expect(code).toBe(0);
});
