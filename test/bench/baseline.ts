/**
 * The least that a proxy on this platform can do: hand the call on, hand the answer back, look at nothing.
 * Usage: `bun test/bench/baseline.ts <port> <upstream origin> [--buffer]`; it lives until its input closes.
 */
import { endWithInput } from "./processes.ts";

const [, , port, upstream = "", option] = process.argv;
/** A small body costs least when it is taken whole, a large one when it is handed on as it comes. */
const takenWhole = option === "--buffer" ? Number.POSITIVE_INFINITY : 65_536;
const passedOn = ["authorization", "content-type"];
/** Keys of the providers that have headers of their own. */
const otherKeys = ["content-type", "x-api-key", "anthropic-version", "x-goog-api-key"];

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(port),
  development: false,
  idleTimeout: 0,
  async fetch(request) {
    const headers: Record<string, string> = {};
    const names = request.headers.has("authorization") ? passedOn : otherKeys;
    for (const name of names) headers[name] = request.headers.get(name) ?? "";
    const small = Number(request.headers.get("content-length")) < takenWhole;
    const answer = await fetch(upstream + request.url.slice(request.url.indexOf("/", 8)), {
      method: request.method,
      headers,
      body: small ? await request.arrayBuffer() : request.body,
      signal: request.signal,
      decompress: false,
    });
    return new Response(answer.body, {
      status: answer.status,
      headers: { "content-type": answer.headers.get("content-type") ?? "" },
    });
  },
});

endWithInput();
