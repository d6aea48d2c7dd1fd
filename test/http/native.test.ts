/**
 * Calls whose upstream speaks the client's format: bodies and events pass byte for byte but for what must change, and all that a
 * surface promises holds for them too.
 */
import { afterAll, describe, expect, test } from "bun:test";
import fc from "fast-check";
import { gateway } from "../../src/call/plan/gateway.ts";
import { orchestrator } from "../../src/call/plan/orchestrator.ts";
import type { Route } from "../../src/http/routes.ts";
import { completionRoute, surfaceRoutes } from "../../src/http/surface-routes.ts";
import type { RemoteProvider } from "../../src/providers/provider.ts";
import { providers } from "../../src/providers/registry.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { runs } from "../helpers/long-form.ts";
import { event, notes, notesRoute, patches } from "../helpers/notes.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse, sseResponse } from "../helpers/upstream-server.ts";

let answer: () => Response | Promise<Response>;
const own: Readonly<Record<string, readonly Route[]>> = { ...surfaceRoutes };
const speaker = providers.find(({ kind }) => kind === "remote") as RemoteProvider & { native?: unknown };
const before = speaker.native;

Object.assign(speaker, { native: (format: string) => (format === "notes" ? notesRoute : undefined) });
const mounted = (surface: typeof gateway) => completionRoute(surface, "/v1/notes", notes, () => ({ hide: true }));
Object.assign(surfaceRoutes, {
  gateway: [...own["gateway"]!, mounted(gateway)],
  orchestrator: [...own["orchestrator"]!, mounted(orchestrator)],
});
afterAll(() => {
  Object.assign(surfaceRoutes, own);
  Object.assign(speaker, { native: before });
});
const { troupe, upstream } = await served(
  () => answer(),
  (baseUrl) => ({ providers: { openai: { baseUrl }, groq: { baseUrl, dialect: "groq" } } }),
);

const ask = (body: object | string, headers: Record<string, string> = {}, path = "/gateway/v1/notes") =>
  troupe.post(path, typeof body === "string" ? body : { model: "openai/x", ask: "hi", ...body }, { headers });
const metric = async (start: string) =>
  (await (await troupe.fetch("/metrics")).text()).split("\n").find((line) => line.startsWith(start));

const words = ["a", "b", "c\n", "d", "é", "f"];
const stream =
  event("begin", { id: "up-1", by: "x" }) +
  ": a comment\n\n" +
  words.map((text) => event("word", { text })).join("") +
  'event: sparkle\ndata: {"new":  1.0}\ndata:\n\n' +
  event("word", { text: "g" }) +
  event("close", { words: 7, of: 1e3 });

describe("a plain call", () => {
  test("sends the caller's body as it was written, but for the model, and gives the answer as it came", async () => {
    const given = '{ "id":"up-1", "note" : "hello", "words":3, "score": 1.0, "big": 12345678901234567890 }';
    answer = () => new Response(given, { headers: { "content-type": "application/json; v=2", "x-secret": "1" } });
    const body = '{"odd": 1.0, "ask":"hi", "model":"openai/x", "big":12345678901234567890}';
    const response = await ask(body, { "notes-beta": "one,two", "x-other": "1" });
    expect([response.status, await response.text()]).toEqual([200, given]);
    expect(response.headers.get("content-type")).toBe("application/json; v=2");
    expect(response.headers.get("x-secret")).toBeNull();
    expect(upstream.last.text).toBe(body.replace("openai/x", "x"));
    expect(upstream.last.path).toBe("/notes");
    expect(upstream.last.headers.get("notes-beta")).toBe("one,two");
    expect(upstream.last.headers.get("x-other")).toBeNull();
    // The account's own key, never the caller's.
    expect(upstream.last.headers.get("authorization")).toBe("Bearer key-of-openai");
  });

  test("counts what was used, and stores the answer under the upstream's id", async () => {
    const used = () => metric('gen_ai_client_token_usage_sum{gen_ai_token_type="output",gen_ai_provider_name="openai"');
    answer = () => jsonResponse({ id: "up-kept", note: "hello", words: 5 });
    await ask({});
    const earlier = Number((await used())!.split(" ").at(-1));
    await (await ask({ keep: true })).text();
    expect(Number((await used())!.split(" ").at(-1))).toBe(earlier + 5);
    const calls = await (await troupe.fetch("/metrics")).text();
    expect(calls).toMatch(/^gen_ai_server_request_duration_seconds_count\{surface="gateway",.*,format="notes"[,}]/m);
    const kept = await troupe.fetch("/gateway/v1/chat/completions/up-kept");
    expect(await kept.json()).toMatchObject({ id: "up-kept", choices: [{ message: { content: "hello" } }] });
  });

  test("with a large body passes its strings on", async () => {
    answer = () => jsonResponse({ id: "up-1", note: "hello" });
    const big = "é\\n".repeat(300_000);
    const body = `{"odd":1.0,"model":"openai/x","ask":"${big}"}`;
    expect((await ask(body)).status).toBe(200);
    expect(upstream.last.text).toBe(body.replace("openai/x", "x"));
  });

  test("gives an upstream's error byte for byte, also one within a 200", async () => {
    answer = () => new Response('{"wrong": "busy" }', { status: 503, headers: { "retry-after": "7" } });
    const busy = await ask({});
    expect([busy.status, await busy.text(), busy.headers.get("retry-after")]).toEqual([503, '{"wrong": "busy" }', "7"]);
    expect(busy.headers.get("x-troupe-error-source")).toBe("upstream");
    answer = () => new Response('{"wrong": "inside" }');
    const inside = await ask({});
    expect([inside.status, await inside.text()]).toEqual([429, '{"wrong": "inside" }']);
    answer = () => new Response("{}");
    const neither = await ask({});
    expect([neither.status, await neither.json()]).toEqual([503, { wrong: "openai sent no note.", at: "" }]);
  });

  test("to an upstream of another format is translated, and so are its errors", async () => {
    answer = () => jsonResponse({ choices: [{ index: 0, message: { content: "hello" }, finish_reason: "stop" }] });
    const response = await ask({ model: "groq/x" });
    expect(await response.json()).toMatchObject({ by: "groq/x", note: "hello" });
    answer = () => jsonResponse({ error: { message: "No such model." } }, 404);
    const calls = upstream.requests.length;
    const refused = await ask({ model: "groq/x", tune: "C major" });
    expect([refused.status, await refused.json()]).toEqual([400, { wrong: "No tunes there.", at: "tune" }]);
    expect(upstream.requests.length).toBe(calls);
    const wrong = await ask({ model: "groq/x" });
    expect([wrong.status, await wrong.json()]).toEqual([404, { wrong: "No such model.", status: 404 }]);
  });
});

describe("a stream", () => {
  test("passes byte for byte, however it is cut, with events of unknown types and comments", async () => {
    const bytes = Buffer.from(stream);
    const cuts = fc.uniqueArray(fc.integer({ min: 1, max: bytes.length - 1 }), { maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(cuts, fc.boolean(), async (places, keep) => {
        const ends = [0, ...places.sort((a, b) => a - b), bytes.length];
        const pieces = ends.slice(1).map((end, at) => bytes.subarray(ends[at], end));
        answer = () => sseResponse(pieces);
        const response = await ask({ live: true, keep });
        expect(await response.text()).toBe(stream);
      }),
      { numRuns: runs(60) },
    );
  });

  test("with other line ends, or ids of its own, has its events in ours", async () => {
    const expected = stream.replace(": a comment\n\n", "").replace("data:\n\n", "data: \n\n");
    for (const given of [stream.replaceAll("\n", "\r\n"), stream.replaceAll("event: word", "id: 7\nevent: word")]) {
      answer = () => sseResponse([...given]);
      const text = await (await ask({ live: true })).text();
      expect(text.replace(": a comment\n\n", "")).toBe(expected);
    }
  });

  test("with a service-request-id is kept with our ids, replayed and resumed", async () => {
    answer = () => sseResponse([stream]);
    const id = { "service-request-id": "native-1" };
    const text = await (await ask({ live: true }, id)).text();
    expect(text.replaceAll(/^id: \S+\n/gm, "")).toBe(stream);
    expect(text.match(/^id: /gm)).toHaveLength(stream.match(/\n\n/g)!.length);
    const calls = upstream.requests.length;
    const again = await ask({ live: true }, id);
    expect([again.headers.get("idempotent-replayed"), await again.text()]).toEqual(["true", text]);
    const events = text.split(/(?<=\n\n)/);
    const lastId = /^id: (\S+)/.exec(events[3]!)![1]!;
    const rest = await ask({ live: true }, { ...id, "last-event-id": lastId });
    expect(await rest.text()).toBe(events.slice(4).join(""));
    expect(upstream.requests.length).toBe(calls);
  });

  test("is stored whole, with its counts", async () => {
    answer = () => sseResponse([stream.replace("up-1", "up-stream")]);
    await (await ask({ live: true, keep: true })).text();
    const kept = await troupe.fetch("/gateway/v1/chat/completions/up-stream");
    expect(await kept.json()).toMatchObject({
      choices: [{ message: { content: "abc\ndéfg" } }],
      usage: { completion_tokens: 7 },
    });
  });

  const opening = event("begin", { id: "up-1" }) + event("word", { text: "a" });
  test.each<[string, string, object]>([
    ["ends without its terminal event", "", { told: "openai ended its stream before the answer was finished." }],
    ["has an event that can't be read", "event: word\ndata: {\n\n", { told: "openai sent an event that is no JSON." }],
  ])("that %s ends with the format's own error event", async (_what, rest, told) => {
    answer = () => sseResponse([opening, rest]);
    const text = await (await ask({ live: true })).text();
    expect(text).toBe(opening + event("wrong", { ...told, after: "word" }));
  });

  test("that its upstream ends with an error has the upstream's own words on the gateway alone", async () => {
    const failing = 'event: wrong\ndata: {"wrong":"worn out",  "by":"openai"}\n\n';
    answer = () => sseResponse([opening + failing]);
    expect(await (await ask({ live: true })).text()).toBe(opening + failing);
    troupe.setTargets("troupe/guide", ["openai/x"]);
    const persona = await (await ask({ live: true, model: "troupe/guide" }, {}, "/v1/notes")).text();
    expect(persona).toStartWith(opening);
    expect(persona.slice(opening.length)).toBe(
      event("wrong", { told: "The model is not available at the moment. Try again later.", after: "word" }),
    );
  });

  test("whose first events are an error is that error", async () => {
    answer = () => sseResponse([event("begin", { id: "up-1" }), 'event: wrong\ndata: {"wrong":"full"}\n\n']);
    const response = await ask({ live: true });
    expect([response.status, await response.text()]).toEqual([429, '{"wrong":"full"}']);
  });

  test("is cancelled upstream when its client goes, and passes each event as it comes", async () => {
    const held = new HeldStream();
    answer = () => held.response();
    const asked = ask({ live: true });
    held.send(opening);
    const response = await asked;
    const reader = response.body!.getReader();
    let text = "";
    const until = async (end: string) => {
      while (!text.endsWith(end)) text += new TextDecoder().decode((await reader.read()).value);
    };
    await until(opening);
    for (const name of ["word", "sparkle", "word", "word"]) {
      held.send(event(name, { text: name }));
      await until(event(name, { text: name }));
    }
    await reader.cancel();
    await held.cancelled;
  });
});

describe("a persona", () => {
  test("patches the caller's own body", async () => {
    answer = () => jsonResponse({ id: "up-1", note: "hello" });
    troupe.setTargets("troupe/guide", ["openai/x"]);
    patches.length = 0;
    const body = '{"odd":1.0,"ask":"hi","model":"troupe/guide"}';
    const response = await ask(body, {}, "/v1/notes");
    expect(await response.text()).toBe('{"id":"up-1","note":"hello"}');
    const [change] = patches;
    expect(change).toMatchObject({ model: "x", before: [{ role: "system" }], fields: { store: false } });
    expect(change!.fields).not.toHaveProperty("stream");
    const sent = upstream.last.json as Record<string, string>;
    expect(sent["ask"]).toEndWith(" hi");
    expect(upstream.last.text).toContain('"odd":1.0');
  });

  test("whose change the format can't say is translated", async () => {
    const persona = troupe.server.services.personas.list().find(({ id }) => id === "troupe/guide")!;
    const { personas } = troupe.server.services;
    const others = personas.list();
    const changed = { ...persona, targets: ["openai/x"], responseFormat: { type: "json_object" as const } };
    personas.replace(others.map((one) => (one.id === persona.id ? changed : one)));
    answer = () => jsonResponse({ choices: [{ index: 0, message: { content: "{}" }, finish_reason: "stop" }] });
    const response = await ask({ model: "troupe/guide" }, {}, "/v1/notes");
    expect(await response.json()).toMatchObject({ note: "{}", by: "troupe/guide" });
    expect(upstream.last.path).toBe("/chat/completions");
    personas.replace(others);
  });

  test("falls back to an upstream of another format, which is translated", async () => {
    troupe.setTargets("troupe/guide", ["openai/x", "groq/y"]);
    answer = () =>
      upstream.last.path === "/notes"
        ? jsonResponse({ wrong: "busy" }, 503)
        : jsonResponse({ choices: [{ index: 0, message: { content: "hello" }, finish_reason: "stop" }] });
    const response = await ask({ model: "troupe/guide" }, {}, "/v1/notes");
    expect(await response.json()).toMatchObject({ note: "hello", by: "troupe/guide" });
  });
});
