import { describe, expect, test } from "bun:test";
import { copyFileSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Troupe } from "../../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../../helpers/upstream-server.ts";
import { Console } from "../console.ts";

type Check = { what: string; state: string; found: string; advice?: string };

async function diagnose(shell: Console, line = "doctor") {
  const { code, out, err } = await shell.run(`--port 0 ${line} --json`);
  expect(err).toBe("");
  const { ok, checks } = JSON.parse(out) as { ok: boolean; checks: Check[] };
  expect(ok).toBe(code === 0);
  const of = (what: string) => checks.filter((check) => check.what.startsWith(what));
  return { code, checks, of };
}

describe("troupe doctor", () => {
  test("finds a bare machine fit, says what is missing, and leaves nothing behind", async () => {
    using folder = new TempFolder();
    const { code, checks, of } = await diagnose(new Console(folder.path));
    expect(code).toBe(0);
    expect(of("providers")[0]!.state).toBe("warning");
    expect(of("data folder")[0]!.found).toContain("made at the first start");
    expect(existsSync(folder.file("data"))).toBe(false);
    for (const { state, advice } of checks) expect(advice !== undefined).toBe(state !== "ok");
  });

  test("writes one line for each check, and what to do below it", async () => {
    using folder = new TempFolder();
    const { code, out } = await new Console(folder.path).run("--port 0 doctor");
    expect(code).toBe(0);
    expect(out).toMatch(/^ok {4}executable: troupe \d/);
    expect(out).toMatch(/^warn {2}providers: none is set up.*\n {6}→ Set a key/m);
  });

  test("tells every fault of the configuration, with its place", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("troupe.yaml"), "limits: {json_depth: deep}\n");
    const { code, of } = await diagnose(new Console(folder.path));
    expect(code).toBe(1);
    expect(of("configuration")[0]!.found).toContain("troupe.yaml:1:22");
  });

  test("tells a first key that still lies there, and personas at fault", async () => {
    using folder = new TempFolder();
    await new Console(folder.path).run("keys create a");
    writeFileSync(folder.file("data/first-key"), "trp_x\n");
    mkdirSync(folder.file("personas/team"), { recursive: true });
    writeFileSync(folder.file("personas/team/broken.yaml"), "descripton: x\n");
    const { code, of } = await diagnose(new Console(folder.path));
    expect(code).toBe(1);
    expect(of("first key")[0]!.advice).toContain("remove the file");
    expect(of("personas").some(({ state, found }) => state === "error" && found.includes("broken.yaml:1:1"))).toBe(
      true,
    );
  });

  test("lists misspelt providers in personas and aliases, as check does", async () => {
    using folder = new TempFolder();
    mkdirSync(folder.file("personas/team"), { recursive: true });
    writeFileSync(
      folder.file("personas/team/one.yaml"),
      "description: x\nmodel: [opnai/gpt-4o, builtin/eliza]\nsystem: Hi.\n",
    );
    writeFileSync(folder.file("troupe.yaml"), "aliases: {fast: antropic/claude-x, big: openai/gpt-4o}\n");
    const { code, of } = await diagnose(new Console(folder.path));
    expect(code).toBe(1);
    expect(of("personas").filter(({ state }) => state === "error")).toEqual([
      expect.objectContaining({
        found: expect.stringMatching(/one\.yaml:2:9.*'opnai' is no provider; did you mean 'openai'/),
      }),
    ]);
    expect(of("aliases").map(({ state, found }) => [state, found])).toEqual([
      ["error", expect.stringContaining("did you mean 'anthropic/claude-x'?")],
      ["warning", expect.stringContaining("'openai/gpt-4o'")],
    ]);
  });

  test("knows a Troupe from a stranger at its address, and a bare address in the open", async () => {
    using folder = new TempFolder();
    await using troupe = await Troupe.start();
    using stranger = new UpstreamServer(() => new Response("no"));
    const at = async (url: string) => {
      writeFileSync(folder.file("troupe.yaml"), `listen: "${new URL(url).host}"\n`);
      const { out } = await new Console(folder.path).run("doctor --json");
      return (JSON.parse(out) as { checks: Check[] }).checks.find(({ what }) => what.startsWith("address"))!;
    };
    expect(await at(troupe.url)).toMatchObject({
      state: "ok",
      found: expect.stringMatching(/^a Troupe .* serves there$/),
    });
    expect(await at(stranger.url)).toMatchObject({ state: "error", found: "another program has it" });
    writeFileSync(folder.file("troupe.yaml"), 'listen: "0.0.0.0:0"\n');
    const { out } = await new Console(folder.path).run("doctor");
    expect(out).toContain("open to the network without TLS");
  });

  test("warns where money is told to a network", async () => {
    using folder = new TempFolder();
    for (const [host, money, states] of [
      ["0.0.0.0", true, ["warning"]],
      ["0.0.0.0", false, []],
      ["127.0.0.1", true, []],
    ] as const) {
      writeFileSync(folder.file("troupe.yaml"), `listen: "${host}:8080"\nmetrics: {money: ${money}}\n`);
      const { of } = await diagnose(new Console(folder.path));
      expect([host, money, of("metrics").map(({ state }) => state)]).toEqual([host, money, [...states]]);
    }
  });

  test("looks at the certificate", async () => {
    using folder = new TempFolder();
    copyFileSync("test/fixtures/tls/cert.pem", folder.file("cert.pem"));
    copyFileSync("test/fixtures/tls/key.pem", folder.file("key.pem"));
    const yaml = "listen: {address: '127.0.0.1:0', tls: {cert: cert.pem, key: key.pem}}\n";
    writeFileSync(folder.file("troupe.yaml"), yaml);
    const run = async () => (await new Console(folder.path).run("doctor")).out;
    expect(await run()).toContain("the certificate is good until 2126-");
    copyFileSync("test/fixtures/tls/next-key.pem", folder.file("key.pem"));
    expect(await run()).toContain("is not the key of the certificate");
  });
});

describe("troupe doctor --call", () => {
  const env = (url: string) => ({ OPENAI_API_KEY: "sk-test-0000000000000000", OPENAI_BASE_URL: url });

  test("sends each provider one small request, and nothing without the flag", async () => {
    using folder = new TempFolder();
    using upstream = new UpstreamServer(() => jsonResponse({ choices: [] }));
    const shell = new Console(folder.path, env(upstream.url));
    expect((await diagnose(shell)).of("provider openai")[0]!.found).toContain("not called");
    expect(upstream.requests).toHaveLength(0);
    const { code, of } = await diagnose(shell, "doctor --call");
    expect(code).toBe(0);
    expect(of("provider openai")[0]!.found).toContain("answered");
    expect(upstream.requests).toHaveLength(1);
    expect(upstream.last.headers.get("authorization")).toBe("Bearer sk-test-0000000000000000");
  });

  test.each([
    [401, "error", "Its key is refused"],
    [429, "warning", "read what it says"],
  ])("an answer of %p is a %s", async (status, state, advice) => {
    using folder = new TempFolder();
    using upstream = new UpstreamServer(() => jsonResponse({ error: { message: "the upstream's words" } }, status));
    const { of } = await diagnose(new Console(folder.path, env(upstream.url)), "doctor --call");
    const [check] = of("provider openai");
    expect(check).toMatchObject({ state, found: expect.stringMatching(/the upstream's words/) });
    expect(check!.advice).toContain(advice);
    expect(JSON.stringify(check)).not.toContain("sk-test");
  });

  test("an address where nobody is, is a fault", async () => {
    using folder = new TempFolder();
    const { code, of } = await diagnose(new Console(folder.path, env("http://127.0.0.1:9")), "doctor --call");
    expect(code).toBe(1);
    expect(of("provider openai")[0]!.found).toContain("could not be reached");
  });
});

test("troupe doctor --client plays a client against a running server", async () => {
  using folder = new TempFolder();
  await using troupe = await Troupe.start({ config: { streams: { keepAliveSeconds: 1 } } });
  const shell = new Console(folder.path, { TROUPE_KEY: troupe.key });
  const line = (url: string) => `doctor --client gemini-cli --url ${url} --silence 2`;
  for (const base of ["", "/gateway", "/gateway/v1beta"]) {
    const { code, out } = await shell.run(`${line(troupe.url + base)} --json`);
    expect([base, code, JSON.parse(out).ok]).toEqual([base, 0, true]);
  }
  const away = await shell.run(line("http://127.0.0.1:1"));
  expect([away.code, away.out]).toEqual([1, expect.stringMatching(/^ERROR call: no answer: .*\n {6}→ Check --url/)]);
  const keyless = new Console(folder.path);
  expect(await keyless.run(line(troupe.url))).toMatchObject({ code: 2, err: expect.stringContaining("TROUPE_KEY") });
  expect(await shell.run("doctor --client emacs")).toMatchObject({ code: 2 });
  expect(await shell.run("doctor --client codex --url nowhere")).toMatchObject({ code: 2 });
  expect(await shell.run("doctor --url http://127.0.0.1")).toMatchObject({
    ...{ code: 2, err: expect.stringContaining("--url is for --client") },
  });
});
