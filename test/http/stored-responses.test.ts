/** Stored and background responses, by the `openai` package, unmodified. */
import { beforeEach, describe, expect, test } from "bun:test";
import type OpenAI from "openai";
import type { Response as ResponseObject, ResponseStreamEvent } from "openai/resources/responses/responses";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

const persona = "troupe/guide";
let answer: () => Response | Promise<Response>;

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({ providers: { groq: { baseUrl: url } }, countsTokens: true }),
);
for (const id of [persona, "troupe/translator"]) troupe.setTargets(id, ["groq/x"]);
beforeEach(() => {
  answer = () => completion({ content: "Nice to meet you, Ada." });
});

const usage = { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 };
const completion = (message: object, finish_reason = "stop") =>
  jsonResponse({ id: "up", choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }], usage });
const weather = { id: "call_1", type: "function", function: { name: "weather", arguments: '{"city":"Rome"}' } };
const body = () => upstream.last.json as { messages: { role: string; content: unknown }[] };
const turns = () => body().messages.filter(({ role }) => role !== "system" && role !== "developer");
const failure = (call: PromiseLike<unknown>) =>
  Promise.resolve(call).then(
    () => undefined,
    (thrown: unknown) => thrown as InstanceType<typeof OpenAI.APIError>,
  );
const read = async (events: AsyncIterable<ResponseStreamEvent>) => {
  const all: ResponseStreamEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
};
/** Polls as clients do, without sleeping longer than an answer takes. */
async function settled(client: OpenAI, id: string): Promise<ResponseObject> {
  for (;;) {
    const found = await client.responses.retrieve(id);
    if (found.status !== "queued" && found.status !== "in_progress") return found;
    await new Promise((resolve) => setImmediate(resolve));
  }
}
const numbers = (events: readonly ResponseStreamEvent[]) => events.map(({ sequence_number }) => sequence_number);
const upTo = (count: number) => Array.from({ length: count }, (_, at) => at);

describe("prompt", () => {
  const ask = (surface: "gateway" | "orchestrator", body: object) =>
    troupe.client(surface).responses.create({ input: "Hi", ...body } as { model: string; input: string });

  test("names a persona, and fills its variables", async () => {
    const translator = { id: "troupe/translator", variables: { language: "Latin" } };
    const answered = await ask("orchestrator", { prompt: translator });
    expect(JSON.stringify(body().messages)).toContain("Latin");
    expect(answered).toMatchObject({ model: "troupe/translator", prompt: translator });
  });

  test.each([
    ["orchestrator", { prompt: { id: "troupe/nobody" } }, { status: 404, param: "model" }],
    ["orchestrator", { prompt: { id: persona, version: "2" } }, { status: 400, param: "prompt.version" }],
    ["orchestrator", { prompt: { id: persona }, model: "troupe/tutor" }, { status: 400, param: "prompt.id" }],
    ["orchestrator", { prompt: { id: "pmpt_1" } }, { status: 404, param: "prompt.id" }],
    ["gateway", { prompt: { id: "pmpt_1" } }, { status: 404, param: "prompt.id" }],
    ["gateway", { prompt: { id: "pmpt_1" }, model: "groq/x" }, { status: 400, param: "prompt" }],
  ] as const)("a wrong one is named: %s %o", async (surface, body, fault) => {
    expect(await failure(ask(surface, body))).toMatchObject(fault);
  });
});

describe.each([["orchestrator", persona] as const, ["gateway", "groq/x"] as const])("%s", (surface, model) => {
  const client = () => troupe.client(surface);
  const other = surface === "gateway" ? "orchestrator" : "gateway";

  test("an answer is kept unless its caller says otherwise, and read as it was given", async () => {
    const created = await client().responses.create({ model, input: "I am Ada.", metadata: { a: "b" } });
    expect(await client().responses.retrieve(created.id, { include: ["reasoning.encrypted_content"] })).toEqual(
      created,
    );
    const unkept = await client().responses.create({ model, input: "I am Ada.", store: false });
    expect(await failure(client().responses.retrieve(unkept.id))).toMatchObject({ status: 404, code: "not_found" });
  });

  test("a streamed one is kept as its last event gives it", async () => {
    const events = await read(
      (await client().responses.create({ model, input: "Hi", stream: true })) as AsyncIterable<ResponseStreamEvent>,
    );
    const last = events.at(-1) as { type: string; response: ResponseObject };
    expect(last.type).toBe("response.completed");
    const { output_text: _, ...kept } = await client().responses.retrieve(last.response.id);
    expect(kept).toEqual(last.response);
  });

  test("a cut one is kept as incomplete", async () => {
    answer = () => completion({ content: "Nice to" }, "length");
    const { id } = await client().responses.create({ model, input: "I am Ada.", max_output_tokens: 16 });
    expect(await client().responses.retrieve(id)).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output_text: "Nice to",
    });
  });

  test("it is its key's on its surface alone, and no stored completion", async () => {
    const { id } = await client().responses.create({ model, input: "I am Ada." });
    const apiKey = await troupe.createKey({ name: "other", tier: "pro" });
    const strangers = [troupe.client(surface, { apiKey }), troupe.client(other)];
    for (const stranger of strangers) {
      const calls = [
        () => stranger.responses.retrieve(id),
        () => stranger.responses.delete(id),
        () => stranger.responses.cancel(id),
        () => stranger.responses.inputItems.list(id),
        () => stranger.responses.retrieve(id, { stream: true }),
      ];
      for (const call of calls) expect(await failure(call())).toMatchObject({ status: 404, code: "not_found" });
    }
    expect(
      await failure(strangers[0]!.responses.create({ model, input: "Who am I?", previous_response_id: id })),
    ).toMatchObject({ status: 404, code: "not_found", param: "previous_response_id" });
    expect(await failure(client().chat.completions.retrieve(id))).toMatchObject({ status: 404 });
    expect(await failure(client().chat.completions.delete(id))).toMatchObject({ status: 404 });
    expect((await client().chat.completions.list()).data.map((one) => one.id)).not.toContain(id);
    const said = await client().chat.completions.create({
      model,
      messages: [{ role: "user", content: "Hi" }],
      store: true,
    });
    expect(await failure(client().responses.retrieve(said.id))).toMatchObject({ status: 404 });
  });

  test("deleted, it can neither be read nor continued", async () => {
    const { id } = await client().responses.create({ model, input: "I am Ada." });
    const deleted = await troupe.fetch(`${new URL(troupe.baseUrl(surface)).pathname}/responses/${id}`, {
      method: "DELETE",
    });
    expect(await deleted.json()).toEqual({ id, object: "response.deleted", deleted: true });
    expect(await failure(client().responses.retrieve(id))).toMatchObject({ status: 404 });
    expect(await failure(client().responses.delete(id))).toMatchObject({ status: 404 });
    expect(
      await failure(client().responses.create({ model, input: "Who am I?", previous_response_id: id })),
    ).toMatchObject({ status: 404, param: "previous_response_id" });
  });

  test("previous_response_id goes on through a loop of tools; instructions are not carried over", async () => {
    const tools = [{ type: "function" as const, name: "weather", parameters: { type: "object" }, strict: false }];
    answer = () => completion({ content: null, tool_calls: [weather] }, "tool_calls");
    const first = await client().responses.create({ model, instructions: "Be a pirate.", input: "Rome?", tools });
    expect(first.output[0]).toMatchObject({ type: "function_call", call_id: "call_1", name: "weather" });
    answer = () => completion({ content: "Sunny." });
    const output = [{ type: "function_call_output" as const, call_id: "call_1", output: '{"sky":"clear"}' }];
    const second = await client().responses.create({
      model,
      instructions: "Be brief.",
      input: output,
      tools,
      previous_response_id: first.id,
    });
    expect(turns()).toEqual([
      { role: "user", content: "Rome?" },
      { role: "assistant", content: null, tool_calls: [weather] },
      { role: "tool", tool_call_id: "call_1", content: '{"sky":"clear"}' },
    ] as never);
    expect(JSON.stringify(body().messages)).not.toContain("pirate");
    expect(body().messages.findIndex(({ content }) => content === "Be brief.")).toBeLessThan(
      body().messages.findIndex(({ role }) => role === "user"),
    );
    expect(second).toMatchObject({ previous_response_id: first.id, output_text: "Sunny." });
    await client().responses.create({ model, input: "And tomorrow?", previous_response_id: second.id });
    expect(turns().map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant", "user"]);
  });

  test("a chat's stored completion is continued here, and a response by chat", async () => {
    const said = { model, messages: [{ role: "user" as const, content: "I am Ada." }], store: true };
    const completed = await client().chat.completions.create(said);
    const response = await client().responses.create({ model, input: "Who am I?", previous_response_id: completed.id });
    expect(turns().map(({ content }) => content)).toEqual(["I am Ada.", "Nice to meet you, Ada.", "Who am I?"]);
    const items = (await client().responses.inputItems.list(response.id, { order: "asc" })).data;
    expect(items).toMatchObject([
      { type: "message", role: "user", content: [{ type: "input_text", text: "I am Ada." }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Nice to meet you, Ada." }] },
      { type: "message", role: "user", content: [{ type: "input_text", text: "Who am I?" }] },
    ]);
    await client().chat.completions.create({
      model,
      messages: [{ role: "user", content: "Sure?" }],
      ...({ previous_response_id: response.id } as object),
    });
    expect(turns().map(({ content }) => content)).toEqual([
      "I am Ada.",
      "Nice to meet you, Ada.",
      "Who am I?",
      "Nice to meet you, Ada.",
      "Sure?",
    ]);
  });

  test("the input's items have ids, and come in pages, the latest first", async () => {
    const input = [
      { role: "user" as const, content: "one" },
      {
        id: "msg_own",
        role: "user" as const,
        type: "message" as const,
        content: [{ type: "input_text" as const, text: "two" }],
      },
      { type: "function_call" as const, call_id: "c", name: "f", arguments: "{}" },
      { type: "function_call_output" as const, call_id: "c", output: "3" },
    ];
    const { id } = await client().responses.create({ model, input: input as never });
    const all: { id?: string; type?: string }[] = [];
    for await (const item of client().responses.inputItems.list(id, { limit: 1 })) all.push(item);
    expect(all.map(({ type }) => type)).toEqual(["function_call_output", "function_call", "message", "message"]);
    expect(new Set(all.map((item) => item.id)).size).toBe(4);
    expect(all[2]!.id).toBe("msg_own");
    const page = await client().responses.inputItems.list(id, { order: "asc", after: "msg_own" });
    expect(page.data.map(({ type }) => type)).toEqual(["function_call", "function_call_output"] as never);
    expect(await failure(client().responses.inputItems.list(id, { limit: 0 }))).toMatchObject({
      status: 400,
      param: "limit",
    });
  });

  test("a finished one is told again as events, from any of them on", async () => {
    answer = () => completion({ content: "Let me see.", tool_calls: [weather] }, "tool_calls");
    const created = await client().responses.create({ model, input: "Rome?" });
    const events = await read(await client().responses.retrieve(created.id, { stream: true }));
    expect(numbers(events)).toEqual(upTo(events.length));
    const { output_text: _, ...whole } = created;
    expect(events.at(-1)).toMatchObject({ type: "response.completed", response: whole } as never);
    const rest = await read(await client().responses.retrieve(created.id, { stream: true, starting_after: 3 }));
    expect(rest).toEqual(events.slice(4));
    const folded = client().responses.stream({ response_id: created.id });
    expect((await folded.finalResponse()).output).toMatchObject(created.output as never);
  });

  test("the tokens of an input are estimated where nobody counts them", async () => {
    // A caller waits 5 s for the tokenizer, which a busy machine may take to load its tables.
    await troupe.server.services.tokenizer.count(["words"], 60_000);
    const { data, response } = await client().responses.inputTokens.count({ model, input: "four" }).withResponse();
    expect(data.object).toBe("response.input_tokens");
    expect(response.headers.get("x-troupe-estimated")).toBe("true");
    const longer = await client().responses.inputTokens.count({ model, input: `four${"text".repeat(100)}` });
    expect(longer.input_tokens - data.input_tokens).toBe(100);
    expect(await failure(client().responses.inputTokens.count({ model, input: 3 } as never))).toMatchObject({
      status: 400,
      param: "input",
    });
  });

  describe("in the background", () => {
    test("it is queued at once, polled while it is made, and then as any other", async () => {
      const held = new HeldStream();
      answer = () => held.response();
      const queued = await client().responses.create({ model, input: "I am Ada.", background: true });
      expect(queued).toMatchObject({ status: "queued", background: true, output: [] });
      expect(await client().responses.retrieve(queued.id)).toMatchObject({ status: "in_progress", output: [] });
      expect(
        await failure(client().responses.create({ model, input: "?", previous_response_id: queued.id })),
      ).toMatchObject({ status: 400, param: "previous_response_id" });
      held.fragment("Hello");
      held.finish();
      const finished = await settled(client(), queued.id);
      expect(finished).toMatchObject({ id: queued.id, status: "completed", background: true, output_text: "Hello" });
      answer = () => completion({ content: "Ada." });
      await client().responses.create({ model, input: "Who am I?", previous_response_id: queued.id });
      expect(turns().map(({ content }) => content)).toEqual(["I am Ada.", "Hello", "Who am I?"]);
    });

    test("its stream may be cut, and is taken up again where it was, live", async () => {
      const held = new HeldStream();
      answer = () => held.response();
      const creating = client().responses.create({ model, input: "Hi", background: true, stream: true });
      held.fragment("one ");
      const stream = await creating;
      const seen: ResponseStreamEvent[] = [];
      for await (const event of stream) {
        seen.push(event);
        if (event.type === "response.output_text.delta") break;
      }
      const { id } = (seen[0] as { response: ResponseObject }).response;
      const starting_after = seen.at(-1)!.sequence_number;
      const resuming = client().responses.retrieve(id, { stream: true, starting_after });
      held.fragment("two");
      const resumed = (await resuming)[Symbol.asyncIterator]();
      const next = (await resumed.next()).value as ResponseStreamEvent;
      expect(next).toMatchObject({
        type: "response.output_text.delta",
        delta: "two",
        sequence_number: starting_after + 1,
      });
      held.finish();
      const rest = [next];
      for (let step = await resumed.next(); step.done !== true; step = await resumed.next()) rest.push(step.value);
      expect(numbers([...seen, ...rest])).toEqual(upTo(seen.length + rest.length));
      const last = rest.at(-1) as { type: string; response: ResponseObject };
      expect(last).toMatchObject({ type: "response.completed", response: { id, background: true } });
      const { output_text: _, ...kept } = await client().responses.retrieve(id);
      expect(kept).toEqual(last.response);
      expect(await read(await client().responses.retrieve(id, { stream: true }))).toEqual([...seen, ...rest]);
    });

    test("cancelled, it ends the upstream's call and stays cancelled", async () => {
      const held = new HeldStream();
      answer = () => held.response();
      const { id } = await client().responses.create({ model, input: "Hi", background: true });
      await upstream.received(upstream.requests.length);
      held.fragment("Hel");
      expect(await client().responses.cancel(id)).toMatchObject({ id, status: "cancelled" });
      await held.cancelled;
      expect(await client().responses.cancel(id)).toMatchObject({ status: "cancelled" });
      expect(await client().responses.retrieve(id)).toMatchObject({ status: "cancelled", output: [] });
      expect(await failure(client().responses.create({ model, input: "?", previous_response_id: id }))).toMatchObject({
        status: 400,
      });
    });

    test("deleted, it ends too", async () => {
      const held = new HeldStream();
      answer = () => held.response();
      const { id } = await client().responses.create({ model, input: "Hi", background: true });
      held.fragment("Hel");
      await client().responses.delete(id);
      await held.cancelled;
      expect(await failure(client().responses.retrieve(id))).toMatchObject({ status: 404 });
    });

    test("what fails says so, to those who poll and to those who follow", async () => {
      answer = () => jsonResponse({ error: { message: "no more", type: "server_error", code: "broken" } }, 500);
      const { id } = await client().responses.create({ model, input: "Hi", background: true });
      const failed = await settled(client(), id);
      expect(failed.status).toBe("failed");
      const code = surface === "gateway" ? "broken" : "upstream_unavailable";
      expect(failed.error!.code as string).toBe(code);
      const raw = await troupe.fetch(`${new URL(troupe.baseUrl(surface)).pathname}/responses/${id}?stream=true`);
      const events = [...(await raw.text()).matchAll(/^event: (.*)$/gm)].map(([, name]) => name);
      expect(events[0]).toBe("response.created");
      expect(events.at(-1)).toBe("response.failed");
    });

    test("a stream that breaks is a failed one", async () => {
      const held = new HeldStream();
      answer = () => held.response();
      const { id } = await client().responses.create({ model, input: "Hi", background: true });
      held.fragment("Hel");
      held.close();
      const failed = await settled(client(), id);
      expect(failed).toMatchObject({ status: "failed", output: [] });
      expect(failed.error!.message).not.toBe("");
    });

    test("a mistake is told at once", async () => {
      const wrong = { model: surface === "gateway" ? "nobody/x" : "nobody/none", input: "Hi", background: true };
      expect(await failure(client().responses.create(wrong))).toMatchObject({ param: "model" });
      expect(
        await failure(client().responses.create({ model, input: "Hi", background: true, store: false })),
      ).toMatchObject({ status: 400, param: "store" });
      const windowed = { model, input: "Hi", background: true, background_options: { completion_window: "2h" } };
      expect(await failure(client().responses.create(windowed as never))).toMatchObject({
        status: 400,
        param: "background_options",
        code: "unsupported_parameter",
      });
      const { id } = await client().responses.create({ model, input: "Hi" });
      expect(await failure(client().responses.cancel(id))).toMatchObject({ status: 400 });
      expect(await failure(client().responses.retrieve(id, { starting_after: 3 } as never))).toMatchObject({
        status: 400,
        param: "starting_after",
      });
    });

    test("a retry under one service-request-id begins it once", async () => {
      const before = upstream.requests.length;
      answer = () =>
        sseResponse([
          'data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}\n\n',
          "data: [DONE]\n\n",
        ]);
      const headers = { "service-request-id": `background-${surface}` };
      const ask = (stream: boolean) =>
        client().responses.create({ model, input: "Hi", background: true, stream }, { headers }) as Promise<unknown>;
      const first = await read((await ask(true)) as AsyncIterable<ResponseStreamEvent>);
      const again = await read((await ask(true)) as AsyncIterable<ResponseStreamEvent>);
      expect(again).toEqual(first);
      expect(first.at(-1)!.type).toBe("response.completed");
      expect(upstream.requests.length).toBe(before + 1);
      expect(await failure(ask(false))).toMatchObject({ status: 422 });
    });
  });
});
