/** Specification §8: every response of the orchestrator carries the three rate headers, whatever it is. */
import { beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { untilEnd } from "../helpers/served.ts";
import { Silence } from "../helpers/silence.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const hello = [{ role: "user" as const, content: "hi" }];
const limits: Config["limits"] = {
  bodyBytes: 4096,
  jsonDepth: 16,
  jsonValues: 10_000,
  jsonKeys: 10_000,
  jsonStringBytes: 1_000_000,
  bodySeconds: 60,
  idleConnectionSeconds: 75,
  concurrentRequests: 100,
  backgroundResponses: 100,
  anonymousPerMinute: 500,
};
const silence = new Silence();
let answer: () => Response | Promise<Response>;

const persona = "troupe/tutor";

const upstream = untilEnd(new UpstreamServer(() => answer()));
const { clock, timeouts } = silence;
const providers = { openai: { baseUrl: upstream.url, timeouts } };
const troupe = untilEnd(await Troupe.start({ clock, providers, config: { limits } }));
troupe.setTargets(persona, ["openai/x"]);
beforeEach(() => {
  answer = () => jsonResponse(completion);
});

const completion = {
  choices: [{ index: 0, message: { role: "assistant", content: "yes" }, finish_reason: "stop" }],
};
const event = (delta: object, finish: string | null = null) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const chat = (changes: object = {}, headers: Record<string, string> = {}) =>
  troupe.post("/v1/chat/completions", { model: persona, messages: hello, ...changes }, { headers });
const upstreamSays = (next: typeof answer, changes: object = {}) => {
  answer = next;
  return chat(changes);
};
async function whileDraining(ask: () => Promise<Response>): Promise<Response> {
  const { services } = troupe.server;
  services.draining = true;
  try {
    return await ask();
  } finally {
    services.draining = false;
  }
}

/** Whoever asks with the test's key sees its limit; whoever asks without, the address's. */
const [ofKey, ofAddress] = [1_000_000, 500];

describe("the three headers are there, as integers", () => {
  test.each<[number, string, number, () => Promise<Response>]>([
    [200, "a completion", ofKey, () => chat()],
    [
      200,
      "a stream",
      ofKey,
      () => upstreamSays(() => sseResponse([event({ content: "a" }), event({}, "stop")]), { stream: true }),
    ],
    [
      200,
      "a stream that breaks",
      ofKey,
      () => upstreamSays(() => sseResponse([event({ content: "a" })]), { stream: true }),
    ],
    [200, "the list", ofKey, () => troupe.fetch("/v1/models")],
    [200, "a model", ofKey, () => troupe.fetch(`/v1/models/${persona}`)],
    [200, "HEAD", ofKey, () => troupe.fetch("/v1/models", { method: "HEAD" })],
    [200, "stored completions", ofKey, () => troupe.fetch("/v1/chat/completions")],
    [400, "no JSON", ofKey, () => troupe.post("/v1/chat/completions", "{")],
    [400, "a wrong value", ofKey, () => chat({ temperature: "9" })],
    [
      400,
      "an input that the model refuses",
      ofKey,
      () => upstreamSays(() => jsonResponse({ error: { message: "no" } }, 400)),
    ],
    [400, "a bad service-request-id", ofKey, () => chat({}, { "service-request-id": "two words" })],
    [401, "no key", ofAddress, () => troupe.fetch("/v1/models", { key: null })],
    [401, "a wrong key", ofAddress, () => troupe.fetch("/v1/models", { key: "trp_x" })],
    [
      403,
      "a key for the other surface",
      100,
      async () =>
        troupe.fetch("/v1/models", { key: await troupe.createKey({ name: "g", tier: "pro", surfaces: ["gateway"] }) }),
    ],
    [404, "an unknown persona", ofKey, () => chat({ model: "no/body" })],
    [404, "an unknown conversation", ofKey, () => chat({ previous_response_id: "chatcmpl-none" })],
    [404, "an unknown path", ofKey, () => troupe.fetch("/v1/nothing")],
    [404, "an unknown path without a key", ofAddress, () => troupe.fetch("/nothing", { key: null })],
    [405, "a wrong method", ofKey, () => troupe.fetch("/v1/models", { method: "DELETE" })],
    [405, "OPTIONS without a key", ofAddress, () => troupe.fetch("/v1/models", { method: "OPTIONS", key: null })],
    [405, "a wrong method of an open endpoint", ofAddress, () => troupe.fetch("/metrics", { method: "POST" })],
    [413, "too large a body", ofKey, () => troupe.post("/v1/chat/completions", "x".repeat(5000))],
    [
      415,
      "another type of body",
      ofKey,
      () => troupe.post("/v1/chat/completions", "x", { headers: { "content-type": "text/plain" } }),
    ],
    [
      422,
      "an id used twice",
      ofKey,
      async () => {
        await (await chat({}, { "service-request-id": "twice" })).text();
        return chat({ temperature: 1 }, { "service-request-id": "twice" });
      },
    ],
    [
      429,
      "one too many",
      1,
      async () => {
        const key = await troupe.createKey({ name: "one", tier: "enterprise", perMinute: 1 });
        await troupe.fetch("/v1/models", { key });
        return troupe.fetch("/v1/models", { key });
      },
    ],
    [500, "a wrong key of ours", ofKey, () => upstreamSays(() => jsonResponse({ error: { message: "no" } }, 401))],
    [503, "a model that fails", ofKey, () => upstreamSays(() => jsonResponse({}, 500))],
    [503, "draining", ofKey, () => whileDraining(() => chat())],
    [504, "a model that is too slow", ofKey, () => upstreamSays(silence.answer)],
    [200, "health", ofAddress, () => troupe.fetch("/health", { key: null })],
    [200, "healthz", ofAddress, () => troupe.fetch("/healthz", { key: null })],
    [503, "healthz while draining", ofAddress, () => whileDraining(() => troupe.fetch("/healthz", { key: null }))],
    [200, "version", ofAddress, () => troupe.fetch("/version", { key: null })],
    [200, "metrics", ofAddress, () => troupe.fetch("/metrics", { key: null })],
  ])("%d: %s", async (status, _name, limit, ask) => {
    const response = await ask();
    await response.text();
    expect(response.status).toBe(status);
    expect(response.headers.get("X-RateLimit-Limit")).toBe(String(limit));
    expect(response.headers.get("X-RateLimit-Remaining")).toMatch(/^\d+$/);
    expect(Number(response.headers.get("X-RateLimit-Reset"))).toBeWithin(
      Math.floor(Date.now() / 1000),
      Math.ceil(Date.now() / 1000) + 62,
    );
    expect(response.headers.get("x-request-id")).toMatch(/^req_/);
  });

  test("also on a stream whose 200 goes out before anything came", async () => {
    await using hasty = await Troupe.start({
      providers: { openai: { baseUrl: upstream.url } },
      config: { streams: { keepAliveSeconds: 0.02 } },
    });
    const { personas } = hasty.server.services;
    personas.replace(personas.list().map((one) => ({ ...one, targets: ["openai/x"] })));
    const late = Promise.withResolvers<Response>();
    answer = () => late.promise;
    const response = await hasty.post("/v1/chat/completions", { model: persona, messages: hello, stream: true });
    expect(response.headers.get("x-ratelimit-limit")).toBe("1000000");
    late.resolve(jsonResponse(completion));
    expect(await response.text()).toEndWith("data: [DONE]\n\n");
  });
});

describe("whose bucket it is", () => {
  const guess = (at: Troupe, forwardedFor: string) =>
    sendRaw(
      at.url,
      `GET /v1/models HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX-Forwarded-For: ${forwardedFor}\r\n\r\n`,
    );
  const few = { limits: { ...limits, anonymousPerMinute: 2 } };

  test("nobody's word about addresses is taken where no proxy is trusted", async () => {
    await using direct = await Troupe.start({ config: few });
    const statuses = [];
    for (const claim of ["192.0.2.1", "192.0.2.2", "192.0.2.3"]) statuses.push((await guess(direct, claim)).status);
    expect(statuses).toEqual([401, 401, 429]);
  });

  test("a trusted proxy's word counts up to the first address that is not trusted", async () => {
    await using behind = await Troupe.start({ config: { ...few, trustedProxies: ["127.0.0.0/8", "10.0.0.0/8"] } });
    // What a client writes in front of its own address changes nothing.
    const claims = ["6.6.6.6, 192.0.2.1, 10.0.0.7", "7.7.7.7, 192.0.2.1", "192.0.2.1", "192.0.2.9"];
    const statuses = [];
    for (const claim of claims) statuses.push((await guess(behind, claim)).status);
    expect(statuses).toEqual([401, 401, 429, 401]);
  });
});
