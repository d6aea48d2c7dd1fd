import { describe, expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { systemClock } from "../../src/lib/clock.ts";
import { FetchTransport } from "../../src/lib/fetch-transport.ts";
import { HttpClient, type Transport } from "../../src/lib/http-client.ts";
import { ClientGone, Upstream, type UpstreamAnswer } from "../../src/relay/upstream.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const timeouts = { connectSeconds: 5, firstByteSeconds: 5, idleSeconds: 5 };
const account = (baseUrl: string) => ({
  name: "up",
  baseUrl,
  headers: { "x-own": "1" },
  models: [],
  options: {},
  modelRules: [],
});
const request = (url: string) => ({ url, headers: { authorization: "Bearer k" }, body: '{"a":1}' });
const never = new AbortController().signal;

/** One piece at a time; undefined at the end. */
function readerOf(answer: UpstreamAnswer): () => Promise<string | undefined> {
  let asked: PromiseWithResolvers<string | undefined> | undefined;
  let flows = false;
  return () => {
    asked = Promise.withResolvers();
    const { promise } = asked;
    if (flows) answer.resume();
    else {
      flows = true;
      answer.flow({
        data(bytes) {
          answer.pause();
          asked!.resolve(new TextDecoder().decode(bytes));
        },
        end: () => asked!.resolve(undefined),
        fail: (error) => asked!.reject(error),
      });
    }
    return promise;
  };
}

const transports: [string, () => Transport][] = [
  ["over its own connections", () => new HttpClient(systemClock)],
  ["by fetch, as behind a forward proxy", () => new FetchTransport()],
];

describe.each(transports)("Upstream, %s", (_, transport) => {
  const upstream = new Upstream(systemClock, transport());
  const send = (url: string, limits = timeouts) => upstream.send(request(url), account(url), limits, never);

  test("sends body, headers and the account's own, and asks for no compression", async () => {
    using server = new UpstreamServer(() => jsonResponse({ ok: true }));
    const answer = await upstream.send(request(`${server.url}/v1/x`), account(server.url), timeouts, never);
    expect(new TextDecoder().decode(await answer.bytes())).toBe('{"ok":true}');
    const { headers, text, method, path } = server.last;
    expect([method, path, text]).toEqual(["POST", "/v1/x", '{"a":1}']);
    expect(headers.get("authorization")).toBe("Bearer k");
    expect(headers.get("x-own")).toBe("1");
    expect(headers.get("content-type")).toBe("application/json");
    expect(headers.get("accept-encoding")).toBe("identity");
  });

  test("the account's headers go before the adapter's, and are added to those that are lists", async () => {
    using server = new UpstreamServer(() => jsonResponse({}));
    const own = { ...account(server.url), headers: { "x-beta": "b,c", "x-list": "d", authorization: "Basic z" } };
    const sent = { ...request(server.url), headers: { authorization: "Bearer k", "x-beta": "a" } };
    const listed = { ...sent, listHeaders: ["x-beta", "x-list", "x-none"] };
    (await upstream.send(listed, own, timeouts, never)).settle();
    expect(["authorization", "x-beta", "x-list", "x-none"].map((name) => server.last.headers.get(name))).toEqual([
      "Basic z",
      "a,b,c",
      "d",
      null,
    ]);
  });

  test("a redirect is never followed", async () => {
    using elsewhere = new UpstreamServer(() => jsonResponse({}));
    using server = new UpstreamServer(() => Response.redirect(elsewhere.url, 307));
    const answer = await send(server.url);
    expect(answer.status).toBe(307);
    answer.cancel();
    expect(elsewhere.requests).toHaveLength(0);
  });

  test("a slow reader is no silence of the upstream", async () => {
    const held = new HeldStream();
    using server = new UpstreamServer(() => held.response());
    held.send("one");
    const answer = await send(server.url, { ...timeouts, idleSeconds: 0.03 });
    const read = readerOf(answer);
    expect(await read()).toBe("one");
    const waited = Promise.withResolvers<void>();
    systemClock.after(100, () => waited.resolve());
    await waited.promise;
    held.send("two");
    expect(await read()).toBe("two");
    // But when it is asked and says nothing, it is.
    expect(read()).rejects.toMatchObject({ status: 504 });
    await held.cancelled;
  });

  test("a small answer that stays incomplete is silence, and a small one that breaks off is told", async () => {
    let breaksOff = false;
    using server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket) {
          socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
          if (breaksOff) socket.end();
        },
      },
    });
    const url = `http://127.0.0.1:${server.port}`;
    const limits = { ...timeouts, idleSeconds: 0.03 };
    const silent = await upstream.send(request(url), account(url), limits, never);
    await expect(silent.text()).rejects.toMatchObject({ status: 504, message: "up fell silent for 0.03 s." });
    breaksOff = true;
    const broken = upstream.send(request(url), account(url), timeouts, never).then((answer) => answer.text());
    await expect(broken).rejects.toMatchObject({ status: 503, code: "upstream_unreachable" });
  });

  test("a settled answer is read to its end, so that the connection serves again", async () => {
    const ports = new Set<number>();
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(incoming, bun) {
        ports.add(bun.requestIP(incoming)!.port);
        return new Response(new Blob(["x".repeat(10_000)]).stream());
      },
    });
    for (let call = 0; call < 5; call += 1) {
      const answer = await send(server.url.href);
      await readerOf(answer)();
      answer.settle();
      answer.cancel();
      await new Promise((next) => setImmediate(next));
    }
    expect(ports.size).toBeLessThan(5);
    await server.stop(true);
  });

  test.each(["gzip", "deflate", "br", "zstd"] as const)(
    "an answer compressed with %s is read all the same",
    async (coding) => {
      const pack = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync }[coding];
      const text = JSON.stringify({ words: "so ".repeat(50_000) });
      using server = new UpstreamServer(
        () => new Response(pack(text), { headers: { "content-encoding": coding, "content-type": "application/json" } }),
      );
      expect(await (await send(server.url)).text()).toBe(text);
    },
  );

  test("a compressed answer that is damaged is told as one that broke", async () => {
    const damaged = gzipSync("x".repeat(1000)).fill(7, 12);
    using server = new UpstreamServer(() => new Response(damaged, { headers: { "content-encoding": "gzip" } }));
    await expect((await send(server.url)).text()).rejects.toMatchObject({ code: "upstream_unreachable" });
  });

  test("a key that can't stand in a header is told, not sent", async () => {
    using server = new UpstreamServer(() => jsonResponse({}));
    const sent = { ...request(server.url), headers: { authorization: "Bearer k\r\nx-evil: 1" } };
    const sending = upstream.send(sent, account(server.url), timeouts, never);
    await expect(sending).rejects.toMatchObject({ status: 503, code: "upstream_unreachable" });
    expect(server.requests).toHaveLength(0);
  });

  test("a client that leaves ends the call, before the answer and within it", async () => {
    const held = new HeldStream();
    const asked = Promise.withResolvers<AbortSignal>();
    using server = new UpstreamServer(({ signal }) => {
      asked.resolve(signal);
      return new Promise(() => {});
    });
    using streaming = new UpstreamServer(() => held.response());
    const leaving = new AbortController();
    const before = upstream.send(request(server.url), account(server.url), timeouts, leaving.signal);
    held.send("one");
    const within = await upstream.send(request(streaming.url), account(streaming.url), timeouts, leaving.signal);
    const read = readerOf(within);
    expect(await read()).toBe("one");
    await asked.promise;
    leaving.abort();
    await expect(before).rejects.toBeInstanceOf(ClientGone);
    await expect(read()).rejects.toBeInstanceOf(ClientGone);
    await held.cancelled;
  });
});
