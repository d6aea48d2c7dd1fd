/** Previews of personas: pushed, called by every client format, never by default, replaced, dropped and ended; and what is refused. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { KeySpec } from "../../src/auth/key-spec.ts";
import type { Config } from "../../src/config/config.ts";
import { dropPreview, listPreviews } from "../../src/operate/previews.ts";
import { listReports } from "../../src/operate/reports.ts";
import { parsePersona } from "../../src/personas/persona.ts";
import { completionOf } from "../helpers/chat-upstream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe, type TroupeOptions } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const folder = untilEnd(new TempFolder());
const clock = new ManualClock(Date.parse("2026-11-29T10:00:00Z"));
/** A key of models alone. */

const content = (system: string, rest: object = {}) => ({
  description: "Helps.",
  model: "mistral/gpt",
  system,
  ...rest,
});
const support = (system: string, rest: object = {}) => ({ id: "acme/support", content: content(system, rest) });
const versionOf = (value: object, id = "acme/support") => {
  const parsed = parsePersona(JSON.stringify(value), "x", id);
  return "persona" in parsed ? parsed.persona.version : JSON.stringify(parsed.errors);
};

const served = `description: Helps.
model: mistral/gpt
system: Served.
variants:
  - { name: old, weight: 1 }
  - { name: new, weight: 1, system: Canary. }
`;

const start = async (options: TroupeOptions = {}) =>
  Troupe.start({ clock, personas: folder.path, providers: { mistral: { baseUrl: upstream.url } }, ...options });
const previewKey = (changes: Partial<KeySpec> = {}): KeySpec => ({
  ...{ name: "ci", tier: "pro", perMinute: 100_000, surfaces: ["preview"] },
  ...changes,
});

// With counts: a call whose tokens are estimated is in the ledger later.
const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
const upstream = untilEnd(new UpstreamServer(() => jsonResponse(completionOf({ content: "x" }, "stop", usage))));
const files = { "acme/support.yaml": served, "labels.yaml": "" };
for (const [path, text] of Object.entries(files)) {
  mkdirSync(dirname(folder.file(path)), { recursive: true });
  writeFileSync(folder.file(path), text);
}
const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const rules = { days: 7, max: 3, maxBytes: 20_000 };

const troupe = untilEnd(
  await start({ surfaces: ["orchestrator", "gateway", "admin"], config: { previews: rules, listen } }),
);
await troupe.server.services.loading;
const pusher = await troupe.createKey(previewKey());
const plain = await troupe.createKey({ name: "app", tier: "free", perMinute: 100_000 });
beforeEach(() => {
  upstream.requests.length = 0;
});
afterEach(async () => {
  for (const { label } of await listPreviews(troupe.server.services))
    await dropPreview(troupe.server.services, "test", label);
});

type Init = { readonly key?: string; readonly days?: number };
const push = (label: string, personas: readonly object[], { key = pusher, days }: Init = {}) =>
  troupe.fetch(`/v1/previews/${label}${days === undefined ? "" : `?days=${days}`}`, {
    method: "PUT",
    key,
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ personas }),
  });
const messages = [{ role: "user", content: "Hi" }];
const ask = (model: string, key = plain, body: object = {}) =>
  troupe.post("/v1/chat/completions", { model, messages, ...body }, { key });
const errorOf = async (answer: Response) => {
  const { error } = (await answer.json()) as { error: { code: string; param: string; message: string } };
  return { status: answer.status, ...error };
};
const systemSent = () => (upstream.last.json as { messages: { content: string }[] }).messages[0]!.content;

describe("a preview", () => {
  test("answers under its label from the push's answer on, to every client format, and never by default", async () => {
    const pushed = await push("pr-12", [support("Reviewed.")]);
    expect([pushed.status, await pushed.json()]).toEqual([
      200,
      {
        ...{ object: "persona.preview", label: "pr-12", key: expect.stringMatching(/^key_/), key_name: "ci" },
        personas: [{ id: "acme/support", version: versionOf(content("Reviewed.")) }],
        pushed_at: "2026-11-29T10:00:00.000Z",
        ends_at: "2026-12-06T10:00:00.000Z",
        bytes: expect.any(Number),
      },
    ]);
    const model = "acme/support@pr-12";
    const calls: [string, object][] = [
      ["/v1/chat/completions", { model, messages }],
      ["/v1/responses", { model, input: "Hi" }],
      ["/v1/messages", { model, messages, max_tokens: 9 }],
      [`/v1beta/models/${model}:generateContent`, { contents: [{ parts: [{ text: "Hi" }] }] }],
    ];
    for (const [path, body] of calls) {
      for (const key of [plain, pusher]) {
        const answer = await troupe.post(path, body, { key });
        expect([path, answer.status]).toEqual([path, 200]);
        expect(answer.headers.get("x-troupe-persona-version")).toBe(versionOf(content("Reviewed.")));
        expect(systemSent()).toBe("Reviewed.");
      }
    }
    const counted = await troupe.post("/v1/messages/count_tokens", { model, messages }, { key: pusher });
    expect(counted.status).toBe(200);
    for (let at = 0; at < 20; at += 1) {
      await ask("acme/support", plain, { user: `u${at}` });
      expect(systemSent()).toBeOneOf(["Served.", "Canary."]);
    }
    const listed = (await (await troupe.fetch("/v1/models", { key: plain })).json()) as { data: { id: string }[] };
    expect(listed.data.map(({ id }) => id)).toEqual(["acme/support"]);
    const one = await troupe.fetch(`/v1/models/${model}`, { key: plain });
    expect([one.status, ((await one.json()) as { id: string }).id]).toEqual([200, model]);
  });

  test("has its own lines in the ledger, and the canary of the persona none of it", async () => {
    const variants = [
      { name: "old", weight: 1 },
      { name: "new", weight: 1, system: "Canary." },
    ];
    // The very content that is served.
    await push("same", [support("Served.", { variants })]);
    for (let at = 0; at < 3; at += 1) {
      const answer = await ask("acme/support@same");
      expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining("choices")]);
    }
    const { services } = troupe.server;
    await services.ledger.flush();
    const filter = { since: 0, until: clock.now() + 60_000, where: { persona: "acme/support@same" } };
    const [sum] = await services.store.ledger.sums(filter, ["persona", "persona_version"], { limit: 9 });
    expect([sum!.group, sum!.calls]).toEqual([
      ["acme/support@same", services.personas.find("acme/support")!.version],
      3,
    ]);
    const metrics = await (await troupe.fetch("/metrics")).text();
    expect(metrics).toContain('troupe_persona_attempts_total{persona="acme/support",version="preview",end="finished"}');
    expect(metrics).not.toContain("@same");
  });

  test("pushed again replaces the one before whole, and what it no longer has is gone", async () => {
    await push("pr-1", [support("One."), { id: "acme/other", content: content("Other.") }]);
    expect((await ask("acme/other@pr-1")).status).toBe(200);
    await ask("acme/support@pr-1");
    expect(systemSent()).toBe("One.");
    expect((await push("pr-1", [support("Two.")])).status).toBe(200);
    await ask("acme/support@pr-1");
    expect(systemSent()).toBe("Two.");
    expect(await errorOf(await ask("acme/other@pr-1"))).toMatchObject({ status: 404, code: "model_not_found" });
    const faulty = await push("pr-1", [support("Three."), { id: "acme/other", content: { system: "x" } }]);
    expect(faulty.status).toBe(400);
    await ask("acme/support@pr-1");
    expect(systemSent()).toBe("Two.");
  });

  test("ends by its time and when it is dropped, with a line in the audit each", async () => {
    const short = (await (await push("short", [support("One.")], { days: 1 })).json()) as { ends_at: string };
    expect(Date.parse(short.ends_at) - clock.now()).toBe(86_400_000);
    await push("long", [support("Two.")]);
    // A day of this clock has thousands of timers.
    const { store } = troupe.server.services;
    const row = await store.previews.get("short", clock.now());
    const line = { id: "a", at: 0, actor: "test", act: "preview.push", subject: "short", before: null, after: null };
    await store.previews.put({ ...row!, endsAt: clock.now() + 1000 }, 9, line);
    expect((await ask("acme/support@short")).status).toBe(200);
    await clock.advance(1000);
    expect((await ask("acme/support@short")).status).toBe(404);
    expect((await ask("acme/support@long")).status).toBe(200);
    const dropped = await troupe.fetch("/v1/previews/long", { method: "DELETE", key: pusher });
    expect([dropped.status, await dropped.json()]).toEqual([
      200,
      { object: "persona.preview.dropped", label: "long", personas: 1 },
    ]);
    expect((await ask("acme/support@long")).status).toBe(404);
    const page = { before: null, limit: 4, actor: null, act: null, subject: null };
    const acts = await troupe.server.services.store.audit.list(page);
    expect(acts.map(({ act, subject }) => `${act} ${subject}`).slice(0, 2)).toEqual([
      "preview.drop long",
      "preview.push long",
    ]);
  });

  test("is a tool of /mcp, and listed, for a key that names it", async () => {
    await push("pr-2", [support("Two.")]);
    const models = ["acme/support@pr-2"];
    const key = await troupe.createKey({ name: "one", tier: "free", perMinute: 1000, models });
    const headers = { accept: "application/json, text/event-stream" };
    const answer = await troupe.post("/mcp", { jsonrpc: "2.0", id: 1, method: "tools/list" }, { key, headers });
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining('"acme/support@pr-2"')]);
    const listed = (await (await troupe.fetch("/v1/models", { key })).json()) as { data: { id: string }[] };
    expect(listed.data.map(({ id }) => id)).toEqual(models);
    expect((await ask("acme/support", key)).status).toBe(404);
  });

  test("knows the files that it brings along, not those of the server's folder", async () => {
    mkdirSync(folder.file("acme/docs"), { recursive: true });
    writeFileSync(folder.file("acme/docs/a.md"), "# Refunds\n\nA refund takes ninety days.\n");
    const knowledge = [{ file: "docs/a.md", text: "# Refunds\n\nA refund takes two days.\n" }];
    const one = { ...support("Knows.", { knowledge: ["docs/*.md"] }), knowledge };
    expect((await push("pr-3", [one])).status).toBe(200);
    await ask("acme/support@pr-3", plain, { messages: [{ role: "user", content: "How long takes a refund?" }] });
    const sent = JSON.stringify(upstream.last.json);
    expect(sent).toContain("two days");
    expect(sent).not.toContain("ninety days");
    await push("pr-3", [{ ...one, knowledge: [{ file: "docs/a.md", text: "A refund takes a minute." }] }]);
    await ask("acme/support@pr-3", plain, { messages: [{ role: "user", content: "How long takes a refund?" }] });
    expect(JSON.stringify(upstream.last.json)).toContain("a minute");
  });

  test("is listed and dropped by the admin API, and rendered", async () => {
    await push("pr-4", [support("Four.")]);
    const admin = await troupe.createKey({ name: "op", tier: "enterprise", perMinute: 1000, surfaces: ["admin"] });
    const listed = (await (await troupe.fetch("/admin/v1/previews", { key: admin })).json()) as { data: object[] };
    expect(listed.data).toEqual([expect.objectContaining({ label: "pr-4", key_name: "ci" })]);
    const rendered = await troupe.post(
      "/admin/v1/personas/render",
      { persona: "acme/support@pr-4", request: { messages } },
      { key: admin },
    );
    expect([rendered.status, await rendered.text()]).toEqual([200, expect.stringContaining("Four.")]);
    const asked = troupe.fetch("/admin/v1/playground/models?search=acme/support@p", { key: admin });
    expect(((await (await asked).json()) as { data: object[] }).data).toEqual([
      expect.objectContaining({ id: "acme/support@pr-4", title: expect.stringContaining("preview by ci until") }),
    ]);
    const dropped = await troupe.fetch("/admin/v1/previews/pr-4", { method: "DELETE", key: admin });
    expect(dropped.status).toBe(200);
    const again = await troupe.fetch("/admin/v1/previews/pr-4", { method: "DELETE", key: admin });
    expect(await errorOf(again)).toMatchObject({ status: 404, param: "label" });
  });
});

describe("a key of previews", () => {
  test("opens nothing else, and is told so", async () => {
    await push("pr-5", [support("Five.")]);
    const closed: [method: string, path: string, body?: object][] = [
      ["GET", "/v1/models"],
      ["GET", "/v1/usage"],
      ["GET", "/v1/account"],
      ["GET", "/gateway/v1/models"],
      ["POST", "/gateway/v1/chat/completions", { model: "mistral/gpt", messages }],
      ["GET", "/gateway/providers/mistral/v1/models"],
      ["GET", "/admin/v1/previews"],
      ["POST", "/mcp", { jsonrpc: "2.0", id: 1, method: "tools/list" }],
      ["GET", "/v1/chat/completions/chatcmpl-1"],
      ["GET", "/v1/responses/resp_1"],
    ];
    for (const [method, path, body] of closed) {
      const answer = await troupe.fetch(path, {
        method,
        key: pusher,
        ...(body && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
      });
      const error = await errorOf(answer);
      expect([path, error.status, error.code]).toEqual([path, 403, "surface_not_allowed"]);
      expect(error.message).toContain("is for previews of personas");
    }
    for (const model of ["acme/support", "acme/support@000000000000", "acme/support@pr-6", "mistral/gpt"]) {
      const error = await errorOf(await ask(model, pusher));
      expect([model, error.status, error.code]).toEqual([model, 403, "model_not_allowed"]);
      expect(error.message).toContain("may call previews of personas alone");
    }
  });

  test("is needed to push, list and drop", async () => {
    const word = { status: 403, code: "surface_not_allowed", message: expect.stringContaining("'preview'") };
    expect(await errorOf(await push("pr-6", [support("x")], { key: plain }))).toMatchObject(word);
    expect(await errorOf(await troupe.fetch("/v1/previews", { key: plain }))).toMatchObject(word);
    const dropping = troupe.fetch("/v1/previews/pr-6", { method: "DELETE", key: plain });
    expect(await errorOf(await dropping)).toMatchObject(word);
  });

  test("sees and touches no preview of personas that it may not use", async () => {
    const other = await troupe.createKey(previewKey({ name: "other", models: ["shop/*"] }));
    await push("pr-7", [support("Seven.")]);
    const own = { id: "shop/clerk", content: content("Clerk.") };
    const error = { status: 403, code: "model_not_allowed" };
    expect(await errorOf(await push("pr-7", [own], { key: other }))).toMatchObject({ ...error, param: "label" });
    expect(await errorOf(await push("pr-8", [own, support("x")], { key: other }))).toMatchObject({
      ...{ ...error, param: "personas[1].id" },
      message: "This API key may not use acme/support, and so may not preview it.",
    });
    const dropping = troupe.fetch("/v1/previews/pr-7", { method: "DELETE", key: other });
    expect(await errorOf(await dropping)).toMatchObject(error);
    expect(((await (await troupe.fetch("/v1/previews", { key: other })).json()) as { data: [] }).data).toEqual([]);
    expect((await ask("acme/support@pr-7", other)).status).toBe(403);
  });
});

test("a report is refused with its own words, and the oldest makes room for a new one", async () => {
  const reviewed = (id: string, more: object = {}) => ({
    ...{
      id,
      change: "changed",
      summary: [],
      must_see: [],
      patch: "",
      knowledge: [],
      requests: [],
      tests: [],
      same_tests: 0,
    },
    ...more,
  });
  const report = (label: string, personas: readonly object[], key = pusher) =>
    troupe.fetch(`/v1/previews/${label}/report`, {
      ...{ method: "PUT", key, headers: { "content-type": "application/json" } },
      body: JSON.stringify({ against: { ref: "main", commit: "0123" }, personas }),
    });
  const refusals: [label: string, personas: object[], wanted: object][] = [
    ["PR_12", [reviewed("acme/support")], { status: 400, param: "label" }],
    [
      "a",
      [reviewed("acme/support", { tests: [{ name: "x", change: "odd" }] })],
      { status: 400, param: "personas[0].tests[0].change" },
    ],
    [
      "a",
      [reviewed("acme/support", { patch: "x".repeat(20_000) })],
      { status: 413, code: "request_too_large", message: expect.stringContaining("The report has") },
    ],
  ];
  for (const [label, personas, wanted] of refusals)
    expect(await errorOf(await report(label, personas))).toMatchObject(wanted);
  expect(await errorOf(await report("a", [reviewed("acme/support")], plain))).toMatchObject({
    code: "surface_not_allowed",
  });
  expect(await listReports(troupe.server.services)).toEqual([]);
  for (const label of ["r1", "r2", "r3", "r1", "r4"]) {
    expect((await report(label, [reviewed("acme/support")])).status).toBe(200);
    clock.advance(1);
  }
  expect((await listReports(troupe.server.services)).map(({ label }) => label)).toEqual(["r4", "r1", "r3"]);
  const other = await troupe.createKey(previewKey({ name: "other", models: ["shop/*"] }));
  expect(await errorOf(await report("r1", [reviewed("shop/clerk")], other))).toMatchObject({
    status: 403,
    param: "label",
  });
});

describe("an upload is refused with its own words", () => {
  const cases: [name: string, label: string, personas: object[], wanted: object][] = [
    ["a label's form", "PR_12", [support("x")], { status: 400, param: "label" }],
    ["a label like a version", "000000000000", [support("x")], { status: 400, param: "label" }],
    ["a persona's name", "a", [{ id: "acme", content: {} }], { status: 400, param: "personas[0].id" }],
    ["one twice", "a", [support("x"), support("y")], { status: 400, param: "personas[1].id" }],
    ["no personas", "a", [], { status: 400, param: "personas" }],
    [
      "a wrong member",
      "a",
      [support("x", { temprature: 1 })],
      { status: 400, param: "personas[0].content.temprature" },
    ],
    [
      "no system",
      "a",
      [{ id: "a/b", content: { description: "x", model: "a/b" } }],
      { param: "personas[0].content.system" },
    ],
    ["a rule", "a", [support("{{name}}")], { status: 400, param: "personas[0].content.system" }],
    ["unread skills", "a", [support("x", { skills: ["skills/*"] })], { param: "personas[0].content.skills[0]" }],
    ["unresolved", "a", [support("x", { system_file: "a.md" })], { param: "personas[0].content.system_file" }],
    [
      "the tier",
      "a",
      [support("x", { tier: "enterprise" })],
      {
        ...{ status: 403, code: "model_not_allowed", param: "personas[0].id" },
        message:
          "acme/support is of the tier enterprise, and this API key of pro: it can't preview personas above its own.",
      },
    ],
    [
      "the size",
      "a",
      [support("x".repeat(20_000))],
      { status: 413, code: "request_too_large", message: expect.stringContaining("previews.max_bytes takes 20000") },
    ],
  ];
  test.each(cases)("%s", async (_, label, personas, wanted) => {
    expect(await errorOf(await push(label, personas))).toMatchObject(wanted);
    expect(await listPreviews(troupe.server.services)).toEqual([]);
  });

  test("a label in use, and days beyond the setting", async () => {
    const { personas } = troupe.server.services;
    const all = [...personas.list()];
    const [one] = all;
    personas.replace(all, {
      personas: new Map([["acme/support@stable", one!]]),
      labels: new Map([["acme/support@stable", one!.version]]),
      prompts: new Map(),
    });
    expect(await errorOf(await push("stable", [support("x")]))).toMatchObject({
      ...{ status: 409, code: "label_in_use", param: "label" },
      message: "acme/support@stable is a label of labels.yaml already: push under another one.",
    });
    await ask("acme/support@stable");
    expect(systemSent()).toBeOneOf(["Served.", "Canary."]);
    expect((await push("stable", [{ id: "acme/other", content: content("x") }])).status).toBe(200);
    personas.replace(all);
    expect(await errorOf(await push("pr-9", [support("x")], { days: 8 }))).toMatchObject({
      ...{ status: 400, param: "days", message: "days must be at most 7, as previews.days says here." },
    });
  });

  test("more labels than the setting has", async () => {
    for (const label of ["a", "b", "c"]) expect((await push(label, [support("x")])).status).toBe(200);
    expect(await errorOf(await push("d", [support("x")]))).toMatchObject({ status: 409, code: "too_many_previews" });
    expect((await push("c", [support("y")])).status).toBe(200);
  });
});

test("another process of the same data finds a push, a new one and a drop at once", async () => {
  const other = await start({ data: troupe.data });
  try {
    const asked = async () => {
      const answer = await other.post(
        "/v1/chat/completions",
        { model: "acme/support@pr-10", messages },
        { key: plain },
      );
      return answer.status === 200 ? systemSent() : answer.status;
    };
    await push("pr-10", [support("One.")]);
    expect(await asked()).toBe("One.");
    await push("pr-10", [support("Two.")]);
    expect(await asked()).toBe("Two.");
    await troupe.fetch("/v1/previews/pr-10", { method: "DELETE", key: pusher });
    expect(await asked()).toBe(404);
  } finally {
    await other[Symbol.asyncDispose]();
  }
});
