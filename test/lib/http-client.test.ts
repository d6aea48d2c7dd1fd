import { afterEach, describe, expect, test } from "bun:test";
import type { Socket } from "bun";
import { ManualClock, systemClock } from "../../src/lib/clock.ts";
import { ConnectTimeout, HttpClient, type HttpRequest } from "../../src/lib/http-client.ts";
import type { CallReceiver } from "../../src/lib/http-connection.ts";

const ok = (body: string, headers = "") => `HTTP/1.1 200 OK\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;

/** A server that answers each request as it is told, and knows on which connection it came. */
class WireServer implements Disposable {
  readonly requests: { connection: number; text: string }[] = [];
  readonly #listener;
  connections = 0;

  constructor(answer: (text: string, reply: { write(text: string): void; end(): void; reset(): void }) => void) {
    const server = this;
    this.#listener = Bun.listen<{ id: number; text: string }>({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        open(socket) {
          server.connections += 1;
          socket.data = { id: server.connections, text: "" };
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
    return `http://127.0.0.1:${this.#listener.port}`;
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
      data: (bytes) => {
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

test("what would break out of a head is refused before anything is sent", async () => {
  using server = new WireServer((_, reply) => reply.write(ok("")));
  const client = newClient();
  for (const headers of [{ "x-a": "b\r\nx-c: d" }, { "x a": "b" }, { "x-a:": "b" }, { "x-a": "snow ☃" }]) {
    expect(() => call(client, { url: server.url, headers: headers as never })).toThrow(TypeError);
  }
  await call(client, { url: `${server.url}/a b\r\nx-evil: 1`, headers: { "x-latin": "é" } });
  expect(server.requests).toHaveLength(1);
  expect(server.requests[0]!.text).toStartWith("POST /a%20bx-evil:%201 HTTP/1.1\r\n");
});

describe("connections", () => {
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

  test("that idled for long are not used again", async () => {
    using server = new WireServer((_, reply) => reply.write(ok("x", "keep-alive: timeout=5\r\n")));
    const clock = new ManualClock();
    const client = newClient(clock);
    await call(client, server);
    clock.advance(3_900);
    await call(client, server);
    expect(server.connections).toBe(1);
    clock.advance(4_100);
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
    systemClock.after(60, release.resolve);
    expect((await calling).text).toBe("late");
  });

  test("that are refused are told of", async () => {
    await expect(call(newClient(), { url: "http://127.0.0.1:1" })).rejects.toMatchObject({ code: "ECONNREFUSED" });
    await expect(call(newClient(), { url: "http://no-such-host.invalid" })).rejects.toMatchObject({
      code: "ENOTFOUND",
    });
  });
});

describe("a kept connection that the other side closes as the call arrives", () => {
  /** Answers the first call of each connection, and does this to the next. */
  const staleServer = (onSecond: (reply: { write(text: string): void; end(): void; reset(): void }) => void) => {
    const served = new Set<number>();
    const server: WireServer = new WireServer((_, reply) => {
      const { connection } = server.requests.at(-1)!;
      if (served.has(connection)) return onSecond(reply);
      served.add(connection);
      reply.write(ok(`first of ${connection}`));
    });
    return server;
  };

  test.each([
    ["ends", (reply: { end(): void }) => reply.end()],
    ["is reset", (reply: { reset(): void }) => reply.reset()],
  ])("and that %s gives way to a new one, once", async (_, close) => {
    using server = staleServer(close);
    const client = newClient();
    expect((await call(client, server)).text).toBe("first of 1");
    expect((await call(client, server)).text).toBe("first of 2");
    expect(server.requests.map(({ connection }) => connection)).toEqual([1, 1, 2]);
  });

  test("is no excuse for a second call once a byte of the answer was there", async () => {
    using server = staleServer((reply) => {
      reply.write("HTTP/1.1 2");
      reply.end();
    });
    const client = newClient();
    await call(client, server);
    await expect(call(client, server)).rejects.toThrow("the connection was closed within the answer");
    expect(server.requests).toHaveLength(2);
  });

  test("nor when the other side had time to work on the call", async () => {
    using server = staleServer((reply) => void systemClock.after(150, () => reply.end()));
    const client = newClient();
    await call(client, server);
    await expect(call(client, server)).rejects.toThrow("the connection was closed");
    expect(server.requests).toHaveLength(2);
  });

  test("nor on a new connection", async () => {
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
      data(bytes) {
        if (got === 0) {
          transfer.pause();
          systemClock.after(150, paused.resolve);
        }
        got += bytes.byteLength;
      },
      end: ended.resolve,
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
