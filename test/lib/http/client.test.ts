import { afterEach, describe, expect, test } from "bun:test";
import { networkInterfaces } from "node:os";
import type { Socket } from "bun";
import { ConnectTimeout, HttpClient, type HttpRequest } from "../../../src/lib/http/client.ts";
import type { CallReceiver } from "../../../src/lib/http/connection.ts";
import { openLibc } from "../../../src/lib/linux/libc.ts";
import { freeBuffer } from "../../../src/lib/process/garbage-collection.ts";
import type { Flow } from "../../../src/lib/streams/flow.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { runScript } from "../../helpers/child-process.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

const ok = (body: string, headers = "") => `HTTP/1.1 200 OK\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;

/** A server that answers each request as it is told, and knows on which connection it came. */
class WireServer implements Disposable {
  readonly requests: { connection: number; text: string }[] = [];
  readonly #listener;
  readonly #hostname: string;
  connections = 0;
  #open = 0;
  #waiting: (() => void)[] = [];

  constructor(
    answer: (text: string, reply: { write(text: string): void; end(): void; reset(): void }) => void,
    hostname = "127.0.0.1",
  ) {
    const server = this;
    this.#hostname = hostname;
    this.#listener = Bun.listen<{ id: number; text: string }>({
      hostname: hostname.replace(/[[\]]/g, ""),
      port: 0,
      socket: {
        open(socket) {
          server.connections += 1;
          server.#open += 1;
          socket.data = { id: server.connections, text: "" };
        },
        close() {
          server.#open -= 1;
          for (const wake of server.#waiting.splice(0)) wake();
        },
        data(socket, bytes) {
          socket.data.text += bytes.toString("latin1");
          const { text, id } = socket.data;
          const length = Number(/content-length: (\d+)/.exec(text)?.[1] ?? 0);
          if (text.length < text.indexOf("\r\n\r\n") + 4 + length) return;
          socket.data.text = "";
          server.requests.push({ connection: id, text: Buffer.from(text, "latin1").toString() });
          answer(text, {
            write: (reply) => void socket.write(reply),
            end: () => void socket.end(),
            reset: () => void socket.terminate(),
          });
        },
      },
    });
  }

  get url(): string {
    return `http://${this.#hostname}:${this.#listener.port}`;
  }

  /** Resolves once no more than that many connections are open. */
  async open(count: number): Promise<void> {
    while (this.#open > count) await new Promise<void>((wake) => this.#waiting.push(wake));
  }

  [Symbol.dispose](): void {
    this.#listener.stop(true);
  }
}

type Answer = { status: number; text: string };

const clients: HttpClient[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

function newClient(clock = systemClock): HttpClient {
  const client = new HttpClient(clock);
  clients.push(client);
  return client;
}

function call(client: HttpClient, request: Partial<HttpRequest> & { url: string }, connectMs = 5000): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let status = 0;
    let text = "";
    const receiver: CallReceiver = {
      connected() {},
      head: (code) => {
        status = code;
      },
      push: (bytes) => {
        text += new TextDecoder().decode(bytes);
      },
      end: () => resolve({ status, text }),
      fail: reject,
    };
    const { url, headers = {}, body = "{}" } = request;
    client.send({ method: "POST", url, headers, body }, receiver, connectMs);
  });
}

test("a request goes out with its head, its length and its body, in one piece or several", async () => {
  using server = new WireServer((_, reply) => reply.write(ok("yes")));
  const client = newClient();
  const headers = { "x-one": "1", authorization: "Bearer k" };
  expect(await call(client, { url: `${server.url}/v1/x?y=1`, headers, body: '{"é":1}' })).toEqual({
    status: 200,
    text: "yes",
  });
  const pieces = ['{"a":', new TextEncoder().encode('"é"'), "}"];
  await call(client, { url: server.url, body: pieces });
  const host = server.url.slice("http://".length);
  expect(server.requests.map(({ text }) => text)).toEqual([
    `POST /v1/x?y=1 HTTP/1.1\r\nhost: ${host}\r\nx-one: 1\r\nauthorization: Bearer k\r\ncontent-length: 8\r\n\r\n{"é":1}`,
    `POST / HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 10\r\n\r\n{"a":"é"}`,
  ]);
});

test("short pieces and long ones arrive in their order, cut anywhere", async () => {
  using server = new WireServer((_, reply) => reply.write(ok("yes")));
  const text = `{"a":"é","b":"${"é".repeat(5000)}","c":"${"x".repeat(5000)}","d":1}`;
  const bytes = new TextEncoder().encode(text);
  // Within a character, behind one of the longest that are joined, and at single bytes.
  for (const cuts of [[6], [1, 2, 3, 4103], [20, 4116, 4117, 10_040], [7, 9000, 9001, 9002, 15_030]]) {
    const pieces = [0, ...cuts].map((from, at) => bytes.subarray(from, cuts[at]));
    await call(newClient(), { url: server.url, body: ["", ...pieces] });
    expect(server.requests.at(-1)!.text).toEndWith(`content-length: ${bytes.length}\r\n\r\n${text}`);
  }
});

test("what would break out of a head is refused before anything is sent", async () => {
  using server = new WireServer((_, reply) => reply.write(ok("")));
  const client = newClient();
  const refused = () => {
    for (const headers of [{ "x-a": "b\r\nx-c: d" }, { "x a": "b" }, { "x-a:": "b" }, { "x-a": "snow ☃" }]) {
      expect(() => call(client, { url: server.url, headers: headers as never })).toThrow(TypeError);
    }
  };
  refused();
  await call(client, { url: `${server.url}/a b\r\nx-evil: 1`, headers: { "x-latin": "é" } });
  expect(server.requests).toHaveLength(1);
  // Whatever was sent before; and the same headers again go out as they are, of which UTF-8 knows nothing.
  refused();
  await call(client, { url: server.url, headers: { "x-latin": "é" } });
  expect(server.requests[1]!.text).toContain("\r\nx-latin: \ufffd\r\n");
  refused();
  expect(server.requests).toHaveLength(2);
  expect(server.requests[0]!.text).toStartWith("POST /a%20bx-evil:%201 HTTP/1.1\r\n");
});

describe("connections", () => {
  test.skipIf(openLibc() === undefined).each(["HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nstray", "x", "\r\n"])(
    "one on which %j came without a call carries no other call, read or not",
    async (stray) => {
      const writers: ((text: string) => void)[] = [];
      using server = new WireServer((_, reply) => {
        writers.push(reply.write);
        reply.write(ok("own"));
      });
      const client = newClient();
      await call(client, server);
      // Written and called in one turn of the event loop: what came lies unread in the kernel.
      writers[0]!(stray);
      expect(await call(client, server)).toEqual({ status: 200, text: "own" });
      expect(server.connections).toBe(2);
    },
  );

  test("serve one call after another, and as many at once as there are calls", async () => {
    using server = new WireServer((_, reply) => reply.write(ok("x")));
    const client = newClient();
    for (let at = 0; at < 3; at += 1) await call(client, server);
    expect(server.connections).toBe(1);
    await Promise.all([call(client, server), call(client, server), call(client, server)]);
    expect(server.connections).toBe(3);
    await Promise.all([call(client, server), call(client, server), call(client, server)]);
    expect(server.connections).toBe(3);
  });

  test.each([
    ["the other side says so", ok("x", "connection: close\r\n")],
    ["it is HTTP/1.0", `HTTP/1.0 200 OK\r\ncontent-length: 1\r\n\r\nx`],
    ["more bytes come than belong to the answer", `${ok("x")}HTTP/1.1 200 OK\r\n`],
  ])("end with an answer where %s", async (_, answer) => {
    using server = new WireServer((_, reply) => reply.write(answer));
    const client = newClient();
    for (let at = 0; at < 2; at += 1) expect((await call(client, server)).text).toBe("x");
    expect(server.connections).toBe(2);
  });

  test.each([
    ["nobody says for how long they are kept", "", 3_900, 4_000],
    ["they are kept for three seconds", "keep-alive: timeout=3\r\n", 1_900, 2_000],
    ["they are said to be kept for longer", "keep-alive: timeout=600\r\n", 3_900, 4_000],
  ])("that idled for long are not used again: %s", async (_, header, soonMs, lateMs) => {
    using server = new WireServer((_, reply) => reply.write(ok("x", header)));
    const clock = new ManualClock();
    const client = newClient(clock);
    await call(client, server);
    clock.advance(soonMs);
    await call(client, server);
    expect(server.connections).toBe(1);
    clock.advance(lateMs);
    await call(client, server);
    expect(server.connections).toBe(2);
  });

  test("are not made for longer than they may", async () => {
    // It takes the connection and never begins with TLS.
    using server = new WireServer(() => {});
    const url = server.url.replace("http:", "https:");
    await expect(call(newClient(), { url }, 50)).rejects.toBeInstanceOf(ConnectTimeout);
  });

  test("have their time to be made, and no more than that is measured by it", async () => {
    const release = Promise.withResolvers<void>();
    using server = new WireServer((_, reply) => void release.promise.then(() => reply.write(ok("late"))));
    const calling = call(newClient(), server, 20);
    systemClock.setTimer(60, release.resolve);
    expect((await calling).text).toBe("late");
  });

  test("that are refused are told of", async () => {
    await expect(call(newClient(), { url: "http://127.0.0.1:1" })).rejects.toMatchObject({ code: "ECONNREFUSED" });
    // The second where no name server can be asked.
    await expect(call(newClient(), { url: "http://no-such-host.invalid" })).rejects.toMatchObject({
      code: expect.stringMatching(/^(?:ENOTFOUND|EAI_AGAIN)$/),
    });
  });
});

describe("a kept connection that the other side ends", () => {
  type Reply = { write(text: string): void; end(): void; reset(): void };
  /** Answers the first call of each connection in one way, and the second in the other. */
  const endingServer = (onFirst: (reply: Reply) => void, onSecond: (reply: Reply) => void = onFirst) => {
    const served = new Set<number>();
    const server: WireServer = new WireServer((_, reply) => {
      const { connection } = server.requests.at(-1)!;
      const isSecond = served.has(connection);
      served.add(connection);
      (isSecond ? onSecond : onFirst)(reply);
    });
    return server;
  };
  const answer = (reply: Reply) => reply.write(ok("yes"));

  test.skipIf(openLibc() === undefined).each<["end" | "reset"]>([["end"], ["reset"]])(
    "is not used any more, even where the event loop has not told of the %s yet",
    async (how) => {
      using server = endingServer((reply) => {
        answer(reply);
        reply[how]();
      });
      const client = newClient();
      // What is called in the turn of the answer's last byte finds the end in the kernel alone.
      for (let at = 0; at < 50; at += 1) expect((await call(client, server)).text).toBe("yes");
      expect(server.requests.map(({ connection }) => connection)).toEqual(
        Array.from({ length: 50 }, (_, at) => at + 1),
      );
    },
  );

  test.each<[string, (reply: Reply) => void]>([
    ["at once", (reply) => reply.end()],
    ["at once, by a reset", (reply) => reply.reset()],
    ["after a while", (reply) => void systemClock.setTimer(150, () => reply.end())],
  ])("after it has read a call, %s, leaves it to the caller to call again", async (_, end) => {
    using server = endingServer(answer, end);
    const client = newClient();
    await call(client, server);
    await expect(call(client, server)).rejects.toThrow(/closed|ECONNRESET/);
    expect(server.requests).toHaveLength(2);
    // The next call is not the broken connection's.
    expect((await call(client, server)).text).toBe("yes");
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1, 2]);
  });

  // The time that a test's clock shows stands still, so that each end comes sooner than the least round trip.
  test.skipIf(openLibc() === undefined).each([
    [250_000, 2],
    [300_000, 1],
  ])(
    "sooner than the least round trip gets a call of %i bytes %i times, its bytes freed when it is told so",
    async (size, times) => {
      using server = endingServer(answer, (reply) => reply.end());
      const client = newClient(new ManualClock());
      await call(client, server);
      const bytes = new Uint8Array(size).fill(120);
      const outcome = new Promise<string>((resolve) => {
        const receiver: CallReceiver = {
          connected() {},
          sent: () => freeBuffer(bytes),
          head() {},
          push: (part) => resolve(part.toString()),
          end() {},
          fail: ({ message }) => resolve(message),
        };
        client.send({ method: "POST", url: server.url, headers: {}, body: bytes }, receiver, 5000);
      });
      expect(await outcome).toBe(times === 2 ? "yes" : "the connection was closed");
      const texts = server.requests.slice(1).map(({ text }) => text.slice(text.indexOf("\r\n\r\n") + 4));
      expect(texts).toEqual(new Array(times).fill("x".repeat(size)));
      expect(bytes.length).toBe(0);
    },
  );

  test("after a byte of the answer is told as such", async () => {
    using server = endingServer(answer, (reply) => {
      reply.write("HTTP/1.1 2");
      reply.end();
    });
    const client = newClient();
    await call(client, server);
    await expect(call(client, server)).rejects.toThrow("the connection was closed within the answer");
    expect(server.requests).toHaveLength(2);
  });

  test("on its first call is told, too", async () => {
    using server = new WireServer((_, reply) => reply.end());
    await expect(call(newClient(), server)).rejects.toThrow("the connection was closed");
    expect(server.requests).toHaveLength(1);
  });
});

test("a receiver that pauses holds the other side back, and gets all of it later", async () => {
  const total = 64 * 1024 * 1024;
  let sent = 0;
  const piece = Buffer.alloc(1024 * 1024, "x");
  const drain = (socket: Socket) => {
    while (sent < total) {
      const taken = socket.write(piece.subarray(0, Math.min(piece.length, total - sent)));
      sent += Math.max(taken, 0);
      if (taken < piece.length) return;
    }
  };
  const listener = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      data(socket) {
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${total}\r\n\r\n`);
        drain(socket);
      },
      drain,
    },
  });
  let got = 0;
  const ended = Promise.withResolvers<void>();
  const paused = Promise.withResolvers<void>();
  const transfer = newClient().send(
    { method: "POST", url: `http://127.0.0.1:${listener.port}`, headers: {}, body: "{}" },
    {
      connected() {},
      head() {},
      push(bytes) {
        if (got === 0) {
          transfer.pause();
          systemClock.setTimer(150, paused.resolve);
        }
        got += bytes.byteLength;
      },
      end: () => ended.resolve(),
      fail: ended.reject,
    },
    5000,
  );
  await paused.promise;
  expect(got).toBeLessThan(2 * 1024 * 1024);
  expect(sent).toBeLessThan(total / 2);
  transfer.resume();
  await ended.promise;
  expect(got).toBe(total);
  listener.stop(true);
});

test("an answer that comes before its request was read ends the connection, and is taken", async () => {
  let connections = 0;
  const listener = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        connections += 1;
        socket.write(ok("too large"));
        socket.pause();
      },
      data() {},
    },
  });
  const client = newClient();
  const request = { url: `http://127.0.0.1:${listener.port}`, body: new Uint8Array(32 * 1024 * 1024) };
  expect((await call(client, request)).text).toBe("too large");
  expect((await call(client, request)).text).toBe("too large");
  expect(connections).toBe(2);
  listener.stop(true);
});

test("headers that frame a message go out once, and a host that is set goes before the URL's", async () => {
  using server = new WireServer((_, reply) => reply.write(ok("yes")));
  const headers = { "content-length": "99", "transfer-encoding": "chunked", host: "other.test" };
  await call(newClient(), { url: server.url, headers });
  expect(server.requests[0]!.text).toBe("POST / HTTP/1.1\r\nhost: other.test\r\ncontent-length: 2\r\n\r\n{}");
});

const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));

test.skipIf(!hasIpv6)("an IPv6 address is called, and named with its brackets", async () => {
  using server = new WireServer((_, reply) => reply.write(ok("yes")), "[::1]");
  expect((await call(newClient(), server)).text).toBe("yes");
  expect(server.requests[0]!.text).toContain(`host: ${server.url.slice("http://".length)}\r\n`);
});

describe("connections without a call", () => {
  test("are closed when they have idled for long, and when there are too many", async () => {
    const count = 530;
    const replies: { write(text: string): void }[] = [];
    const clock = new ManualClock();
    const client = newClient(clock);
    const calls: Promise<Answer>[] = [];
    // Not more at a time than wait for a server to accept them.
    const callMore = () => {
      for (let at = 0; at < 53 && calls.length < count; at += 1) calls.push(call(client, server));
    };
    using server: WireServer = new WireServer((_, reply) => {
      if (replies.length >= count) return reply.write(ok("x"));
      replies.push(reply);
      if (replies.length === calls.length) callMore();
      if (replies.length === count) for (const each of replies) each.write(ok("x"));
    });
    callMore();
    while (replies.length < count) await calls.at(-1);
    await Promise.all(calls);
    await server.open(512);
    clock.advance(3_900);
    await call(client, server);
    // One was used a moment ago; the others are swept out.
    clock.advance(1_200);
    await server.open(1);
    await call(client, server);
    expect(server.connections).toBe(count);
    clock.advance(60_000);
    await server.open(0);
  });

  test("are closed with the client, and those that carry one when it ends", async () => {
    const release = Promise.withResolvers<void>();
    using server = new WireServer((text, reply) => {
      if (text.includes("/slow")) void release.promise.then(() => reply.write(ok("slow")));
      else reply.write(ok("fast"));
    });
    const client = newClient();
    const slow = call(client, { url: `${server.url}/slow` });
    await call(client, server);
    client.close();
    await server.open(1);
    release.resolve();
    expect((await slow).text).toBe("slow");
    await server.open(0);
  });
});

describe("a receiver", () => {
  type What = "connected" | "head" | "data" | "end";
  /** Notes what it is told, and does this when it is told that. */
  const telling = (client: HttpClient, url: string, at: What, react: (transfer: Flow) => void, body = "{}") => {
    const told: string[] = [];
    const over = Promise.withResolvers<void>();
    const tell = (what: What) => {
      told.push(what);
      if (what === at) react(transfer);
      if (what === "end") over.resolve();
    };
    const transfer: Flow = client.send(
      { method: "POST", url, headers: {}, body },
      {
        connected: () => tell("connected"),
        head: () => tell("head"),
        push: () => tell("data"),
        end: () => tell("end"),
        fail(error) {
          told.push(`fail: ${error.message}`);
          over.resolve();
        },
      },
      5000,
    );
    return { told, over: over.promise, transfer };
  };
  const order: What[] = ["connected", "head", "data", "end"];
  const answers: [string, string][] = [
    ["a length", ok("text")],
    ["chunks", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ntext\r\n0\r\n\r\n"],
    ["the connection's end", "HTTP/1.1 200 OK\r\n\r\ntext"],
  ];

  test.each(answers)("that cancels, wherever it is, hears no more, and its connection ends: %s", async (_, answer) => {
    using server = new WireServer((_, reply) => {
      reply.write(answer);
      if (!answer.includes(":")) reply.end();
    });
    for (const at of ["connected", "head", "data"] as const) {
      const { told } = telling(newClient(), server.url, at, (transfer) => transfer.cancel());
      while (told.at(-1) !== at) await new Promise(setImmediate);
      await server.open(0);
      expect(told).toEqual(order.slice(0, order.indexOf(at) + 1));
    }
  });

  test.each(answers)("that throws ends its call with that, and no other one: %s", async (_, answer) => {
    using server = new WireServer((_, reply) => {
      reply.write(answer);
      if (!answer.includes(":")) reply.end();
    });
    for (const at of ["connected", "head", "data"] as const) {
      const { told, over } = telling(newClient(), server.url, at, () => {
        throw new Error("ouch");
      });
      await over;
      await server.open(0);
      expect(told).toEqual([...order.slice(0, order.indexOf(at) + 1), "fail: ouch"]);
    }
  });

  test("that cancels, pauses or resumes when its answer has ended does nothing to the next call", async () => {
    using server = new WireServer((_, reply) => reply.write(ok("text")));
    const client = newClient();
    for (const change of ["cancel", "pause", "resume"] as const) {
      const { over, transfer, told } = telling(client, server.url, "end", (ended) => ended[change]());
      await over;
      const next = call(client, server);
      transfer[change]();
      expect((await next).text).toBe("text");
      expect(told.at(-1)).toBe("end");
    }
    expect(server.connections).toBe(1);
  });

  test("that pauses at the head gets what had come with it, and the rest when it wants it", async () => {
    using server = new WireServer((_, reply) => reply.write(ok("text")));
    const { over, told } = telling(newClient(), server.url, "head", (transfer) => {
      transfer.pause();
      setImmediate(() => transfer.resume());
    });
    await over;
    expect(told).toEqual(order);
  });

  test("that cancels before there is a connection, or while its request goes out, leaves none behind", async () => {
    const heard = Promise.withResolvers<void>();
    let closed = 0;
    const allClosed = Promise.withResolvers<void>();
    using listener = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket) {
          // It has begun, and is not read any further.
          socket.pause();
          heard.resolve();
          setImmediate(() => socket.resume());
        },
        close() {
          closed += 1;
          if (closed === 1) allClosed.resolve();
        },
      },
    });
    const url = `http://127.0.0.1:${listener.port}`;
    const early = telling(newClient(), url, "end", () => {});
    early.transfer.cancel();
    const upload = telling(newClient(), url, "end", () => {}, "x".repeat(32 * 1024 * 1024));
    await heard.promise;
    upload.transfer.cancel();
    await allClosed.promise;
    expect(early.told).toEqual([]);
    expect(upload.told).toEqual(["connected"]);
  });
});

test("a gigabyte that is read slowly goes through little memory", async () => {
  // In a process of its own, whose memory is nobody else's.
  const { lines, errors } = await runScript(`
    const { HttpClient } = await import(SRC + "/lib/http/client.ts");
    const { systemClock } = await import(SRC + "/lib/time/clock.ts");
    const total = 1024 ** 3;
    const piece = Buffer.alloc(1024 ** 2, "x");
    let sent = 0;
    const drain = (socket) => {
      while (sent < total) {
        const taken = socket.write(piece.subarray(0, Math.min(piece.length, total - sent)));
        sent += Math.max(taken, 0);
        if (taken < piece.length) return;
      }
    };
    const data = (socket) => {
      socket.write("HTTP/1.1 200 OK\\r\\ncontent-length: " + total + "\\r\\n\\r\\n");
      drain(socket);
    };
    const listener = Bun.listen({ hostname: "127.0.0.1", port: 0, socket: { data, drain } });
    const before = process.memoryUsage.rss();
    let [most, got, pauses] = [0, 0, 0];
    const told = (end) => {
      console.log(JSON.stringify({ end, got, pauses, grown: (most - before) / 1024 ** 2 }));
      process.exit();
    };
    const url = "http://127.0.0.1:" + listener.port;
    const transfer = new HttpClient(systemClock).send({ method: "POST", url, headers: {} }, {
      connected() {},
      head() {},
      push(bytes) {
        got += bytes.byteLength;
        if (got < pauses * 4 * 1024 ** 2) return;
        pauses += 1;
        most = Math.max(most, process.memoryUsage.rss());
        transfer.pause();
        setImmediate(() => transfer.resume());
      },
      end: () => told("end"),
      fail: (error) => told(error.message),
    }, 5000);
  `);
  expect(errors).toBe("");
  const [{ end, got, pauses, grown }] = lines as [{ end: string; got: number; pauses: number; grown: number }];
  expect({ end, got }).toEqual({ end: "end", got: 1024 ** 3 });
  expect(pauses).toBeGreaterThan(200);
  expect(grown).toBeLessThan(120);
});
