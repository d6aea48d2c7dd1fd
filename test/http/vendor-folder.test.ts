/** OpenAI's routes below `/openai/v1`, where groq-sdk and Azure's newest clients look for them behind any address: the same as below `/v1`. */
import { expect, test } from "bun:test";
import OpenAI from "openai";
import { ResponsesWS } from "openai/resources/responses/ws";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const frame = { id: "up", object: "chat.completion", created: 1, model: "m" };
const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const { troupe } = await served(
  ({ json }) => {
    const message = { role: "assistant", content: "hello" };
    const choice = { index: 0, finish_reason: "stop" };
    if ((json as { stream?: boolean }).stream !== true)
      return jsonResponse({ ...frame, choices: [{ ...choice, message }], usage });
    const chunk = { ...frame, choices: [{ ...choice, delta: message }], usage };
    return sseResponse([`data: ${JSON.stringify(chunk)}\n\n`, "data: [DONE]\n\n"]);
  },
  (url) => ({ providers: { groq: { baseUrl: url, models: ["m"] } } }),
);
const client = new OpenAI({ baseURL: `${troupe.url}/gateway/openai/v1`, apiKey: troupe.key, maxRetries: 0 });

const model = "groq/m";

test("a model", async () => {
  expect((await client.models.retrieve("groq/m")).id).toBe(model);
});

test("a stored response, and a stored completion", async () => {
  const { id } = await client.responses.create({ model, input: "hi" });
  expect((await client.responses.retrieve(id)).output_text).toBe("hello");
  expect((await client.responses.inputItems.list(id)).data).toHaveLength(1);
  await client.responses.delete(id);
  const completion = await client.chat.completions.create({
    model,
    messages: [{ role: "user", content: "hi" }],
    store: true,
  });
  expect((await client.chat.completions.retrieve(completion.id)).id).toBe(completion.id);
});

test("compaction", async () => {
  const compacted = await client.responses.compact({ model: model as "gpt-5", input: "hi" });
  expect(compacted.object).toBe("response.compaction");
});

test("a WebSocket", async () => {
  const socket = new ResponsesWS(client);
  const done = Promise.withResolvers<string>();
  socket.on("response.completed", ({ response }) => done.resolve(response.status!));
  socket.on("error", done.reject);
  socket.send({ type: "response.create", model, input: "hi", store: false } as never);
  expect(await done.promise).toBe("completed");
  socket.close();
});

test("none of it is described twice", async () => {
  const { paths } = (await (await troupe.fetch("/docs/json")).json()) as { paths: Record<string, unknown> };
  expect(Object.keys(paths).filter((path) => path.includes("/openai/"))).toEqual([]);
  expect(Object.keys(paths).some((path) => path.endsWith("/v1/responses/{id}"))).toBe(true);
});
