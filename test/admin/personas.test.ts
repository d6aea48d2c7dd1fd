import { expect, test } from "bun:test";
import { builtinFiles } from "../../src/personas/builtin.ts";
import { Troupe } from "../helpers/troupe.ts";

type Json = Record<string, unknown>;

const openai = { openai: { baseUrl: "https://api.openai.example/v1" } };

async function open(): Promise<{
  troupe: Troupe;
  ask: (path: string, body?: unknown) => Promise<{ status: number; json: Json }>;
}> {
  const listen = [
    { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
  ] as const;
  const troupe = await Troupe.start({ config: { listen }, providers: openai });
  const key = await troupe.createKey({ name: "admin", tier: "pro", surfaces: ["admin"] });
  const ask = async (path: string, body?: unknown) => {
    const answer = await (body === undefined
      ? troupe.fetch(`/admin/v1${path}`, { key })
      : troupe.post(`/admin/v1${path}`, body, { key }));
    return { status: answer.status, json: (await answer.json()) as Json };
  };
  return { troupe, ask };
}

test("lists what is served, and shows one with its file", async () => {
  const { troupe, ask } = await open();
  await using _ = troupe;
  const { json: first } = await ask("/personas?limit=3");
  const ids = (first["data"] as Json[]).map(({ id }) => id);
  expect([ids, first["has_more"]]).toEqual([Object.keys(builtinFiles).toSorted().slice(0, 3), true]);
  const { json: found } = await ask("/personas?name=translator");
  expect(found["data"]).toMatchObject([{ id: "troupe/translator", model: "openai/gpt-5.4-mini" }]);
  const { json: one } = await ask("/personas/troupe/translator");
  expect(one).toMatchObject({
    variables: { language: { default: "English" } },
    limits: { max_tokens: 8192 },
    source: { file: "personas/troupe/translator.yaml", text: builtinFiles["troupe/translator"] },
  });
  expect((await ask("/personas/troupe/nobody")).status).toBe(404);
});

test("renders a call with the place of each part, and sends nothing", async () => {
  const { troupe, ask } = await open();
  await using _ = troupe;
  const request = { messages: [{ role: "user", content: "Hi" }], variables: { language: "French" }, max_tokens: 9999 };
  const { status, json } = await ask("/personas/render", { persona: "troupe/translator", request });
  const models = json["models"] as { model: string; use: string; request: Json; parts: Json[] }[];
  expect([status, models.find(({ use }) => use === "first")?.model]).toEqual([200, "openai/gpt-5.4-mini"]);
  const { request: sent, parts } = models.find(({ use }) => use === "first")!;
  expect(sent).toMatchObject({
    url: "https://api.openai.example/v1/chat/completions",
    headers: { authorization: "Bearer ***" },
  });
  expect(JSON.stringify(json)).not.toContain("key-of-openai");
  const file = "personas/troupe/translator.yaml";
  expect(parts).toContainEqual({
    path: "max_completion_tokens",
    value: 8192,
    origins: [{ kind: "limit", field: "limits.max_tokens", capped: 9999, file, line: 42, column: 15 }],
  });
  const { json: other } = await ask("/personas/render", {
    persona: "troupe/guide",
    request: { messages: request.messages },
    model: "builtin/echo",
  });
  const { json: pinned } = await ask("/personas/render", {
    persona: `troupe/translator@${troupe.server.services.personas.find("troupe/translator")!.version}`,
    request,
  });
  expect(pinned["models"]).toEqual(json["models"]);
  expect(other["models"]).toMatchObject([{ model: "builtin/echo", use: "first", request: null, parts: [] }]);
});

test("refuses what the call would be refused for, and unknown personas", async () => {
  const { troupe, ask } = await open();
  await using _ = troupe;
  const messages = [{ role: "user", content: "Hi" }];
  const paramOf = async (body: Json) => {
    const { status, json } = await ask("/personas/render", body);
    return [status, (json["error"] as Json)["param"]];
  };
  expect(await paramOf({ persona: "no/body", request: { messages } })).toEqual([400, "persona"]);
  expect(await paramOf({ persona: "troupe/translator", request: { messages, variables: { x: "1" } } })).toEqual([
    400,
    "variables.x",
  ]);
  expect(await paramOf({ persona: "troupe/guide", request: { messages, previous_response_id: "a" } })).toEqual([
    400,
    "previous_response_id",
  ]);
  expect(await paramOf({ persona: "troupe/guide", request: { messages: "Hi" } })).toEqual([400, "request.messages"]);
});
