import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { RenderedCall } from "../../src/http/render.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

const persona = `description: Helps.
model: [openai/gpt-5.4-mini, nowhere/else, builtin/echo]
system: Help {{who}} in {{language}}.
variables: {who: {default: everyone}, language: {required: true}}
limits: {temperature: 1}
`;

function withPersona(env: Record<string, string> = {}): { folder: TempFolder; shell: Console } {
  const folder = new TempFolder();
  mkdirSync(folder.file("personas/acme"), { recursive: true });
  writeFileSync(folder.file("personas/acme/help.yaml"), persona);
  return { folder, shell: new Console(folder.path, env) };
}

test("prints each request as it would go out, without its key, and the origin of each part", async () => {
  const { folder, shell } = withPersona({ OPENAI_API_KEY: "sk-secret" });
  using _ = folder;
  shell.input = "Hi \u001b[31m";
  const words = "personas render acme/help --input - --variables language=French --set temperature=1.5 --user u-1";
  const { code, out } = await shell.run(words);
  const shown = `# openai/gpt-5.4-mini: the call goes here

POST https://api.openai.com/v1/chat/completions HTTP/1.1
host: api.openai.com
content-type: application/json
accept: */*
accept-encoding: identity
user-agent: troupe
authorization: Bearer ***
content-length: 173

{"temperature":1,"messages":[{"role":"system","content":"Help everyone in French."},{"role":"user","content":"Hi \\u001b[31m"}],"user":"u-1","model":"gpt-5.4-mini"}
`;
  expect(out.replace(/content-length: \d+/, "content-length: 173")).toStartWith(shown);
  const rows = out.split("\n").map((line) => line.split(/ {2,}/).filter((cell) => cell !== ""));
  expect(rows).toContainEqual([
    "temperature",
    "1",
    "personas/acme/help.yaml:5:23 limits.temperature, which lowers 1.5",
  ]);
  expect(rows).toContainEqual(["messages[0].content", '"Help "', "personas/acme/help.yaml:3:9 system"]);
  expect(rows).toContainEqual(['"everyone"', "personas/acme/help.yaml:4:28 variables.who.default"]);
  expect(rows).toContainEqual(['"French"', "the request's variables.language"]);
  expect(rows).toContainEqual(["user", '"u-1"', "the request's user"]);
  expect(rows).toContainEqual(["model", '"gpt-5.4-mini"', "personas/acme/help.yaml:2:9 model[0]"]);
  expect(out).toContain("# builtin/echo: where those before it fail; this program answers itself");
  expect(out).not.toContain("sk-secret");
  expect(out).toContain("# nowhere/else: its provider is not set up\n");
  expect(code).toBe(0);
});

test("takes a whole request, and another model, and answers in JSON", async () => {
  const { folder, shell } = withPersona();
  using _ = folder;
  writeFileSync(
    folder.file("request.json"),
    JSON.stringify({ messages: [{ role: "user", content: "One" }], variables: { language: "Dutch" } }),
  );
  const words = "personas render acme/help --messages request.json --model anthropic/claude-haiku-4-5 --stream --json";
  const { code, out } = await shell.run(words);
  const { models } = JSON.parse(out) as RenderedCall;
  expect(models.map(({ model, use }) => [model, use])).toEqual([["anthropic/claude-haiku-4-5", "unavailable"]]);
  expect(JSON.parse(models[0]!.request!.body)).toMatchObject({
    stream: true,
    messages: [{ role: "user", content: [{ type: "text", text: "One" }] }],
  });
  expect(models[0]!.parts).toContainEqual({
    path: "stream",
    value: true,
    origins: [{ kind: "caller", field: "stream" }],
  });
  expect(code).toBe(0);
});

test("says what is wrong with the call", async () => {
  const { folder, shell } = withPersona();
  using _ = folder;
  expect(await shell.run("personas render acme/help")).toMatchObject({
    code: 1,
    err: "error: The call would be refused: Missing required field: variables.language.\n",
  });
  expect((await shell.run("personas render acme/hlep")).err).toBe(
    `error: There is no persona 'acme/hlep' in ${folder.file("personas")}. Did you mean 'acme/help'?\n`,
  );
  expect((await shell.run("personas render acme/help --messages none.json")).err).toContain("no file none.json");
  expect((await shell.run("personas render acme/help --variables language")).err).toContain("<name>=<value>");
});
