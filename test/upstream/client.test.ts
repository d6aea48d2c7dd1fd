import { describe, expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { Socket } from "bun";
import { HttpClient, type HttpRequest, type Transport } from "../../src/lib/http/client.ts";
import type { CallReceiver } from "../../src/lib/http/connection.ts";
import { FetchTransport } from "../../src/lib/http/fetch-transport.ts";
import type { Flow } from "../../src/lib/streams/flow.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import type { ApiError } from "../../src/protocols/errors.ts";
import { ClientDisconnected, Upstream, type UpstreamAnswer } from "../../src/upstream/client.ts";
import { Credentials } from "../../src/upstream/credentials/credentials.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const timeouts = { connectSeconds: 5, firstByteSeconds: 5, idleSeconds: 5 };
const senderWith = (headers: Record<string, string>, limits = timeouts) => ({
  account: { name: "up", baseUrl: "https://up.test", models: [], options: {}, modelRules: [] },
  credentials: new Credentials({ apiKey: "k", headers, options: {} }, {}),
  timeouts: limits,
});
const sender = senderWith({ "x-own": "1" });
const request = (url: string) => ({ url, body: '{"a":1}' });
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
        push(bytes) {
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
  const send = (url: string, limits = timeouts) => upstream.send(request(url), senderWith({}, limits), never);

  test("sends body, headers and the account's own, and asks for no compression", async () => {
    using server = new UpstreamServer(() => jsonResponse({ ok: true }));
    const answer = await upstream.send(request(`${server.url}/v1/x`), sender, never);
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
    const own = senderWith({ "anthropic-beta": "b,c", "openai-beta": "d", "x-own": "o", authorization: "Basic z" });
    const sent = { ...request(server.url), headers: { "x-own": "a", "anthropic-beta": "a,b" } };
    (await upstream.send(sent, own, never)).drain();
    const names = ["authorization", "x-own", "anthropic-beta", "openai-beta"];
    expect(names.map((name) => server.last.headers.get(name))).toEqual(["Basic z", "o", "a,b,c", "d"]);
  });

  test("a body that comes with its head reads the same as text, as bytes, in pieces and by its first byte", async () => {
    const text = ' {"é":"\u{1f600}"}';
    using server = new UpstreamServer(({ path }) => new Response(path === "/marked" ? `\ufeff${text}` : text));
    for (const path of ["/plain", "/marked"]) {
      const answer = () => send(`${server.url}${path}`);
      expect(await (await answer()).text()).toBe(text);
      const bytes = Buffer.from(path === "/marked" ? `\ufeff${text}` : text);
      expect(Buffer.from(await (await answer()).bytes())).toEqual(bytes);
      const peeked = await answer();
      expect(await peeked.firstByte()).toBe(123);
      expect(await peeked.text()).toBe(text);
      const left = await answer();
      left.cancel();
      left.drain();
      const pulled: Buffer[] = [];
      const ended = Promise.withResolvers<void>();
      (await answer()).flow({ push: (piece) => pulled.push(piece), end: ended.resolve, fail: ended.reject });
      await ended.promise;
      expect(Buffer.concat(pulled)).toEqual(bytes);
    }
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
    const clock = new ManualClock();
    const timed = new Upstream(clock, transport());
    const held = new HeldStream();
    using server = new UpstreamServer(() => held.response());
    held.send("one");
    const answer = await timed.send(request(server.url), sender, never);
    const read = readerOf(answer);
    expect(await read()).toBe("one");
    clock.advance(60_000);
    held.send("two");
    expect(await read()).toBe("two");
    // Time counts from when it is asked again: but when it says nothing then, that is silence.
    clock.advance(4_900);
    const late = read();
    clock.advance(4_900);
    held.send("three");
    expect(await late).toBe("three");
    const silent = read();
    clock.advance(5_000);
    await expect(silent).rejects.toMatchObject({ status: 504, message: "up fell silent for 5 s." });
    await held.cancelled;
    timed.close();
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
    const silent = await upstream.send(request(url), senderWith({}, limits), never);
    await expect(silent.text()).rejects.toMatchObject({ status: 504, message: "up fell silent for 0.03 s." });
    breaksOff = true;
    const broken = upstream.send(request(url), sender, never).then((answer) => answer.text());
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
      answer.drain();
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
    const sent = { ...request(server.url), headers: { "x-list": "k\r\nx-evil: 1" } };
    const sending = upstream.send(sent, sender, never);
    await expect(sending).rejects.toMatchObject({ status: 503, code: "upstream_unreachable" });
    expect(server.requests).toHaveLength(0);
  });

  test("line feeds while it thinks, however many, are waited out", async () => {
    const held = new HeldStream();
    using server = new UpstreamServer(() => held.response());
    held.send("\n");
    const answer = await send(server.url);
    const first = answer.firstByte();
    for (let at = 0; at < 20; at += 1) {
      held.send(at === 9 ? "\ufeff" : "\r\n");
      await new Promise((next) => setImmediate(next));
    }
    held.send("data: x\n\n");
    held.close();
    expect(await first).toBe("d".charCodeAt(0));
    expect(await answer.text()).toEndWith("data: x\n\n");
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
    const before = upstream.send(request(server.url), sender, leaving.signal);
    held.send("one");
    const within = await upstream.send(request(streaming.url), sender, leaving.signal);
    const read = readerOf(within);
    expect(await read()).toBe("one");
    await asked.promise;
    leaving.abort();
    await expect(before).rejects.toBeInstanceOf(ClientDisconnected);
    await expect(read()).rejects.toBeInstanceOf(ClientDisconnected);
    await held.cancelled;
  });
});

/** A transport of whose answers a test hears as they end or fail, once they have been told. */
class Overheard implements Transport {
  readonly #client = new HttpClient(systemClock);
  #over = Promise.withResolvers<void>();

  /** The end of the call that began last. */
  get over(): Promise<void> {
    return this.#over.promise;
  }

  send(request: HttpRequest, receiver: CallReceiver, connectMs: number): Flow {
    const over = Promise.withResolvers<void>();
    this.#over = over;
    const heard: CallReceiver = {
      connected: () => receiver.connected(),
      head: (status, headers) => receiver.head(status, headers),
      push: (bytes) => receiver.push(bytes),
      end(isProven) {
        receiver.end(isProven);
        over.resolve();
      },
      fail(error) {
        receiver.fail(error);
        over.resolve();
      },
    };
    return this.#client.send(request, heard, connectMs);
  }

  close(): void {
    this.#client.close();
  }
}

describe("a reader who does not keep up", () => {
  /** One who wants nothing until he is asked to read on, and then all. */
  const reading = (answer: UpstreamAnswer) => {
    const told: string[] = [];
    const done = Promise.withResolvers<string[]>();
    const finish = (what: string) => {
      told.push(what);
      done.resolve(told);
    };
    answer.pause();
    answer.flow({
      push: (bytes) => told.push(new TextDecoder().decode(bytes)),
      end: () => finish("end"),
      fail: (error) => finish(error instanceof ClientDisconnected ? "gone" : (error as ApiError).code!),
    });
    return { told, done: done.promise };
  };

  test.each([
    ["its end", 14, "end"],
    ["its break", 99, "upstream_unreachable"],
  ])("gets all that came before it, and %s", async (_, length, expected) => {
    let socket!: Socket;
    using server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(own) {
          socket = own;
          socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\none `);
        },
      },
    });
    const upstream = new Upstream(systemClock);
    const url = `http://127.0.0.1:${server.port}`;
    const answer = await upstream.send(request(url), sender, never);
    const { told, done } = reading(answer);
    for (const piece of ["two ", "three "]) {
      socket.write(piece);
      await new Promise((next) => setImmediate(next));
    }
    socket.end();
    for (let turn = 0; turn < 20; turn += 1) await new Promise((next) => setImmediate(next));
    expect(told).toEqual([]);
    answer.resume();
    const all = await done;
    expect(all.at(-1)).toBe(expected);
    expect(all.slice(0, -1).join("")).toBe("one two three ");
    upstream.close();
  });

  test("and leaves hears of it as soon as he listens, and the upstream at once", async () => {
    const upstream = new Upstream(systemClock);
    const held = new HeldStream();
    using server = new UpstreamServer(() => held.response());
    held.send("one ");
    const leaving = new AbortController();
    const answer = await upstream.send(request(server.url), sender, leaving.signal);
    const { told, done } = reading(answer);
    leaving.abort();
    await held.cancelled;
    expect(told).toEqual([]);
    answer.resume();
    expect((await done).at(-1)).toBe("gone");
  });

  test("and who pauses within a piece gets the next one only when he wants it", async () => {
    const upstream = new Upstream(systemClock);
    const held = new HeldStream();
    using server = new UpstreamServer(() => held.response());
    held.send("a".repeat(3_000_000));
    held.close();
    const answer = await upstream.send(request(server.url), sender, never);
    let size = 0;
    let isWanted = true;
    await new Promise<void>((resolve, reject) => {
      answer.flow({
        push(bytes) {
          if (!isWanted) reject(new Error("it was not wanted"));
          size += bytes.byteLength;
          isWanted = false;
          answer.pause();
          setImmediate(() => {
            isWanted = true;
            answer.resume();
          });
        },
        end: () => (isWanted ? resolve() : reject(new Error("the end was not wanted"))),
        fail: reject,
      });
    });
    expect(size).toBe(3_000_000);
    upstream.close();
  });
});

test("what is left of an answer that nobody reads is read, so that the connection serves again", async () => {
  const transport = new Overheard();
  // Its time stands still: an answer is given all the time that it needs.
  const upstream = new Upstream(new ManualClock(), transport);
  const ports = new Set<number>();
  await using server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(incoming, bun) {
      ports.add(bun.requestIP(incoming)!.port);
      return new Response("x".repeat(8 * 1024 * 1024));
    },
  });
  const { href } = server.url;
  for (let call = 0; call < 3; call += 1) {
    const answer = await upstream.send(request(href), sender, never);
    // Long enough for all that is taken ahead.
    for (let turn = 0; turn < 20; turn += 1) await new Promise((next) => setImmediate(next));
    answer.drain();
    await transport.over;
  }
  expect(ports.size).toBe(1);
  upstream.close();
});

test("a compressed answer that is still unpacked when its connection serves the next call leaves that alone", async () => {
  const upstream = new Upstream(systemClock);
  const large = gzipSync("x".repeat(4_000_000));
  using server = new UpstreamServer(({ path }) =>
    path === "/large" ? new Response(large, { headers: { "content-encoding": "gzip" } }) : jsonResponse({ path }),
  );
  for (const change of ["pause", "cancel"] as const) {
    const answer = await upstream.send(request(`${server.url}/large`), sender, never);
    const next = upstream.send(request(`${server.url}/next`), sender, never);
    answer[change]();
    expect(await (await next).text()).toBe('{"path":"/next"}');
    answer.cancel();
  }
  upstream.close();
});

describe("a body of which only its form can tell whether it is whole", () => {
  const whole = '{"a":[1,2,{"b":"}"}]}';
  const answering = (body: string, isProven: boolean): Transport => ({
    send(_, receiver) {
      queueMicrotask(() => {
        receiver.head(400, { get: () => null, entries: () => [] });
        receiver.push(Buffer.from(body));
        receiver.end(isProven);
      });
      return { pause() {}, resume() {}, cancel() {} };
    },
    close() {},
  });
  const read = async (body: string, isProven: boolean, how: "bytes" | "text") => {
    const upstream = new Upstream(systemClock, answering(body, isProven));
    const answer = await upstream.send(request("https://up.test"), sender, never);
    return (await answer[how]()).toString();
  };

  test.each(["bytes", "text"] as const)("is broken where it is no whole JSON, and else as it is: %s", async (how) => {
    expect(await read(whole, false, how)).toBe(whole);
    for (let end = 1; end < whole.length; end += 1) {
      const part = whole.slice(0, end);
      await expect(read(part, false, how)).rejects.toMatchObject({ status: 503, code: "upstream_unreachable" });
      await read(part, true, how);
    }
    // Half a number is a number, and half a page is text.
    for (const body of ["12", '"a"', "Bad Request"]) {
      await expect(read(body, false, how)).rejects.toMatchObject({ code: "upstream_unreachable" });
    }
  });
});
