/** A client that goes away, in every phase of a call and on both surfaces: its upstream call must end with it. */
import { beforeEach, describe, expect, test } from "bun:test";
import { connect, type Socket } from "node:net";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import type { RecordedRequest } from "../helpers/upstream-server.ts";

let held: HeldStream;
let answer: (request: RecordedRequest) => Response | Promise<Response>;

const { troupe, upstream } = await served(
  (request) => answer(request),
  (url) => ({
    providers: { openai: { baseUrl: url }, second: { dialect: "openai", baseUrl: `${url}/second` } },
  }),
);
troupe.setTargets("troupe/tutor", ["openai/x", "second/x"]);
beforeEach(() => {
  held = new HeldStream();
  answer = () => held.response();
});

/** A client that reads what comes and can hang up. */
class Caller {
  readonly #socket: Socket;
  #text = "";
  #wake = () => {};

  constructor(...pieces: string[]) {
    const { port } = new URL(troupe.url);
    this.#socket = connect(Number(port), "127.0.0.1", () => {
      for (const piece of pieces) this.#socket.write(piece);
    });
    this.#socket.on("data", (part) => {
      this.#text += part.toString("latin1");
      this.#wake();
    });
    this.#socket.on("error", () => {});
  }

  async sees(part: string): Promise<void> {
    while (!this.#text.includes(part)) await new Promise<void>((wake) => (this.#wake = wake));
  }

  /** Without a word: a process that was killed, a cable that was pulled. */
  hangUp(): void {
    this.#socket.resetAndDestroy();
  }
}

const surfaces = [
  ["orchestrator", "/v1/chat/completions", "troupe/tutor"],
  ["gateway", "/gateway/v1/chat/completions", "openai/x"],
] as const;

/** Resolves once nothing of the call is left. */
async function allEnded(): Promise<void> {
  while (troupe.server.services.running > 0) await new Promise((resolve) => setImmediate(resolve));
}

describe.each(surfaces)("%s", (surface, path, model) => {
  const request = (changes: object = {}, headers = "") => {
    const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }], ...changes });
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${troupe.key}\r\n${headers}`;
    return [`${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`, body] as const;
  };
  /** The caller, once its request has come upstream, and a promise that the upstream saw it leave. */
  async function calling(...pieces: string[]): Promise<{ caller: Caller; gone: Promise<void> }> {
    const before = upstream.requests.length;
    const caller = new Caller(...pieces);
    await upstream.received(before + 1);
    const { signal } = upstream.last;
    const gone = new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener("abort", () => resolve());
    });
    return { caller, gone };
  }

  test("while it sends its request: nothing is called", async () => {
    const before = upstream.requests.length;
    const [head, body] = request();
    const caller = new Caller(head, body.slice(0, 10));
    while (troupe.server.services.running === 0) await new Promise((resolve) => setImmediate(resolve));
    caller.hangUp();
    await allEnded();
    expect(upstream.requests.length).toBe(before);
  });

  test.each([{ stream: true }, { stream: false }])(
    "while the upstream thinks, %j: no other model is asked",
    async (how) => {
      answer = () => new Promise<Response>(() => {});
      const { caller, gone } = await calling(...request(how));
      const before = upstream.requests.length;
      caller.hangUp();
      await gone;
      await allEnded();
      expect(upstream.requests.length).toBe(before);
    },
  );

  test("while a plain answer comes in", async () => {
    answer = () => new Response(held.body, { headers: { "content-type": "application/json" } });
    const { caller } = await calling(...request());
    held.send('{"choices":[');
    caller.hangUp();
    await held.cancelled;
    await allEnded();
  });

  test("before the first fragment", async () => {
    const { caller } = await calling(...request({ stream: true }));
    held.send(": still thinking\n\n");
    caller.hangUp();
    await held.cancelled;
    await allEnded();
  });

  test("in the middle of the stream", async () => {
    const { caller } = await calling(...request({ stream: true }));
    held.fragment("one");
    await caller.sees('"content":"one"');
    caller.hangUp();
    await held.cancelled;
    await allEnded();
  });

  test("between the last fragment and the upstream's end", async () => {
    const { caller } = await calling(...request({ stream: true }));
    held.fragment("one");
    await caller.sees('"content":"one"');
    // An end is passed on with the upstream's, as another may follow: the caller never sees this one.
    held.event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] });
    caller.hangUp();
    await held.cancelled;
    await allEnded();
  });

  test("with a Last-Event-ID that belongs to nothing: that alone keeps no call alive", async () => {
    const { caller } = await calling(...request({ stream: true }, "Last-Event-ID: abc-7\r\n"));
    held.fragment("one");
    await caller.sees('"role":"assistant"');
    caller.hangUp();
    await held.cancelled;
    await allEnded();
  });

  test("with a service-request-id: the call runs on, and whoever comes back gets all of it", async () => {
    const header = `service-request-id: ${surface}-left\r\n`;
    const { caller } = await calling(...request({ stream: true }, header));
    const before = upstream.requests.length;
    held.fragment("one");
    await caller.sees('"content":"one"');
    caller.hangUp();
    await allEnded();
    held.fragment("two");
    held.finish();
    const again = new Caller(...request({ stream: true }, header));
    await again.sees("data: [DONE]");
    await again.sees('"content":"two"');
    again.hangUp();
    expect(upstream.requests.length).toBe(before);
  });
});

test("nothing of it is left: no open stream, no held id, no running request", async () => {
  const { services } = troupe.server;
  expect(services.running).toBe(0);
  const metrics = await services.metrics.render();
  for (const [, open] of metrics.matchAll(/^troupe_active_streams\{[^}]*\} (\d+)$/gm)) expect(open).toBe("0");
});
