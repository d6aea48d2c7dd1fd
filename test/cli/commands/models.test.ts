/** `troupe models`: what providers list, what is known without them, and who could not be asked. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const models = [
  { id: "old", context_length: 8192, max_completion_tokens: 4096, shutdown_date: "2026-01-01" },
  {
    id: "new",
    context_length: 131072,
    input_modalities: ["text", "image"],
    pricing: { prompt: "0.000001", completion: "0.000002" },
  },
];
let asked = 0;
let upstream: ReturnType<typeof Bun.serve>;
beforeAll(() => {
  upstream = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    development: false,
    fetch: (request) => {
      asked += 1;
      if (request.headers.get("authorization") !== "Bearer k") return new Response("", { status: 401 });
      return Response.json({ object: "list", data: models });
    },
  });
});
afterAll(() => upstream.stop(true));

function made(): TempFolder & { shell: Console } {
  const folder = new TempFolder();
  const url = `http://127.0.0.1:${upstream.port}`;
  writeFileSync(
    folder.file("troupe.yaml"),
    `providers:
  mine: { dialect: mistral, base_url: "${url}", api_key: k }
  shut: { dialect: mistral, base_url: "${url}", api_key: wrong, models: [a] }
  perplexity: { api_key: k, models: [sonar] }
`,
  );
  return Object.assign(folder, { shell: new Console(folder.path) });
}

test("asks the providers, and names those that could not be asked and why", async () => {
  using folder = made();
  expect(await folder.shell.run("models")).toEqual({
    code: 0,
    out: `MODEL             CONTEXT  OUTPUT  READS       $/M IN  $/M OUT  FORMATS  ENDS ON
builtin/echo      -        -       -           -       -        -        -
builtin/eliza     -        -       -           -       -        -        -
builtin/probe     -        -       -           -       -        -        -
mine/old          8,192    4,096   -           -       -        chat     2026-01-01
mine/new          131,072  -       text,image  1       2        chat     -
shut/a            -        -       -           -       -        chat     -
perplexity/sonar  -        -       -           1       1        chat     -
`,
    err: `shut: its list could not be had: it answers with the status 401; models that are named or well known are shown
perplexity: it is not known to have a list; models that are named or well known are shown
`,
  });
});

test("a pattern is a glob or a part of an id; --ending leaves those that end", async () => {
  using folder = made();
  const ids = async (command: string) => {
    const { out } = await folder.shell.run(`${command} --json`);
    return (JSON.parse(out) as { models: { id: string }[] }).models.map(({ id }) => id);
  };
  expect(await ids("models NE/")).toEqual(["mine/old", "mine/new"]);
  expect(await ids("models m*w")).toEqual(["mine/new"]);
  expect(await ids("models --ending")).toEqual(["mine/old"]);
  expect(await ids("models --has vision")).toEqual(["mine/new"]);
  const wrong = await folder.shell.run("models --has wings");
  expect([wrong.code, wrong.out]).toEqual([2, ""]);
  expect(wrong.err).toContain("It must be words of vision, audio_input,");
  const none = await folder.shell.run("models nothing");
  expect([none.code, none.out]).toEqual([1, ""]);
  expect(none.err).toContain("No model fits 'nothing'.");
});

test("offline nobody is asked, and what a server was given is shown", async () => {
  using folder = made();
  const before = asked;
  const list = {
    provider: "mine",
    baseUrl: `http://127.0.0.1:${upstream.port}`,
    at: Date.UTC(2026, 10, 1),
    models: [{ id: "kept", contextLength: 1000, endsOn: "2026-06-01" }],
  };
  mkdirSync(folder.file("data"));
  writeFileSync(folder.file("data/models.json"), JSON.stringify({ lists: [list] }));
  const { out, err } = await folder.shell.run("models mine --offline --json");
  expect(JSON.parse(out)).toMatchObject({
    models: [{ id: "mine/kept", context_length: 1000, shutdown_date: "2026-06-01" }],
    providers: expect.arrayContaining([{ provider: "mine", listed_at: "2026-11-01T00:00:00.000Z", problem: null }]),
  });
  expect(err).toBe("");
  expect(asked).toBe(before);
  // The same list says to `check` which models end.
  writeFileSync(folder.file("personas.yaml"), "");
  mkdirSync(folder.file("personas/my"), { recursive: true });
  writeFileSync(folder.file("personas/my/a.yaml"), "description: A.\nsystem: Hi.\nmodel: mine/kept\n");
  const check = await folder.shell.run("check --json");
  const { warnings } = JSON.parse(check.out) as { warnings: string[] };
  expect(warnings.filter((one) => !one.includes("has no price"))).toEqual([
    `${folder.file("personas/my/a.yaml")}:3:8: model: 'mine/kept' ended on 2026-06-01: name another model`,
  ]);
});
