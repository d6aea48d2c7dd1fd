/** A call that waits for its upstream holds nothing of its request: what is not freed then, thousands of calls hold at once. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";

const calls = 8;
const messagesOfCall = 2000;
/** Each message is an object at the least: so the calls together hold less than one of their requests. */
const most = messagesOfCall;
const messages = Array.from({ length: messagesOfCall + 1 }, (_, at) => ({
  role: at % 2 === 0 ? "user" : "assistant",
  content: `${at} ${"x".repeat(200)}`,
}));

let taken = 0;
let onTaken = () => {};
/** Reads requests to their end, and answers none. */
const upstream = Bun.serve({
  hostname: "127.0.0.1",
  port: 0,
  idleTimeout: 0,
  async fetch(request) {
    await request.bytes();
    taken += 1;
    onTaken();
    return new Promise<Response>((resolve) => request.signal.addEventListener("abort", () => resolve(new Response())));
  },
});

const program = [process.execPath, join(import.meta.dir, "gateway.ts"), upstream.url.origin];
const gateway = Bun.spawn(program, { stdin: "pipe", stdout: "pipe", stderr: "inherit" });
const lines = gateway.stdout.pipeThrough(new TextDecoderStream()).values();
async function nextLine<T>(): Promise<T> {
  let text = "";
  while (!text.endsWith("\n")) {
    const { done, value } = await lines.next();
    if (done === true) throw new Error(`the gateway ended: ${text}`);
    text += value;
  }
  return JSON.parse(text);
}

let started: { readonly url: string; readonly key: string };
beforeAll(async () => {
  started = await nextLine();
});
afterAll(async () => {
  gateway.kill();
  await gateway.exited;
  await upstream.stop(true);
});

/** Makes the calls, and counts what is held of them once the upstream has all of them. */
async function held(path: string, body: object): Promise<number> {
  const leaving = new AbortController();
  const all = Promise.withResolvers<void>();
  taken = 0;
  onTaken = () => {
    if (taken === calls) all.resolve();
  };
  const calling = Array.from({ length: calls }, async () => {
    const response = await fetch(started.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${started.key}`, "content-type": "application/json" },
      body: JSON.stringify({ ...body, messages, max_tokens: 100 }),
      signal: leaving.signal,
    });
    throw new Error(`answered ${response.status}: ${await response.text()}`);
  });
  try {
    await Promise.race([all.promise, ...calling]);
    gateway.stdin.write(`${most}\n`);
    void gateway.stdin.flush();
    return await nextLine<number>();
  } finally {
    leaving.abort();
    await Promise.allSettled(calling);
  }
}

const chat = "/gateway/v1/chat/completions";
const cases = [
  ["chat completions", chat, { model: "openai/gpt-4o" }],
  ["chat completions, streamed", chat, { model: "openai/gpt-4o", stream: true }],
  ["chat completions to Messages", chat, { model: "anthropic/claude-sonnet-4-5" }],
  ["Messages", "/gateway/v1/messages", { model: "anthropic/claude-sonnet-4-5" }],
  ["Messages to chat completions", "/gateway/v1/messages", { model: "openai/gpt-4o" }],
  ["a persona", "/v1/chat/completions", { model: "troupe/tutor", store: false }],
] as const;

describe("while the upstream thinks, nothing of the request is held", () => {
  test.each(cases)("%s", async (_, path, body) => {
    expect(await held(path, body)).toBeLessThan(most);
  });
});
