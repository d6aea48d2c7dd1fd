import { describe, expect, test } from "bun:test";
import { ManualClock } from "../helpers/manual-clock.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

const hello = [{ role: "user" as const, content: "hi" }];
const clock = new ManualClock(1_800_000_000_000);

const troupe = untilEnd(
  await Troupe.start({
    clock,
    config: {
      limits: {
        bodyBytes: 10_000,
        jsonDepth: 16,
        jsonValues: 10_000,
        jsonKeys: 10_000,
        jsonStringBytes: 1_000_000,
        bodySeconds: 60,
        idleConnectionSeconds: 75,
        concurrentRequests: 100,
        backgroundResponses: 100,
        anonymousPerMinute: 3,
      },
      trustedProxies: ["127.0.0.0/8"],
    },
  }),
);

function rates(response: Response): [limit: number, remaining: number, reset: number] {
  return ["limit", "remaining", "reset"].map((name) => {
    const value = response.headers.get(`X-RateLimit-${name}`);
    expect(value).toMatch(/^\d+$/);
    return Number(value);
  }) as [number, number, number];
}
const nowSeconds = () => clock.now() / 1000;
/** An address of its own for each test, as a trusted proxy would tell it. */
const from = (address: string) => ({ "x-forwarded-for": address });

describe("a free key", () => {
  test("has 10 requests in any 60 seconds, counts errors too, and the window slides", async () => {
    const key = await troupe.createKey({ name: "free", tier: "free" });
    const start = nowSeconds();
    const call = (body: unknown) => troupe.post("/v1/chat/completions", body, { key });
    for (let taken = 1; taken <= 5; taken += 1) {
      const response = await call({ model: "troupe/tutor", messages: hello, stream: taken % 2 === 0 });
      expect(response.status).toBe(200);
      expect(rates(response)).toEqual([10, 10 - taken, start + 60]);
      await response.text();
    }
    clock.advance(30_000);
    for (let taken = 6; taken <= 10; taken += 1) {
      const response = await call("{");
      expect(response.status).toBe(400);
      expect(rates(response)).toEqual([10, 10 - taken, start + 60]);
    }
    const eleventh = await call({ model: "troupe/tutor", messages: hello });
    expect(eleventh.status).toBe(429);
    expect(rates(eleventh)).toEqual([10, 0, start + 60]);
    expect(eleventh.headers.get("retry-after")).toBe("30");

    clock.advance(29_999);
    expect((await call({ model: "troupe/tutor", messages: hello })).status).toBe(429);
    clock.advance(1);
    const after = await call({ model: "troupe/tutor", messages: hello });
    expect(after.status).toBe(200);
    expect(rates(after)).toEqual([10, 4, start + 90]);
  });

  test("sent many at once has the same ten, each with a number of its own", async () => {
    const key = await troupe.createKey({ name: "free", tier: "free" });
    const answers = await Promise.all(Array.from({ length: 30 }, () => troupe.fetch("/v1/models", { key })));
    const taken = answers.filter(({ status }) => status === 200).map((one) => rates(one)[1]);
    expect(taken.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    expect(answers.filter(({ status }) => status === 429)).toHaveLength(20);
  });

  test("sees its headers on a 404 and a 405 as well", async () => {
    const key = await troupe.createKey({ name: "free", tier: "free" });
    expect(rates(await troupe.fetch("/v1/nothing", { key }))[1]).toBe(9);
    expect(rates(await troupe.fetch("/v1/models", { key, method: "DELETE" }))[1]).toBe(8);
    expect(rates(await troupe.fetch("/v1/models/troupe/nobody", { key }))[1]).toBe(7);
  });
});

test("tiers: pro has 100, enterprise its own number", async () => {
  const pro = await troupe.createKey({ name: "pro", tier: "pro" });
  expect(rates(await troupe.fetch("/v1/models", { key: pro }))).toEqual([100, 99, nowSeconds() + 60]);
  const enterprise = await troupe.createKey({ name: "ent", tier: "enterprise", perMinute: 12_345 });
  // Of a large limit a request counts for the 120 ms in which it came, and a minute.
  expect(rates(await troupe.fetch("/v1/models", { key: enterprise }))).toEqual([12_345, 12_344, nowSeconds() + 61]);
});

describe("the gateway", () => {
  test("has no limit of its own, nor headers", async () => {
    const key = await troupe.createKey({ name: "free", tier: "free" });
    for (let taken = 1; taken <= 12; taken += 1) {
      const response = await troupe.fetch("/gateway/v1/models", { key });
      expect(response.status).toBe(200);
      expect(response.headers.get("x-ratelimit-limit")).toBeNull();
    }
  });

  test("keeps the number that a key brings", async () => {
    const key = await troupe.createKey({ name: "ent", tier: "enterprise", perMinute: 2 });
    const statuses = [];
    for (let taken = 1; taken <= 3; taken += 1)
      statuses.push((await troupe.fetch("/gateway/v1/models", { key })).status);
    expect(statuses).toEqual([200, 200, 429]);
    // Each surface counts for itself.
    expect((await troupe.fetch("/v1/models", { key })).status).toBe(200);
  });
});

describe("without a valid key", () => {
  test("an address has its bucket, which throttles guessing; another address is not touched", async () => {
    const guess = (address: string) => troupe.fetch("/v1/models", { key: "trp_wrong", headers: from(address) });
    const answers = [];
    for (let tried = 1; tried <= 4; tried += 1) answers.push(await guess("203.0.113.1"));
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 401, 429]);
    expect(answers.map((one) => rates(one)[1])).toEqual([2, 1, 0, 0]);
    expect((await guess("203.0.113.2")).status).toBe(401);
    // A valid key is never held up by others' guesses.
    expect((await troupe.fetch("/v1/models", { headers: from("203.0.113.1") })).status).toBe(200);
  });

  test("the open endpoints show the bucket, take nothing from it and are never refused", async () => {
    const headers = from("203.0.113.3");
    for (let tried = 1; tried <= 4; tried += 1) await troupe.fetch("/v1/models", { key: null, headers });
    for (const path of ["/health", "/healthz", "/version", "/metrics"]) {
      const response = await troupe.fetch(path, { key: null, headers });
      expect(response.status).toBe(200);
      expect(rates(response)).toEqual([3, 0, nowSeconds() + 60]);
    }
    expect(rates(await troupe.fetch("/health", { key: null, headers: from("203.0.113.4") }))).toEqual([
      3,
      3,
      nowSeconds(),
    ]);
  });

  test("401 comes with its headers before a byte of the body is read", async () => {
    const lines = [
      "POST /v1/chat/completions HTTP/1.1",
      "Host: localhost",
      "Connection: close",
      "X-Forwarded-For: 203.0.113.5",
      "Content-Type: application/json",
      "Content-Length: 5000",
    ];
    const { status, headers } = await sendRaw(troupe.url, `${lines.join("\r\n")}\r\n\r\n`);
    expect(status).toBe(401);
    const shown = ["limit", "remaining", "reset"].map((name) => Number(headers.get(`x-ratelimit-${name}`)));
    expect(shown).toEqual([3, 2, nowSeconds() + 60]);
  });
});
