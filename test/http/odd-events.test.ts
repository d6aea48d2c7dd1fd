/** Events whose fields, names or errors are damaged or another family's: clients get the whole answer or an error, never a part of it. */
import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";
import { some } from "../helpers/long-form.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { type AgentFamilyName, agentFamilies } from "../helpers/upstreams/agent.ts";

const text = "It is sunny in Oslo.";
let events: readonly string[];

const upstream = untilEnd(new UpstreamServer(() => sseResponse(events)));
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({
    providers: {
      groq: { baseUrl },
      anthropic: { baseUrl },
      google: { baseUrl },
      openai: { baseUrl, modelRules: [{ match: "*", responses_only: true }] },
    },
  }),
);

const accounts = { chat: "groq", anthropic: "anthropic", google: "google", responses: "openai" } as const;

/** The events of a family's whole answer. */
async function answerOf(family: AgentFamilyName): Promise<string[]> {
  const whole = await agentFamilies[family].answer({ text }, { model: "m", isStream: true }).text();
  return whole.split(/(?<=\n\n)/);
}

type Client = (model: string, id: string) => AsyncGenerator<string>;
const clients: Record<string, Client> = {
  async *chat(model, id) {
    const client = new OpenAI({ baseURL: troupe.baseUrl("gateway"), apiKey: troupe.key, maxRetries: 0 });
    const body = { model, messages: [{ role: "user" as const, content: "hi" }], stream: true as const };
    const stream = await client.chat.completions.create(body, { headers: { "service-request-id": id } });
    for await (const { choices } of stream) yield choices[0]?.delta.content ?? "";
  },
  async *responses(model, id) {
    const client = new OpenAI({ baseURL: troupe.baseUrl("gateway"), apiKey: troupe.key, maxRetries: 0 });
    const body = { model, input: "hi", stream: true as const, store: false };
    const stream = await client.responses.create(body, { headers: { "service-request-id": id } });
    for await (const event of stream) if (event.type === "response.output_text.delta") yield event.delta;
  },
  async *messages(model, id) {
    const client = new Anthropic({ baseURL: `${troupe.url}/gateway`, apiKey: troupe.key, maxRetries: 0 });
    const body = { model, max_tokens: 100, messages: [{ role: "user" as const, content: "hi" }] };
    for await (const event of client.messages.stream(body, { headers: { "service-request-id": id } }))
      if (event.type === "content_block_delta" && event.delta.type === "text_delta") yield event.delta.text;
  },
  async *google(model, id) {
    const httpOptions = { baseUrl: `${troupe.url}/gateway`, headers: { "service-request-id": id } };
    const client = new GoogleGenAI({ apiKey: troupe.key, httpOptions });
    for await (const chunk of await client.models.generateContentStream({ model, contents: "hi" }))
      yield chunk.text ?? "";
  },
};
const families = Object.keys(accounts) as AgentFamilyName[];

/** What a client read, and whether it raised. */
async function read(client: string, family: AgentFamilyName, id: string) {
  let found = "";
  try {
    for await (const piece of clients[client]!(`${accounts[family]}/m`, id)) found += piece;
    return { text: found, raised: false };
  } catch {
    return { text: found, raised: true };
  }
}

let ids = 0;

/** Whatever format the client speaks; what was raised is not kept. */
async function tryAll(family: AgentFamilyName, given: readonly string[], expected: "whole" | "raised") {
  events = given;
  for (const client of Object.keys(clients)) {
    const id = `odd-${ids++}`;
    const seen = await read(client, family, id);
    expect({ client, family, ...(expected === "whole" ? seen : { raised: seen.raised }) }).toEqual({
      ...{ client, family },
      ...(expected === "whole" ? { text, raised: false } : { raised: true }),
    });
    if (expected === "whole") continue;
    const asked = upstream.requests.length;
    await read(client, family, id);
    expect([client, upstream.requests.length]).toEqual([client, asked + 1]);
  }
}

describe.each(families)("%s", (family) => {
  test("a data field behind other bytes is a fault, not an event less", async () => {
    const whole = await answerOf(family);
    for (const before of ["\0\0", "<html>", "HTTP/1.1 200 OK "])
      for (const at of some([...whole.keys()], 3))
        await tryAll(family, whole.with(at, whole[at]!.replace(/^data:/m, `${before}data:`)), "raised");
  });

  test("an error of another family's form is one to every client", async () => {
    const whole = await answerOf(family);
    const errors = [
      'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
      'data: {"error":{"message":"overloaded","type":"server_error"}}\n\n',
      'data: {"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}\n\n',
      'event: error\ndata: {"type":"error","code":"server_error","message":"boom","param":null}\n\n',
      'data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n',
      "event: error\ndata: boom\n\n",
    ];
    for (const error of errors) for (const at of [1, 2]) await tryAll(family, whole.toSpliced(at, 0, error), "raised");
  });
});

const at = (whole: readonly string[], words: string) => whole.findIndex((event) => event.includes(words));

test("Messages: an event whose name is missing or another one still comes to its client", async () => {
  const whole = await answerOf("anthropic");
  for (const place of whole.keys()) {
    const unnamed = whole[place]!.replace(/^event: .*\n/, "");
    await tryAll("anthropic", whole.with(place, unnamed), "whole");
    await tryAll("anthropic", whole.with(place, `event: x\n${unnamed}`), "whole");
  }
  await tryAll(
    "anthropic",
    whole.map((event) => event.replace(/^event: .*\n/, "")),
    "whole",
  );
});

test("an event that only its name tells of breaks a stream that passes as it came", async () => {
  for (const [family, client, words] of [
    ["anthropic", "messages", "text_delta"],
    ["responses", "responses", "output_text.delta"],
  ] as const) {
    const whole = await answerOf(family);
    const place = at(whole, words);
    events = whole.with(place, whole[place]!.replace(/"type":"[^"]*"/, '"type":null'));
    expect((await read(client, family, `odd-${ids++}`)).raised).toBeTrue();
  }
});

test("Responses: an event whose name is one of the format's and its type another breaks a stream that passes as it came", async () => {
  const whole = await answerOf("responses");
  const place = at(whole, "event: response.output_item.done");
  events = whole.with(place, whole[place]!.replace('"type":"response.output_item.done"', '"type":"x"'));
  expect((await read("responses", "responses", `odd-${ids++}`)).raised).toBeTrue();
});

test.each(["anthropic", "responses", "chat"] as const)("%s: what is named an error is one", async (family) => {
  const whole = await answerOf(family);
  const place = at(whole, family === "chat" ? '"content":"It' : "delta");
  const unnamed = whole[place]!.replace(/^event: .*\n/, "");
  await tryAll(family, whole.with(place, `event: error\n${unnamed}`), "raised");
});

const lost: [AgentFamilyName, string, string?][] = [
  ["anthropic", "content_block_delta"],
  ["anthropic", "message_delta"],
  ["anthropic", "content_block_delta", "content"],
  ["responses", "response.output_text.delta"],
  ["responses", "response.completed"],
];
test.each(lost)("%s: an event of the answer that has a name alone is a fault", async (family, name, left = name) => {
  const whole = await answerOf(family);
  const place = at(whole, `event: ${name}`);
  await tryAll(family, whole.with(place, `event: ${left}\n\n`), "raised");
  await tryAll(family, whole.with(place, `event: ${left}\ndata:\n\n`), "raised");
});

test.each(families)("%s: a sign of life that has a name alone is passed over by all clients", async (family) => {
  const whole = await answerOf(family);
  for (const place of whole.keys())
    for (const sign of ["event: ping\n\n", "event: keep-alive\ndata:\n\n"])
      await tryAll(family, whole.toSpliced(place, 0, sign), "whole");
});

test("Google: the word of other formats does not come to its clients", async () => {
  const whole = await answerOf("google");
  await tryAll("google", [...whole, "data: [DONE]\n\n"], "whole");
});

test("Responses: a failed answer without an error event is an error to clients that look for one", async () => {
  const whole = await answerOf("responses");
  const response = {
    id: "resp_2",
    object: "response",
    status: "failed",
    error: { code: "server_error", message: "boom" },
    output: [],
  };
  const failed = `event: response.failed\ndata: ${JSON.stringify({ type: "response.failed", sequence_number: 6, response })}\n\n`;
  events = [...whole.slice(0, 6), failed];
  const answer = await troupe.post("/gateway/v1/responses", {
    model: "openai/m",
    input: "hi",
    stream: true,
    store: false,
  });
  const told = (await answer.text()).split(/(?<=\n\n)/).slice(-2);
  expect(told[1]).toBe(failed);
  expect(told[0]).toStartWith("event: error\n");
  expect(JSON.parse(told[0]!.slice("event: error\ndata: ".length))).toEqual({
    type: "error",
    sequence_number: 6,
    ...{ code: "server_error", message: "boom", param: null },
    error: { type: "server_error", code: "server_error", message: "boom", param: null },
  });
});

test("a thought that is no text never costs the answer", async () => {
  const part = (given: object, finishReason?: string) =>
    `data: ${JSON.stringify({ candidates: [{ index: 0, content: { role: "model", parts: [given] }, ...(finishReason && { finishReason }) }] })}\n\n`;
  const added = {
    type: "response.output_item.added",
    output_index: 0,
    item: { id: "rs_1", type: "reasoning", summary: [] },
  };
  const done = {
    type: "response.output_item.done",
    output_index: 0,
    item: { id: "rs_1", type: "reasoning", summary: [] },
  };
  const named = (event: { type: string }) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
  const whole = await answerOf("responses");
  for (const thought of [1, null, {}, [null], true]) {
    await tryAll("google", [part({ thought: true, text: thought }), part({ text }, "STOP")], "whole");
    const delta = { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 0, delta: thought };
    const later = whole.slice(2).map((event) => event.replace('"output_index":0', '"output_index":1'));
    const numbered = [...whole.slice(0, 2), named(added), named(delta), named(done), ...later].map((event, number) =>
      event.replace(/,"sequence_number":\d+/, "").replace(/\}\n\n$/, `,"sequence_number":${number}}\n\n`),
    );
    const output = { id: "rs_1", type: "reasoning", summary: [] };
    await tryAll(
      "responses",
      numbered.with(-1, numbered.at(-1)!.replace('"output":[', `"output":[${JSON.stringify(output)},`)),
      "whole",
    );
  }
});

test("Messages: a call whose block has no end comes to clients that look for one", async () => {
  const stream = await agentFamilies.anthropic
    .answer({ calls: [{ id: "toolu_1", name: "f", args: { city: "Oslo" } }] }, { model: "m", isStream: true })
    .text();
  const whole = stream.split(/(?<=\n\n)/);
  const last = whole.findLastIndex((event) => event.startsWith("event: content_block_stop"));
  events = whole.toSpliced(last, 1);
  const body = { model: "anthropic/m", max_tokens: 9, stream: true, messages: [{ role: "user", content: "hi" }] };
  const answer = await (await troupe.post("/gateway/v1/messages", body)).text();
  expect(answer).toBe(stream);
});
