import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

describe("check", () => {
  test("tells what a first start would do, and does nothing of it", async () => {
    using folder = new TempFolder();
    const { code, out, err } = await new Console(folder.path).run("check");
    expect(
      out.replaceAll(/ of 20\d\d-\d\d-\d\d, \d+ days? old.*/g, " of a day"),
    ).toBe(`configuration  none: every default
listen         127.0.0.1:8080 (orchestrator, gateway, admin)
providers      none
personas       8 in the executable
data           ${folder.file("data")}, made at the first start
facts          of a day
prices         of a day
no errors
`);
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(existsSync(folder.file("data"))).toBe(false);
  });

  test("counts keys and names providers", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "listen: ['unix:/run/a', {address: 'a:1', surfaces: [gateway]}]\n");
    const shell = new Console(folder.path, { OPENAI_API_KEY: "k" });
    const key = (await shell.run("keys create a")).out.slice(0, 12);
    await shell.run("keys create b");
    await shell.run(`keys revoke ${key}`);
    const { code, out } = await shell.run("check");
    expect(out).toContain("configuration  troupe.yaml\n");
    expect(out).toContain("listen         unix:/run/a (orchestrator, gateway), a:1 (gateway)\n");
    expect(out).toContain("providers      openai (https://api.openai.com/v1)\n");
    expect(out).toContain(`data           ${folder.file("data")} (2 of 3 keys active)\n`);
    expect(code).toBe(0);
  });

  test("says, as doctor does, that a key is set for a provider that is off; no other command does", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "providers: {openai: {enabled: false}}\n");
    const shell = new Console(folder.path, { OPENAI_API_KEY: "k" });
    const said =
      "troupe.yaml:1:31: providers.openai.enabled: turns openai off, though a key for it is set (OPENAI_API_KEY)";
    expect(await shell.run("check")).toMatchObject({ code: 0, err: `warning: ${said}\n` });
    expect((await shell.run("doctor")).out).toContain(said);
    expect((await shell.run("config print")).err).toBe("");
  });

  test("variables may have kept the quotation marks of an env file; one alone is a mistake", async () => {
    using folder = new TempFolder();
    await Bun.write(folder.file("key"), "'sk-of-a-file'\n");
    await Bun.write(
      folder.file("troupe.yaml"),
      'providers: { mine: { dialect: openai, api_key: "${MINE}", base_url: "${AT}" } }\n',
    );
    const env = {
      ...{
        OPENAI_API_KEY: '"sk-quoted"',
        OPENAI_BASE_URL: "'http://127.0.0.1:9/v1'",
        GROQ_API_KEY_FILE: folder.file("key"),
      },
      ...{ MINE: '"sk-mine"', AT: '"http://127.0.0.1:8/v1"', TROUPE_LOG_LEVEL: '"warn"' },
    };
    const { code, out } = await new Console(folder.path, env).run("config print --json");
    expect(code).toBe(0);
    const shown = JSON.parse(out) as { providers: Record<string, { base_url: string }>; log: { level: string } };
    expect(shown.providers["openai"]!.base_url).toBe("http://127.0.0.1:9/v1");
    expect(shown.providers["mine"]!.base_url).toBe("http://127.0.0.1:8/v1");
    expect(Object.keys(shown.providers).toSorted()).toEqual(["groq", "mine", "openai"]);
    const half = await new Console(folder.path, { OPENAI_API_KEY: '"sk-quoted' }).run("check");
    expect(half.code).toBe(1);
    expect(half.out + half.err).toContain("OPENAI_API_KEY: has a quotation mark at one end, which nothing closes");
    expect(half.out + half.err).not.toContain("sk-quoted");
  });

  test("warns of aliases that lead nowhere", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "aliases: {a: builtin/echo, b: troupe/tutor, 'c*': nobody/c*}\n");
    const { code, err } = await new Console(folder.path).run("check");
    expect(err).toBe("troupe.yaml:1:51: aliases.c*: 'nobody/c*' is neither a persona nor a provider's model\n");
    expect(code).toBe(1);
    const aliases = { a: "openai/gpt-5.4", b: "opnai/gpt-5.4", c: "troupe/giude" };
    writeFileSync(folder.file("troupe.yaml"), `aliases: ${JSON.stringify(aliases)}\n`);
    const other = await new Console(folder.path).run("check --json");
    const { errors, warnings } = JSON.parse(other.out);
    expect([other.code, errors.length]).toEqual([1, 2]);
    expect(errors[0]).toEndWith(
      "aliases.b: 'opnai/gpt-5.4' is neither a persona nor a provider's model; did you mean 'openai/gpt-5.4'?",
    );
    expect(errors[1]).toEndWith(
      "aliases.c: 'troupe/giude' is neither a persona nor a provider's model; did you mean 'troupe/guide'?",
    );
    expect(warnings).toEqual([
      expect.stringMatching(/aliases\.a: 'openai\/gpt-5.4' is no persona, and has no provider that is set up$/),
    ]);
  });

  test("warns, as doctor does, of models that have ended, at the place that names them", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("personas/my"), { recursive: true });
    const persona = "description: A.\nsystem: Hi.\nmodel:\n  - openai/gpt-4-0613\n  - builtin/eliza\n";
    writeFileSync(folder.file("personas/my/a.yaml"), persona);
    writeFileSync(
      folder.file("troupe.yaml"),
      "providers:\n  mine:\n    dialect: anthropic\n    models: [claude-opus-5, claude-opus-4-0]\naliases: {old: openai/gpt-4}\n",
    );
    const shell = new Console(folder.path, { OPENAI_API_KEY: "k", MINE_API_KEY: "k" });
    const found = [
      "troupe.yaml:4:29: providers.mine.models[1]: 'mine/claude-opus-4-0' ended on 2026-06-15: name another model",
      "troupe.yaml:5:16: aliases.old: 'openai/gpt-4' ended on 2026-10-23: name another model",
      `${folder.file("personas/my/a.yaml")}:4:5: model[0]: 'openai/gpt-4-0613' ended on 2026-10-23: name another model`,
    ];
    const { code, out } = await shell.run("check --json");
    expect(JSON.parse(out).warnings).toEqual(found);
    expect(code).toBe(0);
    expect((await shell.run("personas check")).err).toBe(`warning: ${found[2]}\n`);
    const doctor = (await shell.run("doctor")).out;
    for (const one of found) expect(doctor).toContain(`warn  models: ${one}`);
  });

  test("warns where the rate limits can't be kept, which does not stop a start", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("data"));
    writeFileSync(folder.file("data/limits"), "");
    const { code, err } = await new Console(folder.path).run("check");
    expect(err).toBe(
      `warning: ${folder.file("data/limits")} is no folder: rate limits would be counted in memory, and a restart would empty them; remove it, or give it to this user.\n`,
    );
    expect(code).toBe(0);
  });

  test("tells the configuration's errors, as text and as JSON", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "limits: {body_bytes: 1}\nlistne: a\n");
    const shell = new Console(folder.path);
    const errors = [
      "troupe.yaml:1:22: limits.body_bytes: must be an integer from 1024 to 1073741824",
      "troupe.yaml:2:1: listne: is not a known key; did you mean 'listen'?",
    ];
    expect(await shell.run("check")).toEqual({ code: 1, out: "2 errors\n", err: `${errors.join("\n")}\n` });
    const json = await shell.run("check --json");
    expect(JSON.parse(json.out)).toEqual({ ok: false, errors, warnings: [], summary: {} });
    expect(json.code).toBe(1);
  });

  test("tells errors of personas and of the data folder together", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("personas/my"), { recursive: true });
    writeFileSync(folder.file("personas/my/a.yaml"), "description: A.\nmodel: x/y\n");
    mkdirSync(folder.file("data"));
    writeFileSync(folder.file("data/troupe.db"), "this is no database at all, not even a small one ........");
    const { code, err, out } = await new Console(folder.path).run("check");
    const [persona, storage, ...rest] = err.trimEnd().split("\n");
    expect(persona).toBe(`${folder.file("personas/my/a.yaml")}:1:1: system: is required`);
    expect(storage).toContain(folder.file("data/troupe.db"));
    expect(rest).toEqual([]);
    expect(out).toEndWith("2 errors\n");
    expect(code).toBe(1);
  });

  test("warns of personas that can't answer", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("personas/my"), { recursive: true });
    writeFileSync(folder.file("personas/my/a.yaml"), "description: A.\nmodel: openai/x\nsystem: Hi.\n");
    const { code, err } = await new Console(folder.path).run("check");
    expect(err).toBe("warning: my/a: none of its models has a provider that is set up\n");
    expect(code).toBe(0);
  });
});

test("doctor --call says what an MCP server that ended wrote to stderr, and which tools are left out", async () => {
  using folder = new TempFolder();
  const script =
    "console.error('starting'); process.stderr.write('Error: DESK_TOKEN is not set\\n    at main (desk.js:1)'); process.exit(1)";
  const desk = { command: process.execPath, args: ["-e", script] };
  const odd = {
    command: process.execPath,
    args: [join(import.meta.dir, "../../helpers/mcp-server.ts")],
    env: { MODE: "odd" },
  };
  writeFileSync(folder.file("troupe.yaml"), JSON.stringify({ mcp_servers: { desk, odd } }));
  const { out } = await new Console(folder.path).run("--port 0 doctor --call");
  expect(out).toMatch(
    /ERROR mcp server desk: 'desk' could not be started: .*; on stderr it said: starting \| Error: DESK_TOKEN is not set/,
  );
  expect(out).toContain("4 left out (task: it can only be called as a task; text: ");
});

test("check and doctor name MCP servers that personas lack; config print shows none of their secrets", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/team"), { recursive: true });
  const persona =
    "description: x\nmodel: builtin/echo\nsystem: x\nmcp:\n  - { server: desk, allow: [add, serach], arguments: { a: 1 } }\n  - { server: desk, allow: [search], arguments: { a: 1 } }\n  - { server: dsek }\n";
  writeFileSync(folder.file("personas/team/a.yaml"), persona);
  const server = `{command: ${process.execPath}, args: [${join(import.meta.dir, "../../helpers/mcp-server.ts")}, secret-1]`;
  const remote = "{url: 'https://mcp.example/secret-2', headers: {authorization: 'Bearer ${TOKEN}'}}";
  writeFileSync(
    folder.file("troupe.yaml"),
    `mcp_servers: {desk: ${server}, env: {A: secret-4}}, far: ${remote}}\nhosted_tools: {web_search: desk.search}\n`,
  );
  const shell = new Console(folder.path, { TOKEN: "secret-3" });
  const { code, err } = await shell.run("check");
  expect(code).toBe(1);
  expect(err).toContain("a.yaml:7:15: mcp[2].server: 'dsek' is not among the configuration's mcp_servers");
  expect(err).not.toContain("'desk' is not");
  const { out } = await shell.run("config print");
  expect(out).not.toContain("secret");
  expect(out).toContain("https://mcp.example/***");
  expect((await shell.run("--port 0 doctor")).out).toContain("mcp server desk: ");
  const called = await shell.run("--port 0 doctor --call");
  expect(called.out).toMatch(/ok {4}mcp server desk: .*, revision 2025-11-25, 9 tools/);
  expect(called.out).toContain("persona team/a: allows 'serach' of desk, which has no such tool");
  expect(called.out).toContain("persona team/a: has fixed arguments that search of desk does not take: it is left out");
  expect(called.out).not.toContain("that add of desk");
  expect(called.out).toMatch(/ERROR mcp server far: 'far' could not be reached/);
});

test.each([
  ["{a: {}}", "mcp_servers.a: must have either command or url"],
  ["{a: {command: x, url: 'http://x'}}", "must have either command or url"],
  ["{a: {command: x, headers: {b: c}}}", "mcp_servers.a.headers: belongs beside url"],
  ["{a: {url: 'ftp://x'}}", "mcp_servers.a.url: must begin with https:// or http://"],
  ["{a: {url: 'http://x', env: {A: b}}}", "mcp_servers.a.env: belongs beside command"],
  ["{a__b: {command: x}}", "without '__'"],
  ["{A: {command: x}}", "lower-case letters"],
  ["{a: {command: '${NOT_SET}'}}", "refers to NOT_SET"],
  ["{a: {command: x}}\nhosted_tools: {web_search: a}", "hosted_tools.web_search: must be <server>.<tool>"],
  ["{a: {command: x}}\nhosted_tools: {web_search: b.c}", "names b, which mcp_servers does not have"],
])("mcp_servers: %s is an error at its place", async (text, message) => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), `mcp_servers: ${text}\n`);
  const { code, err } = await new Console(folder.path).run("check");
  expect(code).not.toBe(0);
  expect(err).toContain(message);
  expect(err).toMatch(/^troupe\.yaml:\d+:\d+: /m);
});
