/** A variant that is worse than its bound and than the others stops itself, and a good one does not. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { chooseVariant } from "../../src/personas/versions/variant-choice.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const fileWith = (until: string, models = "openai/new") => `description: Helps.
model: openai/plain
system: Plain.
variants:
  - name: now
    weight: 50
  - name: next
    weight: 50
    model: ${models}
    until: ${until}
`;

const answerOf = (choice: object = {}) =>
  jsonResponse({
    choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop", ...choice }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });
const failure = (status: number, message: string) => jsonResponse({ error: { message } }, status);
const isNew = ({ json }: RecordedRequest) => (json as { model?: string }).model === "new";

let folder: TempFolder;
let upstream: UpstreamServer;
let answer: (request: RecordedRequest) => Response | Promise<Response>;
beforeEach(() => {
  folder = new TempFolder();
  mkdirSync(folder.file("personas/acme"), { recursive: true });
  upstream = new UpstreamServer((request) => answer(request));
  answer = () => answerOf();
});
afterEach(() => {
  upstream[Symbol.dispose]();
  folder[Symbol.dispose]();
});

async function start(file: string): Promise<Troupe> {
  writeFileSync(folder.file("personas/acme/helper.yaml"), file);
  const troupe = await Troupe.start({
    providers: { openai: { baseUrl: upstream.url }, second: { dialect: "openai", baseUrl: upstream.url } },
    personas: folder.file("personas"),
    data: folder.file("data"),
  });
  await troupe.server.services.loading;
  return troupe;
}

const header = "x-troupe-persona-variant";

/** Calls that follow each other, each counted before the next one. @returns the variant that each went to */
async function callsOf(troupe: Troupe, count: number, body: object = {}, from = 0): Promise<string[]> {
  const went: string[] = [];
  for (let at = from; at < from + count; at += 1) {
    const messages = [{ role: "user", content: "hi" }];
    const response = await troupe.post("/v1/chat/completions", {
      model: "acme/helper",
      messages,
      user: `u${at}`,
      ...body,
    });
    await response.text();
    went.push(response.headers.get(header)!);
    const { usage, ledger, variantStops } = troupe.server.services;
    await usage.close();
    await ledger.flush();
    await variantStops.load();
  }
  return went;
}
const calls = (went: readonly string[]) => went.filter((name) => name === "next").length;
const stopped = (troupe: Troupe) => troupe.server.services.store.variants.stopped();

/** With 100 calls and a share of 0.05, 14 stop it: docs/persona-versions.md. */
const until = "{ calls: 100, error_rate: 0.05, refusals: 0.05 }";

describe("a variant whose calls", () => {
  test.each([
    ["fail", "error_rate", () => failure(500, "broken"), {}],
    [
      "break in their stream",
      "error_rate",
      () => sseResponse(['data: {"choices":[{"index":0,"delta":{"content":"he"}}]}\n\n']),
      { stream: true },
    ],
    ["are refused for its key", "error_rate", () => failure(401, "wrong key"), {}],
    ["name no model", "error_rate", () => failure(404, "no such model"), {}],
    ["are answered by something else", "error_rate", () => new Response("<html>"), {}],
    ["are filtered", "refusals", () => answerOf({ finish_reason: "content_filter" }), {}],
    [
      "are refused by the model",
      "refusals",
      () => answerOf({ message: { role: "assistant", content: null, refusal: "No." } }),
      {},
    ],
    ["are refused before an answer", "refusals", () => failure(400, "violates our content policy"), {}],
    [
      "are filtered in a stream",
      "refusals",
      () =>
        sseResponse([
          'data: {"choices":[{"index":0,"delta":{"content":"he"},"finish_reason":null}]}\n\n',
          'data: {"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}\n\ndata: [DONE]\n\n',
        ]),
      { stream: true },
    ],
  ])("%s stops with the 14th of them, and all go to the rest", async (_, reason, bad, body) => {
    await using troupe = await start(fileWith(until));
    answer = (request) => (isNew(request) ? bad() : "stream" in body ? sseResponse([okStream]) : answerOf());
    const went = await callsOf(troupe, 60, body);
    expect(calls(went)).toBe(14);
    expect(calls(went.slice(went.lastIndexOf("next") + 1))).toBe(0);
    expect(await stopped(troupe)).toMatchObject([
      { persona: "acme/helper", variant: "next", reason, calls: 14, otherErrors: 0, otherRefusals: 0 },
    ]);
    const metrics = await (await troupe.fetch("/metrics")).text();
    expect(metrics).toMatch(/^troupe_variants_stopped\{persona="acme\/helper",version="\w{12}",variant="next"\} 1$/m);
  });

  const okStream =
    'data: {"choices":[{"index":0,"delta":{"content":"he"},"finish_reason":null}]}\n\n' +
    'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n';

  test.each([
    ["are fine", () => answerOf()],
    ["are wrong, whose callers' fault that is", () => failure(400, "messages: must not be empty")],
    ["are too long", () => failure(413, "too large")],
  ])("%s goes on", async (_, bad) => {
    await using troupe = await start(fileWith(until));
    answer = (request) => (isNew(request) ? bad() : answerOf());
    expect(calls(await callsOf(troupe, 80))).toBeGreaterThan(20);
    expect(await stopped(troupe)).toEqual([]);
  });

  test("fail as the others' do goes on", async () => {
    await using troupe = await start(fileWith(until));
    answer = () => failure(503, "down");
    expect(calls(await callsOf(troupe, 80))).toBeGreaterThan(20);
    expect(await stopped(troupe)).toEqual([]);
    const [state] = await troupe.server.services.store.variants.list("acme/helper");
    expect(state!.errors).toBe(state!.calls);
    expect(state!.otherErrors).toBe(state!.otherCalls);
  });

  test("are answered by its next model goes on: callers see no failure", async () => {
    await using troupe = await start(fileWith(until, "[openai/new, second/other]"));
    answer = (request) => (isNew(request) ? failure(500, "broken") : answerOf());
    const went = await callsOf(troupe, 60);
    expect(calls(went)).toBeGreaterThan(20);
    const [state] = await troupe.server.services.store.variants.list("acme/helper");
    expect(state).toMatchObject({ calls: calls(went), errors: 0, otherCalls: 60 - calls(went), stoppedAt: null });
  });

  test("are left by their client is not judged by them", async () => {
    await using troupe = await start(fileWith(until));
    await callsOf(troupe, 4);
    const { services } = troupe.server;
    const before = await services.store.variants.list("acme/helper");
    answer = ({ signal }) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve(answerOf()), { once: true }));
    const leaving = new AbortController();
    const asked = upstream.requests.length;
    const body = { model: "acme/helper", messages: [{ role: "user", content: "x" }] };
    const call = troupe.post("/v1/chat/completions", body, { signal: leaving.signal }).catch(() => "left");
    await upstream.received(asked + 1);
    leaving.abort();
    expect(await call).toBe("left");
    while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
    await services.usage.close();
    await services.ledger.flush();
    const [line] = await services.store.ledger.lines({ since: 0, until: Date.now() + 1_000, limit: 1 });
    expect(line!.ended).toBe("abandoned");
    expect(await services.store.variants.list("acme/helper")).toEqual(before);
  });
});

test("a stop outlives the process, ends with another content of the file, and can be undone", async () => {
  const file = fileWith(until);
  answer = (request) => (isNew(request) ? failure(500, "broken") : answerOf());
  {
    await using troupe = await start(file);
    await callsOf(troupe, 60);
    expect(await stopped(troupe)).toHaveLength(1);
  }
  {
    await using troupe = await start(file);
    expect(calls(await callsOf(troupe, 30))).toBe(0);
    writeFileSync(
      folder.file("personas/acme/helper.yaml"),
      file.replace("System", "Other").replace("Helps.", "Helps more."),
    );
    await troupe.server.services.rereadPersonas();
    expect(calls(await callsOf(troupe, 4, {}, 100))).toBeGreaterThan(0);
    writeFileSync(folder.file("personas/acme/helper.yaml"), file);
    await troupe.server.services.rereadPersonas();
    expect(calls(await callsOf(troupe, 10))).toBe(0);
    expect(await troupe.server.services.store.variants.resume("acme/helper", "next", Date.now())).toBe(1);
    answer = () => answerOf();
    const went: string[] = [];
    for (let at = 0; at < 20; at += 1) {
      const body = { model: "acme/helper", messages: [{ role: "user", content: "hi" }], user: `u${at}` };
      went.push((await troupe.post("/v1/chat/completions", body)).headers.get(header)!);
    }
    const { variants = [] } = troupe.server.services.personas.find("acme/helper")!;
    const due = went.map((_, at) => chooseVariant("acme/helper", variants, `user u${at}`)!.name);
    expect(went).toEqual(due);
  }
});
