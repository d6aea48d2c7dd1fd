import { beforeEach, describe, expect, test } from "bun:test";
import { HeldStream } from "../helpers/held-stream.ts";
import { served } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const hello = [{ role: "user" as const, content: "hi" }];
let answer: () => Response | Promise<Response>;
let held: HeldStream;
let ids = 0;

const { troupe, upstream } = await served(
  () => answer(),
  (url) => ({ providers: { openai: { baseUrl: url } } }),
);
beforeEach(() => {
  held = new HeldStream();
  answer = () => held.response();
});

const nextId = () => `request-${ids++}`;
const completion = (content: string) =>
  jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }] });
const ask = (
  id: string,
  changes: object = {},
  init: { key?: string; headers?: Record<string, string>; name?: string; signal?: AbortSignal; surface?: string } = {},
) =>
  troupe.fetch(`${init.surface ?? "/gateway/v1"}/chat/completions`, {
    method: "POST",
    ...(init.key === undefined ? {} : { key: init.key }),
    ...(init.signal === undefined ? {} : { signal: init.signal }),
    headers: { "content-type": "application/json", [init.name ?? "service-request-id"]: id, ...init.headers },
    body: JSON.stringify({ model: "openai/x", messages: hello, ...changes }),
  });

describe("service-request-id", () => {
  test.each(["service-request-id", "Idempotency-Key"])(
    "%s: a retry gets the same bytes, and one upstream call was made",
    async (name) => {
      const id = nextId();
      const before = upstream.requests.length;
      answer = () => completion("once");
      const first = await ask(id, {}, { name });
      expect(first.headers.get("service-request-id")).toBe(id);
      expect(first.headers.get("idempotent-replayed")).toBeNull();
      const text = await first.text();
      const second = await ask(id, {}, { name });
      expect(second.headers.get("idempotent-replayed")).toBe("true");
      expect(second.headers.get("content-type")).toBe(first.headers.get("content-type"));
      expect(await second.text()).toBe(text);
      expect(upstream.requests.length).toBe(before + 1);
    },
  );

  test("a stream is replayed chunk for chunk, with ids that Last-Event-ID continues from", async () => {
    const id = nextId();
    const streaming = ask(id, { stream: true });
    await upstream.received(upstream.requests.length + 1);
    for (const word of ["a", "b", "c"]) held.fragment(word);
    held.finish();
    const text = await (await streaming).text();
    expect(text).toEndWith("data: [DONE]\n\n");
    const events = [...text.matchAll(/id: (\S+)\ndata: (.*)\n\n/g)].map(([, event, data]) => ({
      event: event!,
      data: data!,
    }));
    expect(events.length).toBe(text.split("\n\n").length - 1);
    const replay = await ask(id, { stream: true });
    expect(replay.headers.get("idempotent-replayed")).toBe("true");
    expect(await replay.text()).toBe(text);
    const rest = await ask(id, { stream: true }, { headers: { "last-event-id": events[1]!.event } });
    expect(await rest.text()).toBe(text.slice(text.indexOf(`id: ${events[2]!.event}\n`)));
  });

  test("a second caller joins the running stream from its first chunk", async () => {
    const id = nextId();
    const before = upstream.requests.length;
    const first = ask(id, { stream: true });
    await upstream.received(before + 1);
    held.fragment("early");
    const one = await first;
    const two = await ask(id, { stream: true });
    expect(two.headers.get("idempotent-replayed")).toBeNull();
    held.fragment("late");
    held.finish();
    const text = await one.text();
    expect(text).toContain("early");
    expect(await two.text()).toBe(text);
    expect(upstream.requests.length).toBe(before + 1);
  });

  test("the client leaves, the upstream runs on, and the retry gets the whole answer", async () => {
    const id = nextId();
    const before = upstream.requests.length;
    const leaving = new AbortController();
    const first = ask(id, { stream: true }, { signal: leaving.signal });
    await upstream.received(before + 1);
    held.fragment("one");
    const response = await first;
    await response.body!.getReader().read();
    leaving.abort();
    held.fragment("two");
    held.finish();
    const retry = await (await ask(id, { stream: true })).text();
    expect(retry).toContain('"content":"one"');
    expect(retry).toContain('"content":"two"');
    expect(retry).toEndWith("data: [DONE]\n\n");
    expect(upstream.requests.length).toBe(before + 1);
  });

  test("another body is 422 and must not be retried", async () => {
    const id = nextId();
    answer = () => completion("x");
    await (await ask(id)).text();
    const other = await ask(id, { temperature: 1 });
    expect(other.status).toBe(422);
    expect(other.headers.get("x-should-retry")).toBe("false");
    expect(await other.json()).toMatchObject({
      error: { code: "idempotency_key_reused", type: "invalid_request_error" },
    });
  });

  test("the order of keys does not matter", async () => {
    const id = nextId();
    answer = () => completion("x");
    const post = (body: string) =>
      troupe.post("/gateway/v1/chat/completions", body, { headers: { "service-request-id": id } });
    await (await post('{"model":"openai/x","messages":[{"role":"user","content":"a"}]}')).text();
    const again = await post('{ "messages": [{"content":"a","role":"user"}], "model": "openai/x" }');
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  test("an upstream error frees the id and comes through byte for byte", async () => {
    const id = nextId();
    answer = () => new Response("busy", { status: 429, headers: { "content-type": "text/plain" } });
    const refused = await ask(id);
    expect([refused.status, await refused.text()]).toEqual([429, "busy"]);
    answer = () => completion("now");
    const retry = await ask(id);
    expect(retry.status).toBe(200);
    expect(retry.headers.get("idempotent-replayed")).toBeNull();
  });

  test.each([
    ["in order", "end"],
    ["by a reset", "terminate"],
  ] as const)(
    "a call that was read as its kept connection ended, %s, is not made again but by a retry",
    async (_, end) => {
      const message = { role: "assistant", content: "yes" };
      const body = JSON.stringify({ choices: [{ index: 0, message, finish_reason: "stop" }] });
      const breaks = [false, true, false];
      const taken: string[] = [];
      using server = Bun.listen({
        hostname: "127.0.0.1",
        port: 0,
        socket: {
          data(socket, bytes) {
            taken.push(socket.remotePort.toString());
            if (breaks[taken.length - 1] === true) socket[end]();
            else socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`);
            expect(bytes.toString()).toContain("POST /chat/completions ");
          },
        },
      });
      await using own = await Troupe.start({
        providers: { openai: { baseUrl: `http://127.0.0.1:${server.port}` } },
      });
      const post = (id: string) =>
        own.post(
          "/gateway/v1/chat/completions",
          { model: "openai/x", messages: hello },
          { headers: { "service-request-id": id } },
        );
      expect((await post("first")).status).toBe(200);
      const broken = await post("second");
      expect([broken.status, broken.headers.get("x-should-retry")]).toEqual([503, "true"]);
      expect(await broken.json()).toMatchObject({ error: { code: "upstream_unreachable" } });
      // The connection was kept, and the call not sent over another one.
      expect(taken).toEqual([taken[0]!, taken[0]!]);
      const retried = await post("second");
      expect([retried.status, retried.headers.get("idempotent-replayed")]).toEqual([200, null]);
      expect(taken).toHaveLength(3);
    },
  );

  test("one tenant's id is nothing to another's, and surfaces are apart", async () => {
    const id = nextId();
    answer = () => completion("mine");
    await (await ask(id)).text();
    const before = upstream.requests.length;
    const other = await troupe.createKey({ name: "other", tier: "pro" });
    const theirs = await ask(id, {}, { key: other });
    expect(theirs.headers.get("idempotent-replayed")).toBeNull();
    expect(upstream.requests.length).toBe(before + 1);
    const persona = await ask(id, { model: "troupe/tutor" }, { surface: "/v1" });
    expect(persona.status).toBe(200);
    expect(persona.headers.get("idempotent-replayed")).toBeNull();
  });

  test.each(["", " ", "two words", "x".repeat(256)])("%j is 400", async (id) => {
    const response = await ask(id);
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: "invalid_value", param: "service-request-id" } });
  });
});
