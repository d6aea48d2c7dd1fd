import { beforeEach, describe, expect, test } from "bun:test";
import OpenAI from "openai";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Said = { role: string; content: unknown }[];
let answer: () => Response | Promise<Response>;

const upstream = untilEnd(new UpstreamServer(() => answer()));
const baseUrl = `${upstream.url}/v1`;
const troupe = untilEnd(await Troupe.start({ providers: { openai: { baseUrl }, xai: { baseUrl } } }));
troupe.setTargets("troupe/guide", ["openai/x"]);
beforeEach(() => {
  answer = () => completion("Nice to meet you, Ada.");
});

const completion = (content: string) =>
  jsonResponse({
    choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 },
  });
const failure = (call: PromiseLike<unknown>) =>
  Promise.resolve(call).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
const user = (content: string) => ({ role: "user" as const, content });
const body = () => upstream.last.json as { messages: Said; store?: boolean; previous_response_id?: string };

describe.each([
  ["gateway", "openai/x"],
  ["orchestrator", "troupe/guide"],
] as const)("on the %s", (surface, model) => {
  const client = () => troupe.client(surface);
  const remember = (options: object = {}) =>
    client().chat.completions.create({ model, messages: [user("I am Ada.")], store: true, ...options });
  const go = (previous: string, options: object = {}) =>
    client().chat.completions.create({
      model,
      messages: [user("Who am I?")],
      ...({ previous_response_id: previous } as object),
      ...options,
    });

  test("previous_response_id continues with only the new messages, turn after turn", async () => {
    const first = await remember();
    answer = () => completion("You are Ada.");
    const second = await go(first.id, { store: true });
    const said = body().messages.filter(({ role }) => role !== "system" && role !== "developer");
    expect(said).toEqual([
      user("I am Ada."),
      { role: "assistant", content: "Nice to meet you, Ada." },
      user("Who am I?"),
    ]);
    expect(body().previous_response_id).toBeUndefined();
    await go(second.id);
    expect(body().messages.filter(({ role }) => role === "user").length).toBe(3);
  });

  test("a streamed answer is kept as well", async () => {
    const word = (content: string) =>
      `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content }, finish_reason: null }] })}\n\n`;
    const finish = 'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';
    answer = () => sseResponse([word("Hel"), word("lo"), finish]);
    const stream = await client().chat.completions.create({ model, messages: [user("Hi")], store: true, stream: true });
    let id = "";
    for await (const chunk of stream) id = chunk.id;
    answer = () => completion("x");
    await go(id);
    expect(body().messages.at(-2)).toEqual({ role: "assistant", content: "Hello" });
    expect((await client().chat.completions.retrieve(id)).choices[0]!.message.content).toBe("Hello");
  });

  test("what was not stored, was cut, or is another key's does not exist", async () => {
    const unstored = await remember({ store: false });
    answer = () => sseResponse(['data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n']);
    const cut = await client().chat.completions.create({ model, messages: [user("Hi")], store: true, stream: true });
    let cutId = "";
    await (async () => {
      for await (const chunk of cut) cutId = chunk.id;
    })().catch(() => {});
    answer = () => completion("mine");
    const mine = await remember();
    const other = troupe.client(surface, { apiKey: await troupe.createKey({ name: "other", tier: "pro" }) });
    const before = upstream.requests.length;
    const attempts = [
      () => go(unstored.id),
      () => go(cutId),
      () => go("chatcmpl-nothing"),
      () =>
        other.chat.completions.create({
          model,
          messages: [user("x")],
          ...({ previous_response_id: mine.id } as object),
        }),
    ];
    for (const attempt of attempts) {
      const error = await attempt().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(OpenAI.NotFoundError);
      expect(error).toMatchObject({ code: "not_found", param: "previous_response_id" });
    }
    expect(upstream.requests.length).toBe(before);
    expect(await failure(other.chat.completions.retrieve(mine.id))).toBeInstanceOf(OpenAI.NotFoundError);
  });

  test("the stored-completions routes, as the official client calls them", async () => {
    const key = await troupe.createKey({ name: "owner", tier: "enterprise", perMinute: 1000 });
    const own = troupe.client(surface, { apiKey: key });
    const made: string[] = [];
    for (const [at, project] of ["a", "b", "a"].entries()) {
      const { id } = await own.chat.completions.create({
        model,
        messages: [user(`message ${at}`)],
        store: true,
        metadata: { project },
      });
      made.push(id);
    }
    const listed: string[] = [];
    for await (const one of own.chat.completions.list({ limit: 2 })) listed.push(one.id);
    expect(listed).toEqual(made);
    const byProject = await own.chat.completions.list({ metadata: { project: "a" }, order: "desc" });
    expect(byProject.data.map(({ id }) => id)).toEqual([made[2]!, made[0]!]);
    expect((await own.chat.completions.list({ model: "openai/other" })).data).toEqual([]);

    const updated = await own.chat.completions.update(made[1]!, { metadata: { project: "c" } });
    expect(updated.metadata as unknown).toEqual({ project: "c" });
    expect((await own.chat.completions.retrieve(made[1]!)).metadata as unknown).toEqual({ project: "c" });
    const messages = await own.chat.completions.messages.list(made[1]!);
    expect(messages.data).toMatchObject([{ id: `${made[1]}-0`, role: "user", content: "message 1" }]);

    expect(await own.chat.completions.delete(made[1]!)).toEqual({
      object: "chat.completion.deleted",
      id: made[1]!,
      deleted: true,
    });
    expect(await failure(own.chat.completions.retrieve(made[1]!))).toBeInstanceOf(OpenAI.NotFoundError);
    expect((await own.chat.completions.list()).data.map(({ id }) => id)).toEqual([made[0]!, made[2]!]);
  });

  test("bad paging and bad metadata are refused by name", async () => {
    const path = `${surface === "gateway" ? "/gateway" : ""}/v1/chat/completions`;
    for (const [query, param, status] of [
      ["limit=0", "limit", 400],
      ["limit=1e1", "limit", 400],
      ["limit=", "limit", 400],
      ["order=up", "order", 400],
      ["metadata=x", "metadata", 400],
      ["metadata[a][b]=x", "metadata", 400],
      ["after=nothing", "after", 404],
    ] as const) {
      const response = await troupe.fetch(`${path}?${query}`);
      expect(response.status).toBe(status);
      expect(await response.json()).toMatchObject({ error: { param } });
    }
    const { id } = await remember();
    const bad = await troupe.post(`${path}/${id}`, { metadata: { a: 1 } });
    expect(await bad.json()).toMatchObject({ error: { code: "invalid_value", param: "metadata.a" } });
    const empty = await troupe.post(`${path}/${id}`, {});
    expect(await empty.json()).toMatchObject({ error: { code: "missing_field", param: "metadata" } });
  });

  test("an exchange that can't be kept is refused before it is billed; plain calls go on", async () => {
    const { maintenance } = troupe.server.services.store;
    const { check } = maintenance;
    const { StorageError } = await import("../../src/store/contract/storage-error.ts");
    maintenance.check = async () => {
      throw new StorageError("full", "troupe.db", "The disk is full.");
    };
    const before = upstream.requests.length;
    try {
      const error = await remember().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ status: 503, code: "storage_unavailable" });
      expect(upstream.requests.length).toBe(before);
      expect((await remember({ store: false })).choices[0]!.message.content).toBeString();
    } finally {
      maintenance.check = check;
    }
  });
});

test("a persona's upstream is never told to store", async () => {
  await troupe
    .client("orchestrator")
    .chat.completions.create({ model: "troupe/guide", messages: [user("x")], store: true });
  expect(body().store).toBeUndefined();
});

describe("xAI's own state", () => {
  const response = (id: string, text: string) =>
    jsonResponse({
      id,
      object: "response",
      created_at: 1,
      model: "grok",
      status: "completed",
      output: [
        {
          type: "message",
          id: `msg_${id}`,
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text, annotations: [] }],
        },
      ],
      usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
    });
  const create = (options: object) =>
    troupe.client("gateway").chat.completions.create({
      model: "xai/grok-4.3",
      messages: [user("hi")],
      ...({ use_responses_api: true, ...options } as object),
    });
  const sent = () => upstream.last.json as { input: unknown[]; store: boolean; previous_response_id?: string };

  test("the upstream's id continues it, only the new messages are sent, and a delete reaches it", async () => {
    answer = () => response("up-1", "one");
    const first = await create({ store: true });
    expect(sent().store).toBe(true);
    answer = () => response("up-2", "two");
    await create({ store: true, previous_response_id: first.id });
    expect(sent().previous_response_id).toBe("up-1");
    expect(sent().input).toHaveLength(1);

    answer = () => jsonResponse({ id: "up-1", deleted: true });
    const before = upstream.requests.length;
    await troupe.client("gateway").chat.completions.delete(first.id);
    await upstream.received(before + 1);
    expect([upstream.last.method, upstream.last.path]).toEqual(["DELETE", "/v1/responses/up-1"]);
  });

  test("store is false unless asked, and then nothing can be continued", async () => {
    answer = () => response("up-3", "one");
    const first = await create({});
    expect(sent().store).toBe(false);
    expect(await failure(create({ previous_response_id: first.id }))).toBeInstanceOf(OpenAI.NotFoundError);
  });

  test("another key can't continue it", async () => {
    answer = () => response("up-4", "one");
    const first = await create({ store: true });
    const other = troupe.client("gateway", { apiKey: await troupe.createKey({ name: "other", tier: "pro" }) });
    const call = other.chat.completions.create({
      model: "xai/grok-4.3",
      messages: [user("hi")],
      ...({ use_responses_api: true, previous_response_id: first.id } as object),
    });
    const error = await call.catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
  });
});
