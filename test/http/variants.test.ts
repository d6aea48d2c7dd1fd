/** Variants of a persona: who gets which, what it changes of a request, and where its name is shown. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import type { Troupe } from "../helpers/troupe.ts";
import { jsonResponse } from "../helpers/upstream-server.ts";

const file = `description: Helps.
model: openai/plain
system: Plain.
defaults: { temperature: 0.9 }
variants:
  - name: now
    weight: 50
  - name: next
    weight: 50
    model: openai/new
    system: New.
    defaults: { max_tokens: 7 }
`;

const completion = {
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const text = { type: "output_text", text: "hello", annotations: [] };
const response = {
  ...{ id: "resp_1", object: "response", created_at: 1, status: "completed", model: "m" },
  output: [{ type: "message", id: "msg_1", role: "assistant", status: "completed", content: [text] }],
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
};

const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("acme"));
writeFileSync(folder.file("acme/helper.yaml"), file);
const { troupe, upstream } = await served(
  ({ path }) => jsonResponse(path.endsWith("/responses") ? response : completion),
  (url) => ({
    providers: { openai: { baseUrl: url } },
    personas: folder.path,
    config: { aliases: { helper: "acme/helper" } },
  }),
);
await troupe.server.services.loading;

const header = "x-troupe-persona-variant";
const messages = [{ role: "user", content: "hi" }];
const ask = (body: object = {}, init: Parameters<Troupe["post"]>[2] = {}, path = "/v1/chat/completions") =>
  troupe.post(path, { model: "acme/helper", messages, ...body }, init);

/** An end user who gets that variant. */
async function userOf(variant: string): Promise<string> {
  for (let at = 0; at < 200; at += 1) {
    const response = await ask({ user: `user-${at}` });
    await response.text();
    if (response.headers.get(header) === variant) return `user-${at}`;
  }
  throw new Error(`nobody of 200 gets ${variant}`);
}

test("a variant's fields stand in place of the persona's", async () => {
  await ask({ user: await userOf("next") });
  expect(upstream.last.json).toMatchObject({
    model: "new",
    messages: [{ role: "system", content: "New." }, ...messages],
    max_tokens: 7,
  });
  expect(upstream.last.json).not.toHaveProperty("temperature");
  const answer = await ask({ user: await userOf("now") });
  expect(upstream.last.json).toMatchObject({
    model: "plain",
    messages: [{ role: "system", content: "Plain." }, ...messages],
    temperature: 0.9,
  });
  expect(await answer.json()).toMatchObject({ model: "acme/helper" });
});

describe("a caller stays with its variant", () => {
  test.each([
    ["/v1/chat/completions", (user: string) => ({ user })],
    ["/v1/chat/completions", (user: string) => ({ safety_identifier: user })],
    ["/v1/responses", (user: string) => ({ user, messages: undefined, input: "hi" })],
    ["/v1/responses", (user: string) => ({ safety_identifier: user, messages: undefined, input: "hi" })],
    ["/v1/messages", (user: string) => ({ metadata: { user_id: user }, max_tokens: 5 })],
  ])("at %s", async (path, named) => {
    for (const variant of ["now", "next"]) {
      const user = await userOf(variant);
      for (let time = 0; time < 3; time += 1)
        expect((await ask(named(user), {}, path)).headers.get(header)).toBe(variant);
    }
  });

  test("by its key where it names nobody, and by whom it names whatever its key", async () => {
    const keys = await Promise.all(
      Array.from({ length: 20 }, (_, at) =>
        troupe.createKey({ name: `k${at}`, tier: "enterprise", perMinute: 10_000, surfaces: ["orchestrator"] }),
      ),
    );
    const variantsOf = (body: object) =>
      Promise.all(keys.map(async (key) => (await ask(body, { key })).headers.get(header)));
    const first = await variantsOf({ user: "" });
    expect(new Set(first).size).toBe(2);
    expect(await variantsOf({})).toEqual(first);
    expect(new Set(await variantsOf({ user: "somebody" })).size).toBe(1);
  });

  test("also when a weight becomes another, if it isn't moved by that", async () => {
    const [now, next] = [await userOf("now"), await userOf("next")];
    const { services } = troupe.server;
    writeFileSync(
      folder.file("acme/helper.yaml"),
      file.replace("    weight: 50\n    model", "    weight: 0\n    model"),
    );
    await services.rereadPersonas();
    expect((await ask({ user: now })).headers.get(header)).toBe("now");
    expect((await ask({ user: next })).headers.get(header)).toBe("now");
    writeFileSync(folder.file("acme/helper.yaml"), file);
    await services.rereadPersonas();
    expect((await ask({ user: next })).headers.get(header)).toBe("next");
  });

  test("and a retry gets the answer of the variant that made it", async () => {
    const headers = { "service-request-id": "once" };
    const user = await userOf("next");
    const first = await ask({ user }, { headers });
    const { services } = troupe.server;
    const before = upstream.requests.length;
    writeFileSync(
      folder.file("acme/helper.yaml"),
      file.replace("    weight: 50\n    model", "    weight: 0\n    model"),
    );
    await services.rereadPersonas();
    const again = await ask({ user }, { headers });
    writeFileSync(folder.file("acme/helper.yaml"), file);
    await services.rereadPersonas();
    expect([again.headers.get("idempotent-replayed"), again.headers.get(header)]).toEqual(["true", "next"]);
    expect(await again.text()).toBe(await first.text());
    expect(upstream.requests).toHaveLength(before);
  });
});

test("the ledger, reports and metrics have its name", async () => {
  const user = await userOf("next");
  await ask({ user, model: "helper" });
  await troupe.server.services.ledger.flush();
  const day = { since: Date.now() - 86_400_000, until: Date.now() + 86_400_000 };
  const { ledger } = troupe.server.services.store;
  const [line] = await ledger.lines({ ...day, limit: 1 });
  expect(line).toMatchObject({ variant: "next", persona: "acme/helper", upstreamModel: "new", user });
  const sums = await ledger.sums({ ...day, where: { persona: "acme/helper" } }, ["variant", "ended"], { limit: 10 });
  expect(sums.map(({ group }) => group)).toEqual([
    ["next", "finished"],
    ["next", "replayed"],
    ["now", "finished"],
  ]);
  const metrics = await (await troupe.fetch("/metrics")).text();
  const counted = [...metrics.matchAll(/^troupe_variant_attempts_total\{persona="acme\/helper",.*\} (\d+)$/gm)];
  expect(counted.reduce((sum, [, count]) => sum + Number(count), 0)).toBe(upstream.requests.length);
});

test("a persona without variants has none, and the count of tokens asks the variant's model", async () => {
  const user = await userOf("next");
  const counted = await ask({ metadata: { user_id: user } }, {}, "/v1/messages/count_tokens");
  expect(counted.status).toBe(200);
  writeFileSync(folder.file("acme/plain.yaml"), "description: Helps.\nmodel: openai/plain\nsystem: Plain.\n");
  await troupe.server.services.rereadPersonas();
  expect((await ask({ model: "acme/plain", user })).headers.has(header)).toBe(false);
});
