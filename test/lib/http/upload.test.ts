/** Bodies that are sent as they come, and answers whose head tells of a body that is not there. */
import { afterEach, expect, test } from "bun:test";
import fc from "fast-check";
import { HttpClient, type HttpRequest } from "../../../src/lib/http/client.ts";
import { FetchTransport } from "../../../src/lib/http/fetch-transport.ts";
import type { HeaderFields } from "../../../src/lib/http/parser.ts";
import { IterableSource, type Source } from "../../../src/lib/streams/flow.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { runs } from "../../helpers/long-form.ts";

type Answer = { status: number; headers: HeaderFields; body: Buffer };

const clients: HttpClient[] = [];
afterEach(() => {
  for (const client of clients.splice(0)) client.close();
});

function newClient(): HttpClient {
  const client = new HttpClient(systemClock);
  clients.push(client);
  return client;
}

function call(
  request: Partial<HttpRequest> & { url: string },
  client: HttpClient | FetchTransport = newClient(),
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const answer = { parts: [] as Buffer[], status: 0, headers: undefined as HeaderFields | undefined };
    client.send(
      { method: "POST", headers: {}, ...request },
      {
        connected() {},
        head: (status, headers) => Object.assign(answer, { status, headers }),
        push: (bytes) => void answer.parts.push(Buffer.from(bytes)),
        end: () => resolve({ status: answer.status, headers: answer.headers!, body: Buffer.concat(answer.parts) }),
        fail: reject,
      },
      5000,
    );
  });
}

const echo = () =>
  Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: async (request) =>
      new Response(await request.bytes(), {
        headers: {
          "x-length": request.headers.get("content-length") ?? "none",
          "x-method": request.method,
        },
      }),
  });

const bodies = fc.array(fc.uint8Array({ maxLength: 70_000, size: "max" }), { maxLength: 12 });

test.each([
  ["our own client", () => newClient()],
  ["fetch", () => new FetchTransport()],
])("%s sends a body as it came, whatever its pieces, with its length or in chunks", async (_, make) => {
  const server = echo();
  const client = make();
  await fc.assert(
    fc.asyncProperty(
      bodies,
      fc.boolean(),
      fc.constantFrom("POST", "PUT", "PATCH", "DELETE"),
      async (parts, told, method) => {
        const whole = Buffer.concat(parts);
        const source = new IterableSource<Uint8Array>(parts, undefined);
        const body = { source, ...(told && { length: whole.length }) };
        const answer = await call({ url: `${server.url}x`, method, body }, client);
        expect(answer.body.equals(whole)).toBe(true);
        expect(answer.headers.get("x-method")).toBe(method);
      },
    ),
    { numRuns: runs(40) },
  );
  await server.stop(true);
});

test("a body that is another than it said breaks the call", async () => {
  const server = echo();
  const parts = [Buffer.alloc(10), Buffer.alloc(10)];
  for (const [length, message] of [
    [21, "shorter"],
    [19, "longer"],
  ] as const) {
    const body = { source: new IterableSource<Uint8Array>(parts, undefined), length };
    await expect(call({ url: `${server.url}x`, body })).rejects.toThrow(
      `the request's body is ${message} than it said`,
    );
  }
  await server.stop(true);
});

/** Gives pieces for as long as it is asked, and counts them. */
class Endless implements Source<Uint8Array> {
  given = 0;
  #isPaused = false;
  readonly cancelled = Promise.withResolvers<void>();
  #push: ((bytes: Uint8Array) => void) | undefined;

  flow(sink: { push(bytes: Uint8Array): void }): void {
    this.#push = (bytes) => sink.push(bytes);
    this.#give();
  }
  pause(): void {
    this.#isPaused = true;
  }
  resume(): void {
    this.#isPaused = false;
    setImmediate(() => this.#give());
  }
  cancel(): void {
    this.#push = undefined;
    this.cancelled.resolve();
  }
  #give(): void {
    while (!this.#isPaused && this.#push !== undefined) {
      this.given += 1;
      this.#push(Buffer.alloc(64 * 1024));
    }
  }
}

test("an upstream that does not read holds the body back, and one that answers early ends it", async () => {
  const opened = Promise.withResolvers<{ write(text: string): void }>();
  const listener = Bun.listen({
    port: 0,
    hostname: "127.0.0.1",
    socket: {
      open(socket) {
        socket.pause();
        opened.resolve({ write: (text) => void socket.write(text) });
      },
      data: () => {},
    },
  });
  const source = new Endless();
  const calling = call({ url: `http://127.0.0.1:${listener.port}/`, body: { source } });
  const server = await opened.promise;
  let before = -1;
  for (let still = 0; still < 100; ) {
    await new Promise(setImmediate);
    still = source.given === before ? still + 1 : 0;
    before = source.given;
  }
  expect(source.given * 64).toBeLessThan(32 * 1024);
  server.write("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig");
  const answer = await calling;
  expect([answer.status, String(answer.body)]).toEqual([413, "big"]);
  await source.cancelled.promise;
  listener.stop(true);
});

test("the answer to HEAD has no body, and its fields can be listed", async () => {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch: () =>
      new Response("hello", {
        headers: [
          ["X-One", "1"],
          ["set-cookie", "a=b"],
          ["set-cookie", "c=d"],
        ],
      }),
  });
  const client = newClient();
  const head = await call({ url: `${server.url}x`, method: "HEAD" }, client);
  expect([head.status, head.body.length, head.headers.get("content-length")]).toEqual([200, 0, "5"]);
  const fields = new Map((await call({ url: `${server.url}x`, method: "GET" }, client)).headers.entries());
  expect(fields.get("x-one")).toBe("1");
  expect(fields.get("set-cookie")).toBe("a=b, c=d");
  await server.stop(true);
});
