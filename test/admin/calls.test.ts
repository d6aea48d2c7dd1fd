/** Calls by the admin API: chosen by what was slow, dear, refused or rerouted, what their errors said, those under way, and what was said in one. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { upstreamErrorNote } from "../../src/call/relay/error-fields.ts";
import type { Config } from "../../src/config/config.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import { ownErrorNote } from "../../src/usage/ledger/error-note.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Listed = {
  readonly data: readonly Record<string, unknown>[];
  readonly has_more: boolean;
  readonly last_id: string | null;
  readonly searched_since: string | null;
};
const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "To be, or not to be" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 },
};
const secret = "sk-proj-0123456789abcdefghij";
const errors: Readonly<Record<string, readonly [object, number]>> = {
  "/limited": [
    { error: { message: `Rate limit of ${secret} reached`, type: "requests", code: "rate_limit_exceeded" } },
    429,
  ],
  "/bad": [
    {
      error: {
        message: "Invalid value: 'my diary'",
        type: "invalid_request_error",
        param: "messages[0].content",
        code: null,
      },
    },
    400,
  ],
  "/down": [{ error: { message: "could not answer 'my diary'", type: "overloaded_error" } }, 503],
  "/quoting": [{ error: { message: "The key own-secret is spent", code: "insufficient_quota" } }, 402],
};
const messages = [{ role: "user", content: "my diary" }];

async function start(config: Partial<Config> = {}) {
  const held = Promise.withResolvers<void>();
  const upstream = new UpstreamServer(async ({ path }) => {
    const [name] = Object.keys(errors).filter((one) => path.startsWith(one));
    if (name !== undefined) return jsonResponse(...(errors[name]! as [object, number]));
    if (path.startsWith("/slow")) await held.promise;
    return jsonResponse(answer);
  });
  const member = (path: string) => ({ apiKey: "k", baseUrl: `${upstream.url}${path}`, weight: 1 });
  const troupe = await Troupe.start({
    providers: {
      groq: { ...member("/down"), pool: { strategy: "first", members: [member("/down"), member("")] } },
      mistral: { baseUrl: `${upstream.url}/limited` },
      deepseek: { baseUrl: `${upstream.url}/slow` },
      together: { baseUrl: `${upstream.url}/bad` },
      fireworks: { baseUrl: `${upstream.url}/quoting`, apiKey: "own-secret" },
      nebius: { baseUrl: "http://127.0.0.1:1" },
      xai: { baseUrl: upstream.url },
    },
    config: { listen, prices: [{ match: "xai/grok-x", input: 2, output: 10 }], ...config },
  });
  const key = await troupe.createKey({ name: "ops", tier: "pro", perMinute: 100_000, surfaces: ["admin"] });
  const get = async <T>(path: string) => {
    await troupe.server.services.ledger.flush();
    return (await troupe.fetch(`/admin/v1/${path}`, { key })).json() as Promise<T>;
  };
  return {
    ...{ troupe, key, held, get },
    list: async (query: string) => (await get<Listed>(`calls?${query}`)).data,
    /** @returns the request's id */
    async call(model: string, more: object = {}): Promise<string> {
      const called = await troupe.post("/gateway/v1/chat/completions", { model, messages, ...more });
      await called.text();
      return called.headers.get("x-request-id")!;
    },
    async attempts(id: string): Promise<readonly Record<string, unknown>[]> {
      return (await get<{ attempts: Record<string, unknown>[] }>(`calls/${id}`)).attempts;
    },
    [Symbol.asyncDispose]: async () => {
      held.resolve();
      await troupe[Symbol.asyncDispose]();
      upstream[Symbol.dispose]();
    },
  };
}

describe("with the usual settings", () => {
  let house: Awaited<ReturnType<typeof start>>;
  beforeAll(async () => {
    house = await start();
  });
  afterAll(() => house[Symbol.asyncDispose]());

  test.each([
    ["mistral/m", "rate_limit", "rate_limit_exceeded", "Rate limit of *** reached", 429],
    ["together/m", "invalid_request", "invalid_request_error", "messages[0].content", 400],
    ["fireworks/m", "quota", "insufficient_quota", "an error that quotes the key", 402],
    ["nebius/m", "unreachable", "upstream_unreachable", expect.stringContaining("nebius"), 503],
  ])("%s: what it said of the account is kept, and nothing of what people wrote", async (model, ...wanted) => {
    const [line] = await house.attempts(await house.call(model));
    const { failure, error_code, error_text, status } = line!;
    expect([failure, error_code, error_text, status] as unknown[]).toEqual(wanted);
  });

  test("each attempt has its own error, and a call that was answered has none", async () => {
    const [first, second] = await house.attempts(await house.call("groq/m"));
    expect(first).toMatchObject({ ended: "broken", status: 503, error_code: "overloaded_error", error_text: null });
    expect(second).toMatchObject({ ended: "finished", status: 200, error_code: null, error_text: null });
    expect(await house.list("error_code=overloaded_error")).toHaveLength(1);
    const sums = await house.get<{ data: { error_code: string; calls: number }[] }>("usage?by=error_code");
    expect(sums.data.find(({ error_code }) => error_code === "overloaded_error")?.calls).toBe(1);
  });

  test("what Troupe refused says so in its own word", async () => {
    const [line] = await house.attempts(await house.call("nobody/m"));
    expect(line).toMatchObject({
      ended: "refused",
      failure: null,
      error_code: "unknown_provider",
      error_text: "model",
    });
  });

  test("lists are chosen by status, ends, time and cost, and by a second attempt", async () => {
    await house.call("xai/grok-x");
    const models = async (query: string) =>
      [...new Set((await house.list(query)).map(({ model }) => model))].toSorted();
    expect(await models("status=429")).toEqual(["mistral/m"]);
    expect(await models("status=400,402")).toEqual(["fireworks/m", "nobody/m", "together/m"]);
    expect(await models("status=5xx&failure=unreachable,server_error")).toEqual(["groq/m", "nebius/m"]);
    expect(await models("ended=refused,broken&provider=groq")).toEqual(["groq/m"]);
    expect(await models("min_attempt=2")).toEqual(["groq/m"]);
    expect(await models("min_cost_micro_dollars=1")).toEqual(["xai/grok-x"]);
    // 10 tokens at $2 and 5 at $10 a million.
    expect(await models("min_cost_micro_dollars=70&key=")).toEqual([]);
    expect(await models("min_cost_micro_dollars=70")).toEqual(["xai/grok-x"]);
    expect(await models("min_cost_micro_dollars=71")).toEqual([]);
    expect(await models("min_total_ms=3600000")).toEqual([]);
  });

  test.each([
    ["calls?status=42", "status"],
    ["calls?status=6xx", "status"],
    ["calls?status=429,", "status"],
    ["calls?min_total_ms=-1", "min_total_ms"],
    ["calls?min_total_ms=soon", "min_total_ms"],
    ["calls?min_cost_micro_dollars=1e99", "min_cost_micro_dollars"],
    ["calls?ended=refused,well", "ended"],
    ["calls?failure=all", "failure"],
    ["calls/stream?min_attempt=x", "min_attempt"],
    ["calls/open?ended=broken", "ended"],
    ["calls/open?status=200", "status"],
    ["usage?min_total_ms=1", "min_total_ms"],
  ])("%s is an error that names its parameter", async (path, param) => {
    expect(await house.get(path)).toMatchObject({
      error: { code: expect.stringMatching(/^(invalid_value|unsupported_parameter)$/), param },
    });
  });

  test("calls under way are chosen by the same filters, and by how long they have been", async () => {
    const slow = house.call("deepseek/m");
    const open = (query: string) => house.get<Listed & { total: number; workers: null }>(`calls/open?${query}`);
    while ((await open("")).total === 0);
    expect(await open("model=deepseek%2Fm&provider=deepseek&min_attempt=1")).toMatchObject({ total: 1, workers: null });
    expect((await open("model=other")).total).toBe(0);
    expect((await open("min_total_ms=3600000")).total).toBe(0);
    while ((await open("min_total_ms=5")).total === 0);
    house.held.resolve();
    await slow;
    while ((await open("")).total > 0);
  });

  test("the live list is chosen by the same filters", async () => {
    const left = new AbortController();
    const stream = await house.troupe.fetch("/admin/v1/calls/stream?status=429&min_attempt=1&ended=refused", {
      key: house.key,
      signal: left.signal,
    });
    const reader = stream
      .body!.pipeThrough(new TextDecoderStream() as never)
      .getReader() as ReadableStreamDefaultReader<string>;
    let text = "";
    const until = async (words: string) => {
      while (!text.includes(words)) text += (await reader.read()).value;
    };
    await until(": here");
    await house.call("together/m");
    const id = await house.call("mistral/m");
    await until(id);
    expect(text.match(/^event: call$/gm)).toHaveLength(1);
    left.abort();
  });

  test("content is not shown while log.content is off", async () => {
    const id = await house.call("xai/grok-x", { store: true });
    expect(await house.get(`calls/${id}/content`)).toEqual({
      ...{ object: "call.content", request_id: id, messages: null, missing: "log_content_off" },
    });
    expect((await house.get<Listed>("audit?act=content.read")).data).toEqual([]);
  });
});

test("with log.content an error's words are kept, and who reads what was said leaves a line of the audit", async () => {
  await using house = await start({
    log: { level: "info", format: "json", content: true, sample: 1, omit: [], redact: [] } as never,
  });
  const [line] = await house.attempts(await house.call("together/m"));
  expect(line!["error_text"]).toBe("messages[0].content: Invalid value: 'my diary'");
  const stored = await house.call("xai/grok-x", { store: true });
  const forgotten = await house.call("xai/grok-x");
  expect(await house.get(`calls/${stored}/content`)).toEqual({
    object: "call.content",
    request_id: stored,
    messages: [
      { role: "user", text: "my diary", is_cut: false },
      { role: "assistant", text: "To be, or not to be", is_cut: false },
    ],
    missing: null,
  });
  await house.get(`calls/${stored}/content`);
  expect(await house.get(`calls/${forgotten}/content`)).toMatchObject({ messages: null, missing: "not_stored" });
  expect(await house.get("calls/req_none/content")).toMatchObject({ error: { code: "not_found", param: "id" } });
  const { data } = await house.get<Listed>("audit?act=content.read");
  expect(data.map(({ act, subject }) => [act, subject])).toEqual([["content.read", stored]]);
  const long = await house.call("xai/grok-x", {
    store: true,
    messages: [{ role: "user", content: "é".repeat(70_000) }],
  });
  const { messages: said } = await house.get<{ messages: { text: string; is_cut: boolean }[] }>(
    `calls/${long}/content`,
  );
  expect(said.map(({ text, is_cut }) => [text.length, is_cut])).toEqual([
    [65_536, true],
    [19, false],
  ]);
});

test("a search that would look at too many calls ends early, and goes on from where it came to", async () => {
  await using house = await start();
  const { ledger } = house.troupe.server.services.store;
  const began = Date.now() - 3_600_000;
  const id = (at: number) => `req_${String(at).padStart(6, "0")}`;
  for (let from = 0; from < 210_000; from += 10_000)
    await ledger.append(
      Array.from({ length: 10_000 }, (_, at) =>
        ledgerLine(id(from + at), { at: began + from + at, totalMs: from + at === 3 ? 99 : 1, costs: null }),
      ),
    );
  const first = await house.get<Listed>("calls?min_total_ms=50&limit=5");
  const { data, has_more, searched_since } = first;
  expect([data, has_more]).toEqual([[], true]);
  expect(Date.parse(searched_since!)).toBeWithin(began, began + 10_001);
  const second = await house.get<Listed>(`calls?min_total_ms=50&limit=5&after=${first.last_id}`);
  expect(second.data.map(({ request_id }) => request_id)).toEqual([id(3)]);
  expect(second).toMatchObject({ has_more: false, searched_since: null });
});

test.each([
  [{ error: { code: 429, status: "RESOURCE_EXHAUSTED", message: "m" } }, {}, ["RESOURCE_EXHAUSTED", "m"]],
  [{ type: "error", error: { type: "rate_limit_error", message: "m" } }, {}, ["rate_limit_error", "m"]],
  [{ message: "m" }, { "x-amzn-errortype": "ThrottlingException:http://x" }, ["ThrottlingException", "m"]],
  [{ error: { code: 1302, message: "m" } }, {}, ["1302", "m"]],
  [{ error: { code: 429, message: "m" } }, {}, [null, "m"]],
  [{ error: { code: "two words", message: "a\u0000\n\tb" } }, {}, [null, "a b"]],
  [{ error: { code: "c", param: "model", message: "model m is unknown" } }, {}, ["c", "model m is unknown"]],
  [{ error: { code: "c", param: "my diary", message: "m".repeat(400) } }, {}, ["c", "m".repeat(300)]],
  [{ error: { code: "c".repeat(65), message: 7 } }, {}, [null, null]],
  [{ error: "m", code: "c" }, {}, ["c", "m"]],
  ["<html>down</html>", {}, [null, null]],
  [null, {}, [null, null]],
] as const)("an upstream's %j is kept as its code and its words", (body, headers, wanted) => {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const { errorCode, errorText } = upstreamErrorNote({ status: 429, headers, body: text }, "rate_limit", false);
  expect([errorCode, errorText]).toEqual([...wanted]);
  // Of a failure that may quote what people wrote, the place alone.
  const { errorText: quoting } = upstreamErrorNote({ status: 500, headers, body: text }, "server_error", false);
  expect(quoting).toBe(text.includes('"model"') ? "model" : null);
});

test("of Troupe's own refusals, what a budget has left is kept as it was said, and nothing that may quote a caller", () => {
  const left = "The day's budget of this API key has $1.00 left of $5.00.";
  const spent = ownErrorNote(ApiError.insufficientQuota(left, undefined, {}));
  expect(spent).toEqual({ errorCode: "insufficient_quota", errorText: left });
  const wrong = ownErrorNote(ApiError.invalidValue("model", "'my diary' is no model."));
  expect(wrong).toEqual({ errorCode: "invalid_value", errorText: "model" });
});
