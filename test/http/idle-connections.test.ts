import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { openLibc, ptr } from "../../src/lib/linux/libc.ts";
import { completionOf, endingOf, streamed } from "../helpers/chat-upstream.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const { troupe } = await served(
  ({ json, path }) => {
    if (path.endsWith("/embeddings")) return jsonResponse({ object: "list", data: [{ index: 0, embedding: [1] }] });
    return (json as { stream?: boolean } | undefined)?.stream === true
      ? streamed(...endingOf())()
      : jsonResponse(completionOf({ content: "Hi" }));
  },
  (url) => ({
    providers: { openai: { baseUrl: url } },
    surfaces: ["gateway", "orchestrator", "raw", "admin"],
    config: {
      listen: [
        { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
      ],
    },
  }),
);
const { live } = troupe.server.services;
// Listeners have had their own by now: what is left is what a request leaves behind.
Object.assign(live.config.limits, { idleConnectionSeconds: 1 });

const asked = { messages: [{ role: "user", content: "Hi" }] };
const form =
  '--b\r\nContent-Disposition: form-data; name="model"\r\n\r\nopenai/whisper-1\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nx\r\n--b--\r\n';

/** Method, path and body of every kind of call that sets an idle timeout of its own. */
const calls: readonly (readonly [name: string, path: string, body: object | string])[] = [
  ["a plain answer", "/gateway/v1/chat/completions", { model: "openai/gpt-4o", ...asked }],
  ["a stream", "/gateway/v1/chat/completions", { model: "openai/gpt-4o", stream: true, ...asked }],
  ["a refused call", "/gateway/v1/chat/completions", { model: "nobody/gpt-4o", ...asked }],
  ["a persona", "/v1/chat/completions", { model: "troupe/guide", ...asked }],
  ["Responses", "/gateway/v1/responses", { model: "builtin/echo", input: "Hi" }],
  ["Messages", "/gateway/v1/messages", { model: "openai/gpt-4o", max_tokens: 10, ...asked }],
  ["legacy completions", "/v1/completions", { model: "troupe/guide", prompt: "Hi" }],
  [
    "Gemini's format",
    "/gateway/v1beta/models/openai/gpt-4o:generateContent",
    { contents: [{ parts: [{ text: "Hi" }] }] },
  ],
  ["embeddings", "/gateway/v1/embeddings", { model: "openai/e", input: "Hi" }],
  ["a form", "/gateway/v1/audio/transcriptions", form],
  ["the raw API", "/gateway/providers/openai/chat/completions", { model: "gpt-4o", ...asked }],
  ["MCP", "/mcp", { jsonrpc: "2.0", id: 1, method: "tools/list" }],
];

describe("a connection without a request", () => {
  for (const [name, path, body] of calls) {
    test.concurrent(`behind ${name} ends after limits.idle_connection_seconds`, async () => {
      const text = typeof body === "string" ? body : JSON.stringify(body);
      const type = typeof body === "string" ? "multipart/form-data; boundary=b" : "application/json";
      const { status } = await sendRaw(
        troupe.url,
        `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${troupe.key}\r\nContent-Type: ${type}\r\n` +
          `Accept: application/json, text/event-stream\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`,
      );
      // sendRaw answers once the server has closed the connection, which it was not asked to do.
      expect([name, status]).toEqual([name, name === "a refused call" ? 400 : status < 300 ? status : 200]);
    });
  }

  test.skipIf(openLibc() === undefined)("is probed by the kernel", async () => {
    const answer = await troupe.fetch("/healthz");
    await answer.text();
    const libc = openLibc()!;
    const option = (fd: number, level: number, name: number) => {
      const value = new Int32Array(1);
      return libc.getsockopt(fd, level, name, ptr(value), ptr(new Uint32Array([4]))) === 0 ? value[0] : undefined;
    };
    const probed = readdirSync("/proc/self/fd")
      .map(Number)
      .filter((fd) => option(fd, 1, 9) === 1);
    const settings = probed.map((fd) => ({
      listens: option(fd, 1, 30),
      idle: option(fd, 6, 4),
      every: option(fd, 6, 5),
      times: option(fd, 6, 6),
    }));
    expect(settings).toContainEqual({ listens: 0, idle: 60, every: 15, times: 4 });
  });
});
