/** A persona's cache mark beside its caller's: a mark of an hour may not stand behind one of five minutes, so the persona's yields. */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { anthropicKey, anthropicUpstream } from "../helpers/upstreams/anthropic.ts";
import { bedrockKey, converseAnswer, strictBedrock } from "../helpers/upstreams/bedrock.ts";

type Json = Record<string, unknown>;

const folder = untilEnd(new TempFolder());

const files = {
  five: "options: { system_cache_control: { type: ephemeral } }",
  hour: "options: { system_cache_control: { type: ephemeral, ttl: 1h } }",
};

mkdirSync(folder.file("acme"));
for (const [name, text] of Object.entries(files)) {
  const head = "description: Answers.\nmodel: anthropic/claude-sonnet-4-5\nsystem: Be brief.\n";
  writeFileSync(folder.file(`acme/${name}.yaml`), `${head}${text}\n`);
}
const upstream = untilEnd(
  new UpstreamServer(
    anthropicUpstream(({ model }) =>
      jsonResponse({
        ...{ id: "msg_1", type: "message", role: "assistant", model, content: [{ type: "text", text: "Hi." }] },
        ...{ stop_reason: "end_turn", stop_sequence: null, usage: { input_tokens: 3, output_tokens: 2 } },
      }),
    ),
  ),
);
const bedrock = untilEnd(new UpstreamServer(strictBedrock(() => converseAnswer([{ text: "Hi." }]), "us-east-1")));
const troupe = untilEnd(
  await Troupe.start({
    personas: folder.path,
    providers: {
      anthropic: { baseUrl: upstream.url, apiKey: anthropicKey },
      bedrock: { baseUrl: bedrock.url, apiKey: bedrockKey, modelRules: [{ match: "*", door: "converse" }] },
    },
  }),
);

const hour = { type: "ephemeral", ttl: "1h" };
const five = { type: "ephemeral" };
const tool = (cache_control?: object) => ({
  name: "f",
  input_schema: { type: "object", properties: {} },
  cache_control,
});
const said = (cache_control?: object) => [{ role: "user", content: [{ type: "text", text: "Hi", cache_control }] }];
const fn = (cache_control?: object) => ({
  type: "function",
  function: { name: "f", parameters: { type: "object", properties: {} } },
  cache_control,
});

/** By format: where the caller's mark stands, and the mark that the persona's system text has then. */
const cases: readonly (readonly [string, keyof typeof files, "messages" | "chat/completions", object, object])[] = [
  ["a message's hour", "five", "messages", { messages: said(hour) }, hour],
  ["an hour at the top", "five", "messages", { messages: said(), cache_control: hour }, hour],
  [
    "a system block's hour",
    "five",
    "messages",
    { messages: said(), system: [{ type: "text", text: "A.", cache_control: hour }] },
    hour,
  ],
  ["five minutes", "five", "messages", { messages: said(five) }, five],
  ["five minutes behind an hour", "hour", "messages", { messages: said(five) }, hour],
  ["a tool's five minutes before an hour", "hour", "messages", { messages: said(), tools: [tool(five)] }, five],
  ["a message's hour", "five", "chat/completions", { messages: said(hour) }, hour],
  ["a tool's five minutes before an hour", "hour", "chat/completions", { messages: said(), tools: [fn(five)] }, five],
  ["an hour at the top", "five", "chat/completions", { messages: said(), cache_control: hour }, hour],
];

test.each(cases)("%s beside the persona %s by %s", async (_, name, format, body, expected) => {
  const answered = await troupe.post(
    `/v1/${format}`,
    { model: `acme/${name}`, max_tokens: 9, ...body },
    { headers: { "anthropic-version": "2023-06-01" } },
  );
  expect([answered.status, await answered.text()]).toEqual([200, expect.stringContaining("Hi.")]);
  const sent = upstream.last.json as { system: Json[] };
  const own = sent.system.find(({ text }) => text === "Be brief.") as Json;
  // Translated, the mark stands at the end of all system text.
  expect((own["cache_control"] ?? sent.system.at(-1)!["cache_control"]) as Json).toEqual(expected as Json);
});

test("without a system text the mark at the top yields too, and a caller's own there counts", async () => {
  const asked = { model: "anthropic/claude-sonnet-4-5", system_cache_control: hour };
  const markAtTop = () => (upstream.last.json as Json)["cache_control"] as Json;
  await troupe.post("/gateway/v1/chat/completions", { ...asked, messages: said(five) });
  expect(markAtTop()).toEqual(five);
  await troupe.post("/gateway/v1/chat/completions", { ...asked, messages: said(), cache_control: five });
  expect(markAtTop()).toEqual(five);
});

test("on Converse the points' lifetimes are in the same order", async () => {
  const body = { messages: [{ role: "system", content: "Be brief." }, ...said(hour)], system_cache_control: five };
  const model = "bedrock/us.anthropic.claude-haiku-4-5-20251001-v1:0";
  const answered = await troupe.post("/gateway/v1/chat/completions", { model, ...body });
  expect(answered.status).toBe(200);
  const points = bedrock.last.text.match(/"cachePoint":\{[^}]*\}/g);
  const point = '"cachePoint":{"type":"default","ttl":"1h"}';
  expect(points).toEqual([point, point]);
});
