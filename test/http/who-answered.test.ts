/** Answers name who gave them: `x-troupe-provider`, `x-troupe-upstream-model` and `x-troupe-attempts`. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { type Asked, bodyFor, type FormatName, formatNames, pathOf } from "../helpers/client-formats.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const completion = {
  ...{ id: "up", object: "chat.completion", created: 1 },
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "up", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const events = [chunk({ role: "assistant", content: "hello" }), chunk({}, "stop"), "data: [DONE]\n\n"];

let held: HeldStream | undefined;
const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("acme"));
const persona = (more: string) => `description: Helps.\nmodel: [groq/down, mistral/up]\nsystem: Help.\n${more}`;
writeFileSync(folder.file("acme/open.yaml"), persona(""));
writeFileSync(folder.file("acme/hidden.yaml"), persona("hide_upstream: true\n"));
writeFileSync(folder.file("acme/refused.yaml"), "description: Helps.\nmodel: groq/refused\nsystem: Help.\n");
const { troupe, upstream } = await served(
  ({ path, json }) => {
    const { model, stream } = json as { model: string; stream?: boolean };
    if (path.endsWith("/embeddings")) return jsonResponse({ data: [{ index: 0, embedding: [1] }], usage: {} });
    if (held !== undefined) return held.response();
    if (model === "down") return jsonResponse({ error: { message: "down" } }, 500);
    if (model === "refused") return jsonResponse({ error: { message: "no" } }, 400);
    return stream === true ? sseResponse(events) : jsonResponse(completion);
  },
  (url) => ({
    providers: { groq: { baseUrl: url }, mistral: { baseUrl: url } },
    personas: folder.path,
    config: { cors: { origins: ["*"] } },
  }),
);
await troupe.server.services.loading;

const names = [
  ...["x-troupe-provider", "x-troupe-upstream-model"],
  ...["x-troupe-upstream-format", "x-troupe-attempts"],
] as const;
const whoIn = ({ headers }: Response) => names.map((name) => headers.get(name));
const nobody = [null, null, null, null];
const asked: Asked = {
  system: "",
  turns: [{ kind: "user", parts: [{ kind: "text", text: "hi" }] }],
  tools: [],
  choice: "auto",
  oneAtATime: false,
  schema: undefined,
  temperature: undefined,
  maxTokens: 9,
  stop: [],
};

async function call(
  format: FormatName,
  surface: "gateway" | "orchestrator",
  model: string,
  stream = false,
  id?: string,
) {
  const path = pathOf(surface, format, model);
  const inPath = format === "generate-content";
  const body = { ...bodyFor(format, asked, model), ...(stream && !inPath && { stream: true }) };
  const headers = id === undefined ? {} : { headers: { "service-request-id": id } };
  const at = stream && inPath ? `${path.replace(":generateContent", ":streamGenerateContent")}?alt=sse` : path;
  const response = await troupe.post(at, body, headers);
  const text = await response.text();
  return { response, text };
}

describe.each(formatNames)("in %s", (format) => {
  test.each([false, true])("the gateway's answer names who gave it, streamed: %p", async (stream) => {
    const { response, text } = await call(format, "gateway", "groq/some-model", stream);
    expect(text).toContain("hello");
    expect(whoIn(response)).toEqual(["groq", "some-model", "chat", "1"]);
  });

  test("so does an upstream's error", async () => {
    const { response } = await call(format, "gateway", "groq/refused");
    expect(response.status).toBe(400);
    expect(whoIn(response)).toEqual(["groq", "refused", "chat", "1"]);
  });

  test.each([false, true])("a persona's answer names the model that gave it, streamed: %p", async (stream) => {
    const { response } = await call(format, "orchestrator", "acme/open", stream);
    expect(response.status).toBe(200);
    expect(whoIn(response)).toEqual(["mistral", "up", "chat", "2"]);
  });

  test("a persona that hides its upstream names none, whatever the end", async () => {
    const { response, text } = await call(format, "orchestrator", "acme/hidden");
    expect(text).toContain("hello");
    expect(whoIn(response)).toEqual(nobody);
  });

  test.each([false, true])("a replay names who answered first, streamed: %p", async (stream) => {
    const id = `replay-${format}-${stream}`;
    const first = await call(format, "orchestrator", "acme/open", stream, id);
    const second = await call(format, "orchestrator", "acme/open", stream, id);
    expect(second.response.headers.get("idempotent-replayed")).toBe("true");
    expect(whoIn(first.response)).toEqual(["mistral", "up", "chat", "2"]);
    expect(whoIn(second.response)).toEqual(whoIn(first.response));
    expect(second.text.replace(/^id: .*\n/gm, "")).toBe(first.text.replace(/^id: .*\n/gm, ""));
  });
});

test("whoever joins a call gets the headers of the first, be it an answer or an error", async () => {
  for (const model of ["acme/open", "acme/refused"]) {
    held = new HeldStream();
    const ask = () => call("chat", "orchestrator", model, false, `joined ${model}`.replace(" ", "-"));
    const waiting = [ask(), ask()];
    await upstream.received(upstream.requests.length + 1);
    const before = held;
    held = undefined;
    before.break();
    const [first, second] = await Promise.all(waiting);
    expect(whoIn(first!.response)[0]).not.toBeNull();
    expect(whoIn(second!.response)).toEqual(whoIn(first!.response));
  }
});

test("what is refused before a provider is asked names none", async () => {
  expect(whoIn((await call("chat", "gateway", "nobody/some-model")).response)).toEqual(nobody);
  expect(whoIn(await troupe.fetch("/v1/models"))).toEqual(nobody);
});

test("an unreachable provider is named", async () => {
  const gone = new UpstreamServer(() => jsonResponse({}));
  const { url } = gone;
  gone[Symbol.dispose]();
  await using alone = await Troupe.start({ providers: { openai: { baseUrl: url } } });
  const body = { model: "openai/gpt-5.4", messages: [{ role: "user", content: "hi" }] };
  const response = await alone.post("/gateway/v1/chat/completions", body);
  expect(response.status).toBe(503);
  expect(whoIn(response)).toEqual(["openai", "gpt-5.4", "chat", "1"]);
});

test("embeddings name who made them", async () => {
  const response = await troupe.post("/gateway/v1/embeddings", { model: "mistral/embed", input: "hi" });
  expect(response.status).toBe(200);
  expect(whoIn(response)).toEqual(["mistral", "embed", null, "1"]);
});

test("other characters than printable ASCII are percent-encoded", async () => {
  const { response } = await call("chat", "gateway", "groq/modèle-模型 1");
  expect(whoIn(response)).toEqual(["groq", "mod%C3%A8le-%E6%A8%A1%E5%9E%8B 1", "chat", "1"]);
});

test("scripts of allowed origins may read them", async () => {
  const init = { headers: { origin: "https://app.example" } };
  const body = { model: "groq/some-model", messages: [{ role: "user", content: "hi" }] };
  const response = await troupe.post("/gateway/v1/chat/completions", body, init);
  const exposed = response.headers.get("access-control-expose-headers")!.split(", ");
  expect(names.every((name) => exposed.includes(name))).toBe(true);
});

test("a stream that begins before anyone answered names none", async () => {
  held = new HeldStream();
  await using waiting = await Troupe.start({
    providers: { groq: { baseUrl: upstream.url } },
    config: { streams: { keepAliveSeconds: 0.05 } },
  });
  const body = { model: "groq/some-model", stream: true, messages: [{ role: "user", content: "hi" }] };
  const init = { headers: { "service-request-id": "late" } };
  const response = await waiting.post("/gateway/v1/chat/completions", body, init);
  expect(whoIn(response)).toEqual(nobody);
  held.send(events.join(""));
  held.close();
  expect(await response.text()).toContain("hello");
  held = undefined;
  const replayed = await waiting.post("/gateway/v1/chat/completions", body, init);
  expect(await replayed.text()).toContain("hello");
  expect(whoIn(replayed)).toEqual(["groq", "some-model", "chat", "1"]);
});

test("an answer made in the background names who gives it on its stream", async () => {
  const body = { model: "acme/open", input: "hi", background: true, store: true };
  const queued = await troupe.post("/v1/responses", body);
  const { id } = (await queued.json()) as { id: string };
  expect(whoIn(queued)).toEqual(nobody);
  const stream = await troupe.fetch(`/v1/responses/${id}?stream=true`);
  expect(await stream.text()).toContain("response.completed");
  expect(whoIn(stream)).toEqual(["mistral", "up", "chat", "2"]);
  const streamed = await troupe.post("/v1/responses", { ...body, stream: true });
  expect(await streamed.text()).toContain("response.completed");
  expect(whoIn(streamed)).toEqual(["mistral", "up", "chat", "2"]);
});
