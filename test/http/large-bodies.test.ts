import { fullGC } from "bun:jsc";
import { afterAll, beforeAll, describe, expect, spyOn, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LargeStrings } from "../../src/lib/json/large-strings.ts";
import { slicesBegun } from "../../src/lib/time/cooperative-scheduling.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { served } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const megabyte = 1024 * 1024;
const path = "/gateway/v1/chat/completions";
type Failure = { error: { code: string; message: string } };

const yes = { choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }] };
const { troupe, upstream } = await served(
  () => Response.json(yes),
  (url) => ({ providers: { openai: { baseUrl: url } } }),
);

const begun = '{"model":"openai/x","messages":[';
const said = (text: string) => `${begun}{"role":"user","content":"${text}"}]}`;

/** Each as long as a body may be, or nearly. */
const hostile: readonly [what: string, body: () => string, message: string][] = [
  ["brackets", () => "[".repeat(20 * megabyte), "nests deeper than 64 levels (limits.json_depth)"],
  ["brackets in a message", () => begun + "[".repeat(19 * megabyte), "(limits.json_depth)"],
  [
    "a million keys",
    () => `{${Array.from({ length: 1e6 }, (_, at) => `"key${at}":1`).join(",")}}`,
    "holds more than 100000 keys (limits.json_keys)",
  ],
  [
    "a list of numbers",
    () => `${begun}${"1,".repeat(9 * megabyte)}1]}`,
    "holds more than 250000 values (limits.json_values)",
  ],
  ["a fault at the end", () => `${said("x".repeat(19 * megabyte))}}`, "is not valid JSON."],
  ["a fault at the end of escapes", () => `${said("\\n".repeat(9 * megabyte))}}`, "is not valid JSON."],
  ["white space", () => `${" ".repeat(19 * megabyte)}{`, "is not valid JSON."],
  ["line ends", () => `${begun}${"\n".repeat(19 * megabyte)}`, "is not valid JSON."],
];

/** @returns how often `/healthz` answered meanwhile, and how many pieces of work began in one turn of the event loop, at most */
async function watchHealth(until: Promise<unknown>): Promise<{ answers: number; maxSlices: number }> {
  let isOver = false;
  const end = () => {
    isOver = true;
  };
  until.then(end, end);
  let answers = 0;
  let maxSlices = 0;
  let before = slicesBegun();
  const lookEachTurn = () => {
    maxSlices = Math.max(maxSlices, slicesBegun() - before);
    before = slicesBegun();
    if (!isOver) setImmediate(lookEachTurn);
  };
  lookEachTurn();
  while (!isOver) {
    expect((await troupe.fetch("/healthz", { key: null })).status).toBe(200);
    answers += 1;
  }
  return { answers, maxSlices };
}

describe("a body that would keep a parser busy", () => {
  test.each(hostile)("of %s is refused, and the limit is named", async (_, body, message) => {
    const answer = await troupe.post(path, body());
    expect(answer.status).toBe(400);
    const { error } = (await answer.json()) as Failure;
    expect(error.code).toBe("invalid_json");
    expect(error.message).toContain(message);
    expect(troupe.server.services.bodyMemory.heldBytes).toBe(0);
  });

  test("is never parsed where a limit refuses it: nothing but looks at its bytes is done", async () => {
    const before = slicesBegun();
    await troupe.post(path, "[".repeat(20 * megabyte));
    // At most one for each megabyte that arrived at once.
    expect(slicesBegun() - before).toBeLessThanOrEqual(20);
  });

  test("and many of them at once leave every other caller a turn between any two pieces", async () => {
    const bodies = hostile.map(([, body]) => body());
    const answers = Promise.all(bodies.map((body) => troupe.post(path, body)));
    const { answers: healthy, maxSlices } = await watchHealth(answers);
    for (const { status } of await answers) expect(status).toBe(400);
    expect(healthy).toBeGreaterThan(5);
    expect(maxSlices).toBe(1);
  });

  test("a string has a limit of its own", async () => {
    const limits = {
      ...troupe.server.services.live.config.limits,
      jsonDepth: 64,
      jsonValues: 1000,
      jsonKeys: 1000,
      jsonStringBytes: 5000,
    };
    await using strict = await Troupe.start({ config: { limits } });
    for (const size of [5001, 500_000]) {
      const answer = await strict.post(path, said("é".repeat(size / 2 + 1)));
      expect(((await answer.json()) as Failure).error.message).toBe(
        "The request body has a string of more than 5000 bytes (limits.json_string_bytes).",
      );
    }
  });
});

test.each([
  ["before", (long: string) => `{"model":"openai/x",\n"messages": [}, {"content":"${long}"}]}`],
  ["behind", (long: string) => `{"model":"openai/x",\n"messages": [{"role":"user","content":"${long}"}}`],
  ["in", (long: string) => `{"model":"openai/x",\n"messages": [{"role":"user","content":"${long}\\x"}]}`],
])("a fault %s a string that is left out is named with its place up to 64 KB", async (_, body) => {
  for (const size of [5_000, 30_000, 60_000]) {
    const answer = await troupe.post(path, body("a word ".repeat(size / 7)));
    expect(answer.status).toBe(400);
    expect(((await answer.json()) as Failure).error.message).toMatch(/ at line 2, column \d+\.$/);
  }
});

test("a large body that is legal arrives as it was sent, in pieces of work", async () => {
  const content = 'He said "no".\n'.repeat(megabyte);
  const body = JSON.stringify({ model: "openai/x", messages: [{ role: "user", content }] });
  const before = slicesBegun();
  const answer = await troupe.post(path, body);
  expect(answer.status).toBe(200);
  expect(slicesBegun() - before).toBeGreaterThanOrEqual(2);
  expect(upstream.last.text === body.replace("openai/x", "x")).toBe(true);
  expect(troupe.server.services.bodyMemory.heldBytes).toBe(0);
});

test("an agent's prompt, whose texts are left out of what is parsed, leaves others a turn before it is parsed and before it is sent", async () => {
  const messages = Array.from({ length: 200 }, (_, at) => ({
    role: "user",
    content: `${at} ${"a word ".repeat(200)}`,
  }));
  const body = JSON.stringify({ model: "openai/x", messages });
  expect(body.length).toBeGreaterThan(256 * 1024);
  const before = slicesBegun();
  expect((await troupe.post(path, body)).status).toBe(200);
  expect(slicesBegun() - before).toBe(2);
  expect(upstream.last.text === body.replace("openai/x", "x")).toBe(true);
});

test("a large body of many texts full of escapes is parsed in slices, a megabyte each", async () => {
  const messages = Array.from({ length: 1500 }, (_, at) => ({ role: "user", content: `${at}${"\n".repeat(5000)}` }));
  const body = JSON.stringify({ model: "openai/x", messages });
  const before = slicesBegun();
  expect((await troupe.post(path, body)).status).toBe(200);
  expect(slicesBegun() - before).toBeGreaterThanOrEqual(Math.floor(body.length / megabyte));
  expect(upstream.last.text === body.replace("openai/x", "x")).toBe(true);
});

describe("a large string", () => {
  const size = 70 * 1024;
  const text = 'é said "no".\n'.repeat(size / 13);
  const base64 = "iVBORw0KGgo".repeat(size / 11);
  const url = (data: string) => ({ type: "image_url", image_url: { url: data } });
  const file = (data: string, filename: string) => ({ type: "file", file: { file_data: data, filename } });
  const user = (content: unknown) => ({ role: "user", content });
  const called = { id: "call_1", type: "function", function: { name: "f", arguments: JSON.stringify({ text }) } };

  /** `isPassed`: nobody has to look into any of them, whoever is called. */
  const conversations: readonly [what: string, isPassed: boolean, messages: unknown[]][] = [
    ["a text", true, [user(text)]],
    ["texts and an image", true, [user([{ type: "text", text }, url(`data:image/png;base64,${base64}`)]), user(text)]],
    ["a PDF", true, [user([{ type: "text", text: "Read." }, file(`data:application/pdf;base64,${base64}`, "a.pdf")])]],
    [
      "a text file, which some read",
      false,
      [user([file(`data:text/plain;base64,${btoa("text ".repeat(size))}`, "a.txt")])],
    ],
    ["a data URL that is no base64", false, [user([url(`data:image/svg+xml,${"%20".repeat(size)}`)])]],
    [
      "blanks",
      false,
      [
        user([
          { type: "text", text: " ".repeat(2 * size) },
          { type: "text", text: "Hi." },
        ]),
      ],
    ],
    ["instructions", false, [{ role: "system", content: text }, user(text)]],
    ["an answer with blanks at its end", false, [user("Go on."), { role: "assistant", content: `${text}   ` }]],
    [
      "a tool's arguments and result",
      false,
      [
        user("Call."),
        { role: "assistant", content: null, tool_calls: [called] },
        { role: "tool", tool_call_id: "call_1", content: JSON.stringify({ text }) },
        user(text),
      ],
    ],
  ];
  const models = ["openai/x", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash", "xai/grok-4", "builtin/echo"];
  let own: Troupe;
  beforeAll(async () => {
    const baseUrl = upstream.url;
    own = await Troupe.start({
      providers: { openai: { baseUrl }, anthropic: { baseUrl }, google: { baseUrl }, xai: { baseUrl } },
    });
  });
  afterAll(() => own[Symbol.asyncDispose]());

  describe.each(conversations)("such as %s", (_, isPassed, messages) => {
    test.each(models)("reaches %s as it does where all of it is read", async (model) => {
      const options = model.startsWith("xai") ? { use_responses_api: true } : {};
      const body = JSON.stringify({ model, messages, max_tokens: 50, seed: 1, ...options });
      expect(body.length).toBeGreaterThan(64 * 1024);
      const fill = spyOn(LargeStrings.prototype, "fill");
      const restore = spyOn(LargeStrings.prototype, "restore");
      try {
        const passed = await own.post(path, body);
        const filled = fill.mock.results.map(({ value }) => value !== undefined);
        const restored = (restore.mock.contexts as LargeStrings[]).map(({ restoredBytes }) => restoredBytes);
        const { json, text: sent } = upstream.last;
        const headers = { "service-request-id": `${crypto.randomUUID()}` };
        const read = await own.post(path, body, { headers });
        expect(passed.status).toBe(read.status);
        const said = async (answer: Response) => {
          const { choices, error } = (await answer.json()) as { choices?: unknown; error?: unknown };
          return choices ?? error;
        };
        expect(await said(passed)).toEqual(await said(read));
        if (model === "builtin/echo" || read.status !== 200) return;
        expect(json).toEqual(upstream.last.json);
        expect(json).toBeObject();
        expect(filled.at(-1)).toBe(true);
        if (isPassed) expect(Math.max(...restored)).toBe(0);
        if (model === "openai/x") expect(sent).toBe(body.replace("openai/x", "x"));
      } finally {
        fill.mockRestore();
        restore.mockRestore();
      }
    });
  });

  test.each([
    ["less than a quarter of the body is parsed with the rest", 3.2, 0],
    ["a quarter of the body or more stays as it came", 2.8, 1],
  ] as const)("that is %s", async (_, others, looks) => {
    const encodedBytes = Buffer.byteLength(JSON.stringify(text));
    const turn = "a short turn. ".repeat(30);
    const turns = Array.from({ length: Math.ceil((others * encodedBytes) / turn.length) }, () => user(turn));
    const body = JSON.stringify({ model: "openai/x", messages: [user(text), ...turns] });
    const check = spyOn(LargeStrings.prototype, "check");
    try {
      expect((await own.post(path, body)).status).toBe(200);
      expect(check).toHaveBeenCalledTimes(looks);
    } finally {
      check.mockRestore();
    }
    expect(upstream.last.text).toBe(body.replace("openai/x", "x"));
  });

  test("is kept with an exchange that is stored", async () => {
    const body = { model: "openai/x", messages: [user(text), user(text)], store: true };
    const { id } = (await (await own.post(path, JSON.stringify(body))).json()) as { id: string };
    const stored = (await (await own.fetch(`${path}/${id}/messages`)).json()) as { data: { content: string }[] };
    expect(stored.data.map(({ content }) => content)).toEqual([text, text]);
  });
});

describe("once a body is sent, while its answer is waited for", () => {
  const size = 5 * megabyte;
  const calls = 8;

  test.each([
    ["the gateway", path, "openai/x", false],
    ["the gateway, streamed", path, "openai/x", true],
    ["a translated call", path, "anthropic/claude-sonnet-4-5", false],
    ["a persona", "/v1/chat/completions", "house/large", true],
  ])("nothing of it is held: %s", async (_, at, model, stream) => {
    let arrived = 0;
    let wake = () => {};
    const { promise: leave, resolve: letGo } = Promise.withResolvers<void>();
    using thinking = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      idleTimeout: 0,
      async fetch({ body }) {
        for await (const _part of body!);
        arrived += 1;
        wake();
        await leave;
        return Response.json({ error: { message: "enough" } }, { status: 400 });
      },
    });
    const personas = mkdtempSync(join(tmpdir(), "troupe-large-"));
    mkdirSync(join(personas, "house"));
    writeFileSync(join(personas, "house/large.yaml"), "description: Large.\nmodel: openai/x\nsystem: Be brief.\n");
    const baseUrl = `http://127.0.0.1:${thinking.port}`;
    await using own = await Troupe.start({ personas, providers: { openai: { baseUrl }, anthropic: { baseUrl } } });
    // One for all of them: those who ask are in this process too.
    const body = Buffer.from(
      JSON.stringify({ model, stream, messages: [{ role: "user", content: "x".repeat(size) }], max_tokens: 5 }),
    );
    const lines = [
      `POST ${at} HTTP/1.1`,
      "Host: localhost",
      `Authorization: Bearer ${own.key}`,
      "Content-Type: application/json",
      `Content-Length: ${body.length}`,
      "Connection: close",
    ];
    const ask = () => sendRaw(own.url, `${lines.join("\r\n")}\r\n\r\n`, body);
    const reached = async (count: number) => {
      while (arrived < count) await new Promise<void>((resolve) => (wake = resolve));
    };
    const answers = [ask()];
    await reached(1);
    const before = fullGC();
    for (let call = 0; call < calls; call += 1) {
      answers.push(ask());
      await reached(2 + call);
    }
    expect(own.server.services.bodyMemory.heldBytes).toBe(0);
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect((fullGC() - before) / size).toBeLessThan(calls * 0.75);
    letGo();
    for (const answer of answers) expect((await answer).status).toBe(400);
    rmSync(personas, { recursive: true });
  });
});

describe("the memory of all bodies", () => {
  const head = (length: number) =>
    [
      `POST ${path} HTTP/1.1`,
      "Host: localhost",
      `Authorization: Bearer ${small.key}`,
      "Content-Type: application/json",
      `Content-Length: ${length}`,
      "Connection: close",
      "\r\n",
    ].join("\r\n");
  let small: Troupe;
  beforeAll(async () => {
    const limits = { ...troupe.server.services.live.config.limits, bodyMemoryBytes: 300_000 };
    small = await Troupe.start({ providers: { openai: { baseUrl: upstream.url } }, config: { limits } });
  });
  afterAll(() => small[Symbol.asyncDispose]());
  const held = () => small.server.services.bodyMemory.heldBytes;
  const ask = (size: number) => small.post(path, said("x".repeat(size)));

  test("is bounded: beyond it callers are told to come back, and what was sent of them is forgotten", async () => {
    const body = said("x".repeat(200_000));
    const socket = connect({ port: Number(new URL(small.url).port), host: "127.0.0.1" });
    const ended = new Promise<string>((resolve) => {
      let text = "";
      socket.on("data", (part) => {
        text += part;
      });
      socket.on("close", () => resolve(text));
    });
    socket.write(head(body.length) + body.slice(0, 190_000));
    while (held() === 0) await new Promise((resolve) => setImmediate(resolve));
    // What is not longer than a megabyte counts as held when it begins to come.
    const whole = body.length;
    expect(held()).toBe(whole);

    const refused = await ask(150_000);
    expect(refused.status).toBe(503);
    expect(refused.headers.get("retry-after")).toBe("1");
    expect(((await refused.json()) as Failure).error.code).toBe("overloaded");
    expect(held()).toBe(whole);
    // Of unknown length: refused once it is too much.
    const pieces = new ReadableStream({
      pull(controller) {
        controller.enqueue(new TextEncoder().encode(" ".repeat(50_000)));
        pulled += 1;
        if (pulled === 4) controller.close();
      },
    });
    let pulled = 0;
    const chunked = await small.fetch(path, {
      method: "POST",
      body: pieces,
      headers: { "content-type": "application/json" },
    });
    expect(chunked.status).toBe(503);
    expect(held()).toBe(whole);
    expect((await ask(50_000)).status).toBe(200);
    expect(await (await small.fetch("/metrics")).text()).toInclude(`\ntroupe_request_body_bytes ${whole}\n`);

    socket.write(body.slice(190_000));
    expect(await ended).toStartWith("HTTP/1.1 200 ");
    expect(held()).toBe(0);
    expect((await ask(150_000)).status).toBe(200);
    expect(held()).toBe(0);
  });

  test("has room for a body alone, however large it may be", async () => {
    expect((await ask(1_000_000)).status).toBe(200);
    expect(held()).toBe(0);
  });

  test("is counted of a body whose length is said twice", async () => {
    const body = said("x".repeat(1_000));
    const socket = connect({ port: Number(new URL(small.url).port), host: "127.0.0.1" });
    const answer = new Promise<string>((resolve) => socket.once("data", (part) => resolve(String(part))));
    socket.write(head(body.length).replace(/(Content-Length: .*\r\n)/, "$1$1") + body);
    expect(await answer).toStartWith("HTTP/1.1 200 ");
    socket.destroy();
    expect(held()).toBe(0);
    expect((await ask(150_000)).status).toBe(200);
  });

  test("is given back by a caller who leaves", async () => {
    const socket = connect({ port: Number(new URL(small.url).port), host: "127.0.0.1" });
    socket.write(head(200_000) + said("x".repeat(200_000)).slice(0, 150_000));
    while (held() === 0) await new Promise((resolve) => setImmediate(resolve));
    socket.destroy();
    while (held() > 0) await new Promise((resolve) => setImmediate(resolve));
  });

  test.each([
    ["once it is sent", {}, 0],
    ["once it is stored", { store: true }, 200_000],
  ])("is given back by a call that outlives its client %s", async (_, options, whileCalled) => {
    const { promise: leave, resolve: letGo } = Promise.withResolvers<void>();
    using thinking = new UpstreamServer(async () => {
      await leave;
      return Response.json(yes);
    });
    const { limits } = small.server.services.live.config;
    await using own = await Troupe.start({ providers: { openai: { baseUrl: thinking.url } }, config: { limits } });
    const { bodyMemory } = own.server.services;
    const body = JSON.stringify({ ...JSON.parse(said("x".repeat(200_000))), ...options });
    const client = new AbortController();
    const headers = { "service-request-id": "outlives" };
    const json = { "content-type": "application/json" };
    const left = own.fetch(path, { method: "POST", body, headers: { ...headers, ...json }, signal: client.signal });
    await thinking.received(1);
    client.abort();
    await expect(left).rejects.toThrow();
    while (own.server.services.running > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(Math.floor(bodyMemory.heldBytes / 200_000) * 200_000).toBe(whileCalled);
    if (whileCalled > 0) expect((await own.post(path, body, { headers })).status).toBe(503);
    letGo();
    while (bodyMemory.heldBytes > 0) await new Promise((resolve) => setImmediate(resolve));
    expect((await own.post(path, body, { headers })).status).toBe(200);
    expect(thinking.requests).toHaveLength(1);
  });

  test("is given back by what is refused", async () => {
    for (const body of ["[".repeat(200_000), `${said("x".repeat(200_000))}}`, `{"a":"${"x".repeat(100_000)}"}`, "{"]) {
      const { status } = await sendRaw(small.url, head(body.length), body);
      expect(status).toBe(400);
      expect(held()).toBe(0);
    }
  });
});

describe("a large image in another client format", () => {
  const data = Buffer.alloc(1.5 * megabyte, 7).toString("base64");
  const image = `data:image/png;base64,${data}`;
  const text = { type: "input_text", text: "What is it?" };
  const bodies = {
    responses: { store: false, input: [{ role: "user", content: [text, { type: "input_image", image_url: image }] }] },
    messages: {
      max_tokens: 9,
      messages: [
        {
          role: "user",
          content: [{ type: "image", source: { type: "base64", media_type: "image/png", data } }],
        },
      ],
    },
  } as const;

  test.each([
    ["responses", "groq/x"],
    ["responses", "openai/x"],
    ["messages", "groq/x"],
    ["messages", "anthropic/claude-sonnet-4-5"],
  ] as const)("%s to %s goes up as it came, and no text is made of it", async (format, model) => {
    const provider = { baseUrl: upstream.url };
    await using server = await Troupe.start({ providers: { openai: provider, groq: provider, anthropic: provider } });
    const restore = spyOn(LargeStrings.prototype, "restore");
    const before = upstream.requests.length;
    await (await server.post(`/gateway/v1/${format}`, { model, ...bodies[format] })).text();
    expect(upstream.requests.length).toBe(before + 1);
    expect(upstream.last.text.split(data).length).toBe(2);
    expect(upstream.last.json).toBeDefined();
    const restored = restore.mock.contexts.map((large) => (large as LargeStrings).restoredBytes);
    restore.mockRestore();
    expect([restored.length > 0, Math.max(...restored)]).toEqual([true, 0]);
  });
});
