/**
 * Responses over a WebSocket: what a client sends and gets, by the public guide, and that each message is a call like any other.
 * Source: https://developers.openai.com/api/docs/guides/websocket-mode
 */
import { afterEach, describe, expect, test } from "bun:test";
import { connect as connectTo } from "node:net";
import { ResponsesWS } from "openai/resources/responses/ws";
import { ManualClock } from "../helpers/manual-clock.ts";
import { served } from "../helpers/served.ts";
import { Troupe, testConfig } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

type Body = {
  readonly id: string;
  readonly status: string;
  readonly output: readonly unknown[];
  readonly usage: unknown;
};
type Json = {
  readonly type: string;
  readonly sequence_number?: number;
  readonly stream_id?: string;
  readonly delta?: string;
  readonly response: Body & { readonly previous_response_id: string | null };
  readonly messages: readonly { readonly content: unknown }[];
};

let answer: () => Response | Promise<Response>;
const persona = "troupe/tutor";

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({
    providers: { groq: { baseUrl: url }, openai: { baseUrl: `${url}/v1` } },
  }),
);
troupe.setTargets(persona, ["groq/x"]);

const chunk = (choice: object) =>
  `data: ${JSON.stringify({ id: "up", choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`;
const says = (text: string) =>
  sseResponse([
    chunk({ delta: { content: text } }),
    chunk({ delta: {}, finish_reason: "stop" }),
    `data: ${JSON.stringify({ id: "up", choices: [], usage: { prompt_tokens: 7, completion_tokens: 5, total_tokens: 12 } })}\n\ndata: [DONE]\n\n`,
  ]);

/** A client's connection, its messages one after the other. */
class Client implements AsyncDisposable {
  readonly socket: WebSocket;
  readonly closed: Promise<CloseEvent>;
  readonly #messages: Json[] = [];
  #wake = Promise.withResolvers<void>();

  constructor(url: string, headers: Record<string, string>) {
    this.socket = new WebSocket(url, { headers } as never);
    this.closed = new Promise((resolve) => this.socket.addEventListener("close", resolve as never));
    this.socket.addEventListener("message", ({ data }) => {
      this.#messages.push(JSON.parse(String(data)));
      this.#wake.resolve();
      this.#wake = Promise.withResolvers<void>();
    });
  }

  static async open(own = troupe, path = "/gateway/v1/responses", headers: Record<string, string> = {}) {
    const client = new Client(`${own.url.replace("http", "ws")}${path}`, {
      authorization: `Bearer ${own.key}`,
      ...headers,
    });
    await new Promise((resolve, reject) => {
      client.socket.addEventListener("open", resolve);
      client.socket.addEventListener("error", reject);
    });
    return client;
  }

  send(message: unknown): void {
    this.socket.send(typeof message === "string" ? message : JSON.stringify(message));
  }

  async next(): Promise<Json> {
    while (this.#messages.length === 0) await this.#wake.promise;
    return this.#messages.shift()!;
  }

  /** The events up to the one that ends a response. */
  async turn(message?: object): Promise<Json[]> {
    if (message !== undefined) this.send({ type: "response.create", ...message });
    const events: Json[] = [];
    for (;;) {
      const event = await this.next();
      events.push(event);
      if (/^(?:response\.(?:completed|incomplete|failed)|error)$/.test(event.type)) return events;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.socket.close();
    await this.closed;
  }
}

const opened: Client[] = [];
const connect = async (...args: Parameters<typeof Client.open>) => {
  const client = await Client.open(...args);
  opened.push(client);
  return client;
};
afterEach(async () => {
  for (const client of opened.splice(0)) await client[Symbol.asyncDispose]();
});

const textOf = (events: Json[]) =>
  events
    .filter(({ type }) => type === "response.output_text.delta")
    .map(({ delta }) => delta)
    .join("");

const ask = { model: "groq/x", input: "hi", store: false };

describe.each([
  ["the orchestrator", "/v1/responses", persona],
  ["the gateway", "/gateway/v1/responses", "groq/x"],
] as const)("on %s", (_, path, model) => {
  test("a message is answered with the events of the same request by HTTP", async () => {
    answer = () => says("Hello.");
    const client = await connect(troupe, path);
    const events = await client.turn({ model, input: "hi", store: false });
    const types = events.map(({ type }) => type);
    expect(types[0]).toBe("response.created");
    expect(types.at(-1)).toBe("response.completed");
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()]);
    expect(textOf(events)).toBe("Hello.");
    const byHttp = await troupe.post(path, { model, input: "hi", store: false, stream: true });
    const named = [...(await byHttp.text()).matchAll(/^event: (.+)$/gm)].map(([, name]) => name!);
    expect(types).toEqual(named);
  });
});

test("a connection answers turn after turn, and remembers what is stored nowhere", async () => {
  answer = () => says("Four.");
  const client = await connect();
  const first = (await client.turn(ask)).at(-1)!.response;
  const second = (
    await client.turn({ ...ask, input: [{ role: "user", content: "And 3?" }], previous_response_id: first.id })
  ).at(-1)!;
  expect(second.type).toBe("response.completed");
  expect((upstream.last.json as Json).messages as readonly object[]).toEqual([
    { role: "user", content: "hi" },
    { role: "assistant", content: "Four." },
    { role: "user", content: "And 3?" },
  ]);
  await client.turn({ ...ask, input: "Thanks", previous_response_id: second.response.id });
  expect((upstream.last.json as Json).messages).toHaveLength(5);
});

test("what no connection remembers is lost, in the words on which clients send all of it again", async () => {
  answer = () => says("Four.");
  const client = await connect();
  const { id } = (await client.turn(ask)).at(-1)!.response;
  const other = await connect();
  const [event] = await other.turn({ ...ask, previous_response_id: id });
  expect(event).toMatchObject({ type: "error", status: 400, error: { code: "previous_response_not_found" } });
  expect((await other.turn(ask)).at(-1)!.type).toBe("response.completed");
});

test("a stored response is continued from any connection", async () => {
  answer = () => says("Four.");
  const client = await connect();
  const { id } = (await client.turn({ ...ask, store: true })).at(-1)!.response;
  const other = await connect();
  const answered = (await other.turn({ ...ask, store: true, input: "And 3?", previous_response_id: id })).at(-1)!;
  expect(answered.response.previous_response_id).toBe(id);
  expect((upstream.last.json as Json).messages).toHaveLength(3);
});

test("the official client holds a conversation", async () => {
  answer = () => says("Four.");
  const socket = new ResponsesWS(troupe.client("gateway"));
  const texts: string[] = [];
  socket.send({ type: "response.create", model: "groq/x", input: "hi", store: false });
  for await (const event of socket) {
    if (event.type !== "message") continue;
    const { message } = event;
    if (message.type !== "response.completed") continue;
    texts.push(
      message.response.output
        .flatMap((item) => (item.type === "message" ? item.content : []))
        .map((part) => ("text" in part ? part.text : ""))
        .join(""),
    );
    if (texts.length === 2) break;
    socket.send({
      type: "response.create",
      model: "groq/x",
      input: "again",
      store: false,
      previous_response_id: message.response.id,
    });
  }
  socket.close();
  expect(texts).toEqual(["Four.", "Four."]);
  expect((upstream.last.json as Json).messages).toHaveLength(3);
});

test("a turn that fails is not continued from", async () => {
  answer = () => says("Four.");
  const client = await connect();
  const { id } = (await client.turn(ask)).at(-1)!.response;
  answer = () => jsonResponse({ error: { message: "too much", type: "x", code: "y", param: null } }, 400);
  const [failed] = await client.turn({ ...ask, previous_response_id: id });
  expect(failed).toMatchObject({ type: "error", status: 400, error: { message: "too much", code: "y" } });
  answer = () => says("Four.");
  const [event] = await client.turn({ ...ask, previous_response_id: id });
  expect(event).toMatchObject({ error: { code: "previous_response_not_found" } });
});

test("generate: false prepares a response without a model, and is continued", async () => {
  answer = () => says("Four.");
  const client = await connect();
  const before = upstream.requests.length;
  const events = await client.turn({ ...ask, input: [{ role: "developer", content: "Be brief." }], generate: false });
  expect(events.map(({ type }) => type)).toEqual(["response.created", "response.completed"]);
  const { id, output, status } = events[1]!.response;
  expect([status, output, upstream.requests.length]).toEqual(["completed", [], before]);
  await client.turn({ ...ask, previous_response_id: id });
  expect((upstream.last.json as Json).messages.map(({ content }) => content)).toEqual(["Be brief.", "hi"]);
});

test("an upstream of the same format gets the body as it came, without what is of the transport", async () => {
  const done = {
    type: "response.completed",
    sequence_number: 1,
    response: { id: "resp_up", status: "completed", output: [], usage: null },
  };
  const began = { type: "response.created", sequence_number: 0, response: { ...done.response, status: "in_progress" } };
  answer = () => sseResponse([began, done].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`));
  const client = await connect(troupe, "/gateway/v1/responses", {
    "openai-beta": "responses_websockets=2026-02-06, other=v1",
  });
  client.send(
    '{"type":"response.create","stream_id":"a","model":"openai/gpt-x","input":"hi","store":false,"top_p":1.0,"unknown":12345678901234567890}',
  );
  expect((await client.turn()) as readonly object[]).toEqual(
    [began, done].map((event) => ({ stream_id: "a", ...event })),
  );
  const { text, headers } = upstream.last;
  expect(text).toContain('"top_p":1.0');
  expect(text).toContain('"unknown":12345678901234567890');
  expect(Object.keys(JSON.parse(text)).sort()).toEqual(["input", "model", "store", "stream", "top_p", "unknown"]);
  expect(headers.get("openai-beta")).toBe("other=v1");
});

test("reasoning that says what it holds is remembered, and what only names what nobody keeps is not", async () => {
  const clear = { id: "rs_1", type: "reasoning", summary: [], content: [{ type: "reasoning_text", text: "Hm." }] };
  const sealed = { id: "rs_2", type: "reasoning", summary: [], encrypted_content: "gAAAA" };
  const named = { id: "rs_3", type: "reasoning", summary: [{ type: "summary_text", text: "Hm." }] };
  const call = { id: "fc_1", type: "function_call", call_id: "call_1", name: "f", arguments: "{}" };
  const response = { id: "resp_up", status: "completed", output: [clear, sealed, named, call], usage: null };
  const began = { type: "response.created", sequence_number: 0, response: { ...response, output: [] } };
  const done = { type: "response.completed", sequence_number: 1, response };
  answer = () => sseResponse([began, done].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`));
  const client = await connect();
  const asked = { model: "openai/gpt-x", store: false };
  const first = (await client.turn({ ...asked, input: "hi" })).at(-1)!.response;
  const result = { type: "function_call_output", call_id: "call_1", output: "sun" };
  await client.turn({ ...asked, input: [result], previous_response_id: first.id });
  expect((upstream.last.json as { input: object[] }).input).toEqual([
    { type: "message", role: "user", content: "hi" },
    clear,
    sealed,
    call,
    result,
  ]);
});

test("turns run one after the other, whatever their names, and their events bear these", async () => {
  const held: (() => void)[] = [];
  answer = async () => {
    await new Promise<void>((release) => held.push(release));
    return says("x");
  };
  const before = upstream.requests.length;
  const client = await connect();
  for (const stream_id of ["a", "b"]) client.send({ type: "response.create", ...ask, stream_id });
  for (const [at, stream_id] of ["a", "b"].entries()) {
    await upstream.received(before + at + 1);
    expect(held).toHaveLength(at + 1);
    held[at]!();
    const turn = await client.turn();
    expect(new Set(turn.map((event) => event.stream_id))).toEqual(new Set([stream_id]));
    expect(turn.at(-1)).toMatchObject({ type: "response.completed" });
  }
});

test("messages wait up to the size of one body, and what they held is free again", async () => {
  const { limits } = testConfig("", {});
  await using own = await Troupe.start({
    providers: { groq: { baseUrl: upstream.url } },
    config: { limits: { ...limits, bodyBytes: 4096 } },
  });
  const held = Promise.withResolvers<void>();
  answer = async () => {
    await held.promise;
    return says("x");
  };
  const before = upstream.requests.length;
  const client = await Client.open(own);
  client.send({ type: "response.create", ...ask });
  await upstream.received(before + 1);
  for (const input of ["é".repeat(1000), "ü".repeat(1000)]) client.send({ type: "response.create", ...ask, input });
  expect(await client.next()).toMatchObject({ type: "error", status: 503, error: { code: "overloaded" } });
  held.resolve();
  for (const _ of [1, 2]) expect((await client.turn()).at(-1)!.type).toBe("response.completed");
  client.socket.close();
  await client.closed;
  while (own.server.services.bodyMemory.heldBytes > 0) await new Promise(setImmediate);
});

test("a service_request_id makes a turn run once", async () => {
  answer = () => says("Once.");
  const client = await connect();
  const before = upstream.requests.length;
  const turns = [
    await client.turn({ ...ask, service_request_id: "t-1" }),
    await client.turn({ ...ask, service_request_id: "t-1" }),
  ];
  expect(turns[1]).toEqual(turns[0]!);
  expect(upstream.requests.length).toBe(before + 1);
});

describe("errors are messages, and the connection goes on", () => {
  test.each([
    ["what is no JSON", "{", { status: 400, error: { code: "invalid_json" } }],
    ["another event", { type: "response.cancel" }, { status: 400, error: { param: "type" } }],
    ["an odd name", { type: "response.create", stream_id: "a b" }, { status: 400, error: { param: "stream_id" } }],
    ["no model", { type: "response.create", input: "hi" }, { status: 400, error: { param: "model" } }],
    [
      "an unknown provider",
      { type: "response.create", ...ask, model: "none/x" },
      { status: 400, error: { code: "unknown_provider" } },
    ],
  ] as const)("%s", async (_, message, expected) => {
    answer = () => says("x");
    const client = await connect();
    client.send(message);
    expect(await client.next()).toMatchObject({ type: "error", ...expected });
    expect((await client.turn(ask)).at(-1)!.type).toBe("response.completed");
  });

  test("response.steer gets its words back", async () => {
    const client = await connect();
    client.send({ type: "response.steer", previous_response_id: "resp_1", input: "no, the other" });
    expect(await client.next()).toMatchObject({
      type: "response.steer.failed",
      error: { type: "invalid_request_error", code: "steering_not_supported" },
      steer: { previous_response_id: "resp_1", input: "no, the other" },
    });
  });

  test("a stream that breaks", async () => {
    answer = () => sseResponse([chunk({ delta: { content: "Hel" } })]);
    const client = await connect();
    const last = (await client.turn(ask)).at(-1)!;
    expect(last).toMatchObject({ type: "error", status: 500, error: { message: expect.any(String) } });
  });

  test("a rate limit, which counts the handshake and each message", async () => {
    answer = () => says("x");
    const key = await troupe.createKey({ name: "few", tier: "free", perMinute: 2 });
    const client = await connect(troupe, "/v1/responses", { authorization: `Bearer ${key}` });
    expect((await client.turn({ ...ask, model: persona })).at(-1)!.type).toBe("response.completed");
    expect((await client.turn({ ...ask, model: persona })).at(-1)).toMatchObject({
      status: 429,
      error: { code: "rate_limit_exceeded" },
      headers: { "retry-after": expect.any(String) },
    });
  });
});

test("who leaves ends the call", async () => {
  const reached = Promise.withResolvers<AbortSignal>();
  answer = () => {
    reached.resolve(upstream.last.signal);
    return new Response(
      new ReadableStream({ start: (c) => c.enqueue(new TextEncoder().encode(chunk({ delta: { content: "a" } }))) }),
      {
        headers: { "content-type": "text/event-stream" },
      },
    );
  };
  const client = await connect();
  client.send({ type: "response.create", ...ask });
  const signal = await reached.promise;
  await client.next();
  const gone = new Promise((resolve) => signal.addEventListener("abort", resolve));
  client.socket.close();
  await gone;
});

describe("response.cancel", () => {
  /** An upstream's answer that goes on until its connection ends. @returns what tells of that */
  const endless = () => {
    const reached = Promise.withResolvers<AbortSignal>();
    answer = () => {
      reached.resolve(upstream.last.signal);
      return new Response(
        new ReadableStream({ start: (c) => c.enqueue(new TextEncoder().encode(chunk({ delta: { content: "a" } }))) }),
        { headers: { "content-type": "text/event-stream" } },
      );
    };
    return reached.promise.then((signal) => new Promise((resolve) => signal.addEventListener("abort", resolve)));
  };

  test.each([
    ["by its id, as pipecat does", (id: string) => ({ response_id: id })],
    ["without an id, which is that of the turn", () => ({})],
  ])("ends the turn's upstream at once, and the next turn runs: %s", async (_name, which) => {
    const gone = endless();
    const client = await connect();
    const earlier = { ...ask, store: true };
    client.send({ type: "response.create", ...earlier });
    const begun = await client.next();
    while ((await client.next()).type !== "response.output_text.delta");
    client.send({ type: "response.cancel", response_id: "resp_of_another" });
    client.send({ type: "response.cancel", ...which(begun.response.id) });
    const rest = await client.turn();
    expect(rest).toHaveLength(1);
    expect(rest[0]).toMatchObject({
      type: "response.incomplete",
      sequence_number: expect.any(Number),
      response: { id: begun.response.id, status: "cancelled" },
    });
    await gone;
    answer = () => says("next");
    expect(textOf(await client.turn(ask))).toBe("next");
    // What comes too late says nothing: its turn has ended.
    client.send({ type: "response.cancel", response_id: begun.response.id });
    client.send({ type: "response.cancel" });
    expect(textOf(await client.turn(ask))).toBe("next");
  });

  // pipecat-ai 1.14.0, whose caller spoke before the answer was announced: it reads on to `response.created`, names that and reads on to one of
  // these ends, for five seconds at most: https://github.com/pipecat-ai/pipecat/blob/main/src/pipecat/services/openai/responses/llm.py
  test("at the event that announces the answer, as pipecat drains it", async () => {
    const gone = endless();
    const client = await connect();
    client.send({ type: "response.create", ...ask });
    let event = await client.next();
    for (const ends = ["response.completed", "response.failed", "response.incomplete"]; !ends.includes(event.type); ) {
      if (event.type === "response.created") client.send({ type: "response.cancel", response_id: event.response.id });
      event = await client.next();
    }
    expect(event).toMatchObject({ type: "response.incomplete", response: { status: "cancelled" } });
    await gone;
    answer = () => says("next");
    expect(textOf(await client.turn(ask))).toBe("next");
  });

  // @effect/ai-openai 4.0.0-beta.106 says nothing: who is interrupted closes the socket and opens another, with all of the conversation:
  // https://github.com/Effect-TS/effect-smol/blob/main/packages/ai/openai/src/OpenAiClient.ts
  test("is not said by who closes its socket, as Effect does, and goes on by another", async () => {
    const gone = endless();
    const client = await connect();
    client.send({ type: "response.create", ...ask });
    while ((await client.next()).type !== "response.output_text.delta");
    client.socket.close();
    await gone;
    answer = () => says("next");
    expect(textOf(await (await connect()).turn(ask))).toBe("next");
  });

  test("before anything came", async () => {
    const reached = Promise.withResolvers<void>();
    const gone = Promise.withResolvers<void>();
    answer = () => {
      upstream.last.signal.addEventListener("abort", () => gone.resolve());
      reached.resolve();
      return new Promise(() => {});
    };
    const client = await connect();
    client.send({ type: "response.create", ...ask });
    await reached.promise;
    client.send({ type: "response.cancel" });
    const [ended] = await client.turn();
    expect(ended).toMatchObject({ type: "response.incomplete", sequence_number: 0, response: { status: "cancelled" } });
    await gone.promise;
    answer = () => says("next");
    expect(textOf(await client.turn(ask))).toBe("next");
  });

  test("ends the turn of its name alone, and what was remembered stays", async () => {
    const client = await connect();
    answer = () => says("one");
    const first = (await client.turn(ask)).at(-1)!.response.id;
    const gone = endless();
    client.send({ type: "response.create", ...ask, previous_response_id: first });
    while ((await client.next()).type !== "response.output_text.delta");
    client.send({ type: "response.cancel", stream_id: "another" });
    client.send({ type: "response.cancel" });
    expect((await client.turn())[0]).toMatchObject({ type: "response.incomplete" });
    await gone;
    answer = () => says("two");
    expect(textOf(await client.turn({ ...ask, previous_response_id: first }))).toBe("two");
    expect((upstream.last.json as Json).messages.map(({ content }) => content)).toEqual(["hi", "one", "hi"]);
  });

  test("wants an id that is a text", async () => {
    const client = await connect();
    client.send({ type: "response.cancel", response_id: 7 });
    expect(await client.next()).toMatchObject({ type: "error", status: 400, error: { param: "response_id" } });
  });
});

test.each([
  ["/v1", "/v1/responses"],
  ["/v1/", "/v1/responses"],
  ["/v1/realtime", "/v1/responses"],
  ["/gateway/v1", "/gateway/v1/responses"],
])("a socket opened at %s is told where it is", async (path, place) => {
  const refused = await troupe.fetch(path, { headers: handshake });
  expect([refused.status, await refused.json()]).toEqual([
    400,
    { error: expect.objectContaining({ message: expect.stringContaining(` ${place}.`) }) },
  ]);
});

test("each turn has its own lines in the ledger, with tokens", async () => {
  answer = () => says("x");
  const client = await connect();
  await client.turn(ask);
  await client.turn(ask);
  const { usage } = (await client.turn(ask)).at(-1)!.response;
  expect(usage).toMatchObject({ input_tokens: 7, output_tokens: 5 });
});

test("a revoked key ends its connections", async () => {
  answer = () => says("x");
  const { keys } = troupe.server.services;
  const made = await keys.create({ name: "gone", tier: "pro", perMinute: 100 });
  const client = await connect(troupe, "/gateway/v1/responses", { authorization: `Bearer ${made.secret}` });
  expect((await client.turn(ask)).at(-1)!.type).toBe("response.completed");
  await keys.revoke("gone");
  expect(await client.turn(ask)).toMatchObject([{ type: "error", status: 401 }]);
  expect((await client.closed).code).toBe(1008);
});

const handshake = {
  connection: "upgrade",
  upgrade: "websocket",
  "sec-websocket-version": "13",
  "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
};

test("without a key, on other routes and where they are turned off there is none", async () => {
  const { limits } = testConfig("", {});
  expect((await troupe.fetch("/v1/responses", { headers: handshake, key: null })).status).toBe(401);
  expect((await troupe.fetch("/v1/messages", { headers: handshake })).status).toBe(400);
  expect((await troupe.fetch("/v1/responses")).status).toBe(405);
  // A proxy in between that takes the upgrade out leaves the rest of the handshake.
  const { connection: _, upgrade: __, ...left } = handshake;
  expect((await troupe.fetch("/v1/responses", { headers: left })).status).toBe(426);
  await using off = await Troupe.start({
    config: {
      limits,
      websockets: { enabled: false, maxConnections: 1, maxConnectionsPerKey: 1, idleSeconds: 1, maxSeconds: 1 },
    },
  });
  const refused = await off.fetch("/v1/responses", { headers: handshake });
  expect([refused.status, await refused.json()]).toMatchObject([426, { error: { code: "websockets_unsupported" } }]);
});

describe("a connection ends", () => {
  const bounded = { enabled: true, maxConnections: 1, maxConnectionsPerKey: 1, idleSeconds: 60, maxSeconds: 90 };

  test("where it is idle, and where it is too old", async () => {
    const clock = new ManualClock(Date.now());
    await using own = await Troupe.start({ clock, config: { websockets: bounded } });
    const idle = await Client.open(own);
    await clock.advanceSlowly(61_000);
    expect((await idle.closed).code).toBe(1000);
    const old = await Client.open(own);
    await clock.advanceSlowly(50_000);
    await old.turn({ generate: false, model: "a/b", input: "x" });
    await clock.advanceSlowly(41_000);
    expect(await old.next()).toMatchObject({
      type: "error",
      status: 400,
      error: { code: "websocket_connection_limit_reached" },
    });
    expect((await old.closed).code).toBe(1000);
  });

  test("not where another key has its share of them", async () => {
    const websockets = { ...bounded, maxConnections: 3, maxConnectionsPerKey: 2 };
    await using own = await Troupe.start({ config: { websockets } });
    const other = await own.createKey({ name: "other", tier: "pro" });
    await using _one = await Client.open(own);
    await using _two = await Client.open(own);
    const refused = await own.fetch("/gateway/v1/responses", { headers: handshake });
    expect([refused.status, await refused.json()]).toMatchObject([
      503,
      {
        error: {
          code: "overloaded",
          message: "Too many WebSockets of this key are open. Retry in a moment, or use HTTP.",
        },
      },
    ]);
    await using _third = await Client.open(own, undefined, { authorization: `Bearer ${other}` });
    const full = await own.fetch("/gateway/v1/responses", { headers: handshake, key: other });
    expect(((await full.json()) as { error: { message: string } }).error.message).toStartWith(
      "Too many WebSockets are open.",
    );
  });

  test("where the server stops, once its turn has ended", async () => {
    const held = Promise.withResolvers<void>();
    answer = async () => {
      await held.promise;
      return says("Bye.");
    };
    const own = await Troupe.start({ providers: { groq: { baseUrl: upstream.url } } });
    const idle = await Client.open(own);
    const busy = await Client.open(own);
    const before = upstream.requests.length;
    busy.send({ type: "response.create", ...ask });
    await upstream.received(before + 1);
    const stopped = own.server.stop(10);
    expect((await idle.closed).code).toBe(1001);
    held.resolve();
    expect(textOf(await busy.turn())).toBe("Bye.");
    expect((await busy.closed).code).toBe(1001);
    expect(await stopped).toBe(0);
    await own[Symbol.asyncDispose]().catch(() => {});
  });

  test("and no more are open than may be", async () => {
    await using own = await Troupe.start({ config: { websockets: bounded } });
    await using _ = await Client.open(own);
    await expect(Client.open(own)).rejects.toBeDefined();
  });
});

test("who writes on and on but reads nothing is disconnected before much waits for it", async () => {
  const { host, port } = new URL(troupe.url);
  const socket = connectTo(Number(port), "127.0.0.1");
  const closed = new Promise<void>((resolve) => socket.on("close", () => resolve()).on("error", () => {}));
  const key = "dGhlIHNhbXBsZSBub25jZQ==";
  const upgrade = `Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}`;
  const answered = new Promise((resolve) => socket.once("data", resolve));
  socket.write(
    `GET /gateway/v1/responses HTTP/1.1\r\nHost: ${host}\r\n${upgrade}\r\nAuthorization: Bearer ${troupe.key}\r\n\r\n`,
  );
  expect(String(await answered)).toStartWith("HTTP/1.1 101");
  socket.pause();
  const message = Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x78]);
  const many = Buffer.concat(Array.from({ length: 10_000 }, () => message));
  // Of each message 7 bytes come, and some 200 go back: 60 MB of them.
  let left = 30;
  while (left > 0) {
    const written = new Promise<"written">((resolve) => socket.write(many, () => resolve("written")));
    if ((await Promise.race([written, closed])) !== "written") break;
    left -= 1;
    await Bun.sleep(5);
  }
  // A paused socket learns of its end when it is read.
  socket.resume();
  await closed;
});

test("a slow reader slows its upstream, and nothing is lost", async () => {
  const piece = "x".repeat(16 * 1024);
  let sent = 0;
  answer = () =>
    new Response(
      new ReadableStream({
        pull(controller) {
          const encode = (text: string) => new TextEncoder().encode(text);
          if (sent < 400) controller.enqueue(encode(chunk({ delta: { content: piece } })));
          else {
            controller.enqueue(encode(`${chunk({ delta: {}, finish_reason: "stop" })}data: [DONE]\n\n`));
            controller.close();
          }
          sent += 1;
        },
      }),
      { headers: { "content-type": "text/event-stream" } },
    );
  const client = await connect();
  expect(textOf(await client.turn(ask)).length).toBe(400 * piece.length);
});
