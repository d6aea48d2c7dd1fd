/**
 * A client format that is not chat completions, mounted beside it: whatever differs comes from its protocol, and all that a
 * surface promises (keys, limits, replay, resuming, faults) holds for it.
 */
import { afterAll, expect, test } from "bun:test";
import { gateway } from "../../src/call/plan/gateway.ts";
import { orchestrator } from "../../src/call/plan/orchestrator.ts";
import type { Route } from "../../src/http/routes.ts";
import { completionRoute, surfaceRoutes } from "../../src/http/surface-routes.ts";
import { formatSseEvent } from "../../src/lib/streams/sse.ts";
import { ApiError } from "../../src/protocols/errors.ts";
import type { EventEncoder, Protocol } from "../../src/protocols/protocol.ts";
import { HeldStream } from "../helpers/held-stream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { served } from "../helpers/served.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const json = (name: string, value: object) => formatSseEvent(JSON.stringify(value), name);

/** `{"who": model, "ask": text, "live": stream, "loud": …, "list": whether a stream is a JSON list}`, the key in a header or in the query. */
const notes: Protocol<{ readonly loud: boolean; readonly list: boolean }> = {
  name: "notes",
  answerIdPrefix: "note_",
  keepAlive: json("wait", {}),
  credentials: ({ request, query }) => request.headers.get("x-notes-key") ?? query.get("key") ?? undefined,
  parse({ parsed }) {
    const { who, ask, live, loud, list } = parsed;
    if (typeof who !== "string") throw ApiError.missingField("who");
    if (typeof ask !== "string") throw ApiError.invalidValue("ask", "ask must be a string.");
    const request = { model: who, messages: [{ role: "user" as const, content: ask }], stream: live === true };
    return { request, identity: ["notes", parsed], options: { loud: loud === true, list: list === true } };
  },
  completion: ({ choices }, { id, model }, { loud }) => {
    const note = choices[0]!.message.content!;
    return { id, by: model, note: loud ? note.toUpperCase() : note };
  },
  streamType: ({ list }) => (list ? "application/json" : undefined),
  param: (inner) => (inner === "model" ? "who" : inner),
  encoder({ id }, { loud, list }) {
    let words = 0;
    if (list) return listEncoder();
    return {
      push({ choices, usage }, events) {
        const text = choices[0]?.delta.content;
        if (words === 0) events.push(json("begin", { id }));
        if (text) events.push(json("word", { text: loud ? text.toUpperCase() : text }));
        if (usage != null) events.push(json("words", { counted: words }));
        words += 1;
      },
      end: (events) => void events.push(json("close", {})),
      fault: (error, events) => void events.push(json("wrong", { told: error["message"] }), json("close", {})),
    };
  },
  responseHeaders: (requestId) => ({ "note-id": requestId }),
  error: (error) => ({ wrong: error.message, at: error.param }),
  upstreamError: ({ message }, status) => ({ wrong: message, status }),
};

function listEncoder(): EventEncoder {
  let begun = false;
  const item = (value: object) => {
    const text = `${begun ? "," : "["}${JSON.stringify(value)}`;
    begun = true;
    return text;
  };
  return {
    push({ choices }, events) {
      const text = choices[0]?.delta.content;
      if (text) events.push(item({ text }));
    },
    end: (events) => void events.push("]"),
    fault: (error, events) => void events.push(`${item({ told: error["message"] })}]`),
  };
}

let answer: () => Response | Promise<Response>;
const clock = new ManualClock();
const own: Readonly<Record<string, readonly Route[]>> = { ...surfaceRoutes };

const mounted = (surface: typeof gateway) => completionRoute(surface, "/v1/notes", notes, () => ({ hide: true }));
Object.assign(surfaceRoutes, {
  gateway: [...own["gateway"]!, mounted(gateway)],
  orchestrator: [...own["orchestrator"]!, mounted(orchestrator)],
});
afterAll(() => void Object.assign(surfaceRoutes, own));
const { troupe, upstream } = await served(
  () => answer(),
  (baseUrl) => ({ providers: { openai: { baseUrl } }, clock }),
);

const ask = (body: object, headers: Record<string, string> = {}, path = "/gateway/v1/notes") =>
  troupe.post(
    path,
    { who: "openai/x", ask: "hi", ...body },
    { key: null, headers: { "x-notes-key": troupe.key, ...headers } },
  );
/** @returns all that a broken stream says: its connection ends a moment of the clock behind its last event */
async function brokenText(response: Response): Promise<string> {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return text;
    text += value;
    if (!text.endsWith(json("close", {}))) continue;
    const ending = reader.read();
    for (let isOver = false; !isOver; clock.advance(250)) {
      const turn = new Promise<undefined>((resolve) => setImmediate(resolve));
      isOver = (await Promise.race([ending, turn])) !== undefined;
    }
    return text + ((await ending).value ?? "");
  }
}
const said = (content: string) =>
  jsonResponse({ choices: [{ index: 0, message: { role: "assistant", content }, finish_reason: "stop" }] });
const begin = (text: string) => expect(text).toMatch(/^event: begin\ndata: \{"id":"note_[^"]+"\}\n\n/);
const behindBegin = (text: string) => text.slice(text.indexOf("\n\n") + 2);
const word = (text: string) => json("word", { text });

test("a plain answer is written by the protocol, for a request that it read", async () => {
  answer = () => said("hello");
  const response = await ask({ loud: true });
  expect(await response.json()).toEqual({ id: expect.stringMatching(/^note_/), by: "openai/x", note: "HELLO" });
  expect(upstream.last.json).toMatchObject({ model: "x", messages: [{ role: "user", content: "hi" }] });
});

test.each([false, true])("a stream has the names and the terminal event of the format (loud: %p)", async (loud) => {
  const held = new HeldStream();
  answer = () => held.response();
  const asked = ask({ live: true, loud });
  for (const text of ["a", "b", "c", "d\n", "e"]) held.fragment(text);
  held.finish();
  const text = await (await asked).text();
  begin(text);
  const words = ["a", "b", "c", "d\n", "e"].map((one) => word(loud ? one.toUpperCase() : one)).join("");
  expect(behindBegin(text).replace(/event: words\n.*\n\n/, "")).toBe(`${words}${json("close", {})}`);
});

test("a kept stream is replayed and resumed with its names, and is another call than chat's", async () => {
  const held = new HeldStream();
  answer = () => held.response();
  const id = { "service-request-id": "of-notes" };
  const asked = ask({ live: true }, id);
  for (const text of ["a", "b", "c"]) held.fragment(text);
  held.finish();
  const text = await (await asked).text();
  expect(text).toMatch(/^id: \S+-0\nevent: begin\ndata: /);
  expect(text).toEndWith(json("close", {}));
  const calls = upstream.requests.length;
  expect(await (await ask({ live: true }, id)).text()).toBe(text);
  const events = text.split(/(?<=\n\n)/);
  const lastId = /^id: (\S+)/.exec(events[1]!)![1]!;
  const rest = await ask({ live: true }, { ...id, "last-event-id": lastId });
  expect(await rest.text()).toBe(events.slice(2).join(""));
  const messages = [{ role: "user", content: "hi" }];
  const other = await troupe.post(
    "/gateway/v1/chat/completions",
    { model: "openai/x", messages, stream: true },
    { headers: id },
  );
  expect(other.status).toBe(422);
  expect(upstream.requests.length).toBe(calls);
});

test("the key is where the format has it, and nowhere else", async () => {
  answer = () => said("hello");
  const wrong =
    "Missing or invalid API key. Send it as 'Authorization: Bearer <API_KEY>', or in x-api-key, x-goog-api-key or api-key.";
  const bearer = await troupe.post("/gateway/v1/notes", { who: "openai/x", ask: "hi" });
  expect([bearer.status, await bearer.json()]).toEqual([401, { wrong, at: "" }]);
  const inQuery = await troupe.post(
    `/gateway/v1/notes?key=${troupe.key}`,
    { who: "openai/x", ask: "hi" },
    { key: null },
  );
  expect(inQuery.status).toBe(200);
  const inChat = await troupe.post(
    "/gateway/v1/chat/completions",
    {},
    { key: null, headers: { "x-notes-key": troupe.key } },
  );
  expect(inChat.status).toBe(401);
});

test("errors are in the format's own form: its own paths, the surface's, the upstream's", async () => {
  const bad = await ask({ ask: 1 });
  expect([bad.status, await bad.json()]).toEqual([400, { wrong: "ask must be a string.", at: "ask" }]);
  const method = await troupe.fetch("/gateway/v1/notes", { key: null, headers: { "x-notes-key": troupe.key } });
  expect([method.status, await method.json()]).toEqual([405, { wrong: "GET is not allowed here; use POST.", at: "" }]);
  const notJson = await troupe.post("/gateway/v1/notes", "who?", {
    key: null,
    headers: { "x-notes-key": troupe.key, "content-type": "text/plain" },
  });
  expect([notJson.status, await notJson.json()]).toMatchObject([415, { wrong: expect.stringContaining("text/plain") }]);
  for (const response of [bad, method, notJson]) {
    expect(response.headers.get("note-id")).toBe(response.headers.get("x-request-id"));
  }
  for (const path of ["/gateway/v1/notes/x", "/v1/notes/x", "/v1/notes/"]) {
    const lost = await ask({}, {}, path);
    const meant = path.startsWith("/gateway") ? "/gateway/v1/notes" : "/v1/notes";
    const wrong = `There is nothing at POST ${path}. Did you mean ${meant}?`;
    expect([lost.status, await lost.json()]).toEqual([404, { wrong, at: "" }]);
  }
  const beside = await ask({}, {}, "/gateway/v1/notesx");
  expect(await beside.json()).toMatchObject({ error: { code: "not_found" } });
  const unknown = await ask({ who: "nobody/x" });
  expect([unknown.status, await unknown.json()]).toMatchObject([400, { at: "who" }]);
  answer = () => jsonResponse({ error: { message: "No such model." } }, 404, { "x-request-id": "up-1" });
  const theirs = await ask({});
  expect([theirs.status, await theirs.json()]).toEqual([404, { wrong: "No such model.", status: 404 }]);
  expect(theirs.headers.get("x-troupe-error-source")).toBe("upstream");
  expect(theirs.headers.get("content-type")).toStartWith("application/json");
  const persona = await ask({ who: "troupe/nobody" }, {}, "/v1/notes");
  expect([persona.status, await persona.json()]).toEqual([
    404,
    { wrong: "The model 'troupe/nobody' does not exist.", at: "who" },
  ]);
});

test("a fault within a stream is the format's own event, early and late", async () => {
  const held = new HeldStream();
  answer = () => held.response();
  const asked = ask({ live: true });
  held.fragment("a");
  const response = await asked;
  held.event({ error: { message: "worn out" } });
  held.close();
  const text = await brokenText(response);
  begin(text);
  expect(behindBegin(text)).toBe(word("a") + json("wrong", { told: "worn out" }) + json("close", {}));

  const slow = Promise.withResolvers<Response>();
  answer = () => slow.promise;
  const before = upstream.requests.length;
  const late = ask({ live: true });
  await upstream.received(before + 1);
  clock.advance(15_000);
  const opened = await late;
  slow.resolve(jsonResponse({ error: { message: "too late" } }, 400));
  expect(await brokenText(opened)).toBe(json("wait", {}) + json("wrong", { told: "too late" }) + json("close", {}));
});

test("a stream that is a JSON list has nothing in it but the list, also where it is kept", async () => {
  const held = new HeldStream();
  answer = () => held.response();
  const before = upstream.requests.length;
  const id = { "service-request-id": "of-lists" };
  const asked = ask({ live: true, list: true }, id);
  await upstream.received(before + 1);
  held.fragment("a");
  const response = await asked;
  expect(response.headers.get("content-type")).toBe("application/json");
  clock.advance(15_000);
  for (const text of ["b\n\n", "c"]) held.fragment(text);
  held.finish();
  const text = await response.text();
  expect(JSON.parse(text)).toEqual([{ text: "a" }, { text: "b\n\n" }, { text: "c" }]);
  expect(await (await ask({ live: true, list: true }, id)).text()).toBe(text);
  expect(upstream.requests.length).toBe(before + 1);
});
