/**
 * Upstreams that speak a client's format beside chat completions, driven by the official clients: what they take passes untranslated, and
 * what they are documented to drop goes by chat completions.
 */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import Anthropic from "@anthropic-ai/sdk";
import type OpenAI from "openai";
import type { Response as ResponseObject } from "openai/resources/responses/responses";
import { seal } from "../../src/protocols/state/seal.ts";
import { providers } from "../../src/providers/registry.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { type Body, basePath, simpleAnswer } from "../helpers/upstreams/compatible.ts";
import { messagesRules, responsesRules, strictEndpoints } from "../helpers/upstreams/native-endpoints.ts";

const models: Readonly<Record<string, string>> = {
  moonshot: "kimi-k3",
  openrouter: "anthropic/claude-sonnet-5",
  databricks: "databricks-claude-sonnet-4-5",
  snowflake: "claude-sonnet-5",
};
const formatHeader = "x-troupe-upstream-format";

/** As each answers: thinking with a signature or an empty one, and members that nobody here knows. */
const thought = { type: "thinking", thinking: "A tool.", signature: "f2a9-not-ours" };
const unsigned = { type: "thinking", thinking: "A tool.", signature: "" };
const call = { type: "tool_use", id: "call_00_x", name: "weather", input: { city: "Köln" } };
const message = (content: object[], stop_reason = "end_turn") => ({
  id: "6d2e-up",
  type: "message",
  role: "assistant",
  model: "up",
  content,
  stop_reason,
  stop_sequence: null,
  usage: { input_tokens: 31, cache_read_input_tokens: 5, output_tokens: 7, future: 1.0 },
});
const event = (type: string, more: object) => `event: ${type}\ndata: ${JSON.stringify({ type, ...more })}\n\n`;
const firstBlock = { index: 0, content_block: { type: "thinking", thinking: "", signature: "" } };
const messageStream = [
  event("message_start", { message: { ...message([], ""), stop_reason: null } }),
  event("ping", {}),
  event("content_block_start", firstBlock),
  event("content_block_delta", { index: 0, delta: { type: "thinking_delta", thinking: "Hm." } }),
  event("content_block_delta", { index: 0, delta: { type: "signature_delta", signature: "c2lnbmVk" } }),
  event("content_block_stop", { index: 0 }),
  event("content_block_start", { index: 1, content_block: { type: "text", text: "" } }),
  event("content_block_delta", { index: 1, delta: { type: "text_delta", text: "Hé" } }),
  event("content_block_stop", { index: 1 }),
  event("message_delta", { delta: { stop_reason: "end_turn", stop_sequence: null }, usage: { output_tokens: 9 } }),
  event("message_stop", {}),
].join("");

/** https://console.groq.com/docs/responses-api#reasoning: reasoning in clear text, and no encrypted content. */
const reasoning = {
  type: "reasoning",
  id: "resp_rs1",
  status: "completed",
  content: [{ type: "reasoning_text", text: "Need brief explanation." }],
  summary: [],
};
const response = (id: string, output: object[]) => ({
  id,
  object: "response",
  created_at: 1_756_155_509,
  status: "completed",
  model: "up",
  output,
  parallel_tool_calls: true,
  tools: [],
  tool_choice: "auto",
  temperature: 1,
  top_p: 1,
  store: false,
  metadata: {},
  error: null,
  incomplete_details: null,
  usage: {
    input_tokens: 80,
    input_tokens_details: { cached_tokens: 0, reasoning_tokens: 0 },
    output_tokens: 13,
    output_tokens_details: { reasoning_tokens: 4 },
    total_tokens: 93,
  },
});
const said = (text: string) => ({
  type: "message",
  id: "msg_up",
  status: "completed",
  role: "assistant",
  content: [{ type: "output_text", text, annotations: [], logprobs: null }],
});

type Started = { troupe: Troupe; upstream: UpstreamServer; model: string };

/** What each format of the upstream answers next. */
const next = {
  messages: (_: Body): Response => jsonResponse(message([{ type: "text", text: "Hé" }])),
  responses: (_: Body): Response => jsonResponse(response("resp_up", [reasoning, said("Hé")])),
  chat: (_: Body): Response => simpleAnswer({ content: "By chat" }),
  count: (_: Body): Response => jsonResponse({ input_tokens: 17 }),
};
const usual = { ...next };

async function startWithEndpoints(name: string): Promise<Started> {
  const upstream = new UpstreamServer(
    strictEndpoints(name, `key-of-${name}`, {
      messages: (body) => next.messages(body),
      responses: (body) => next.responses(body),
      chat: (body) => next.chat(body),
      count: (body) => next.count(body),
    }),
  );
  const troupe = await Troupe.start({
    nativeEndpoints: true,
    providers: { [name]: { baseUrl: upstream.url + basePath(name) } },
  });
  return { troupe, upstream, model: `${name}/${models[name] ?? "some-model"}` };
}

const weather = {
  name: "weather",
  input_schema: { type: "object" as const, properties: { city: { type: "string" } } },
};

for (const [name, rules] of Object.entries(messagesRules)) {
  describe(`${name} by Messages`, () => {
    let at: Started;
    let client: Anthropic;
    beforeAll(async () => {
      at = await startWithEndpoints(name);
      client = new Anthropic({
        baseURL: `${at.troupe.url}/gateway`,
        apiKey: at.troupe.key,
        authToken: null,
        maxRetries: 0,
      });
    });
    afterAll(async () => {
      await at.troupe[Symbol.asyncDispose]();
      at.upstream[Symbol.dispose]();
    });
    const ask = (more: object) =>
      client.messages
        .create({
          model: at.model,
          max_tokens: 100,
          messages: [{ role: "user", content: "Hi" }],
          ...more,
        } as Anthropic.MessageCreateParamsNonStreaming)
        .withResponse();
    const post = (more: object) =>
      at.troupe.post("/gateway/v1/messages", {
        model: at.model,
        max_tokens: 100,
        messages: [{ role: "user", content: "Hi" }],
        ...more,
      });

    test("the body passes with another model's name alone, the answer byte for byte", async () => {
      const raw = ` ${JSON.stringify(message([thought, { type: "text", text: "Hé" }]))} `;
      next.messages = () => new Response(raw, { headers: { "content-type": "application/json" } });
      const sent = `{"model" : "${at.model}","max_tokens":10, "temperature":1.0,"messages":[{"role":"user","content":"Hi"}]}`;
      const answered = await at.troupe.fetch("/gateway/v1/messages", {
        method: "POST",
        body: sent,
        headers: { "content-type": "application/json" },
      });
      expect([answered.status, answered.headers.get(formatHeader)]).toEqual([200, "messages"]);
      expect(await answered.text()).toBe(raw);
      expect(at.upstream.last.path).toBe(rules.path);
      expect(at.upstream.last.text).toBe(sent.replace(at.model, at.model.slice(name.length + 1)));
      next.messages = usual.messages;
    });

    test("a stream passes byte for byte, and is counted", async () => {
      const used = async () =>
        Number(
          (await (await at.troupe.fetch("/metrics")).text())
            .split("\n")
            .find((line) => line.startsWith('gen_ai_client_token_usage_sum{gen_ai_token_type="output"'))
            ?.split(" ")
            .at(-1) ?? 0,
        );
      const before = await used();
      next.messages = () => sseResponse([messageStream]);
      const streamed = await post({ stream: true });
      expect([await streamed.text(), streamed.headers.get(formatHeader)]).toEqual([messageStream, "messages"]);
      expect((await used()) - before).toBe(9);
      const events = await Array.fromAsync(
        client.messages.stream({ model: at.model, max_tokens: 9, messages: [{ role: "user", content: "Hi" }] }),
      );
      expect(events.at(-1)?.type).toBe("message_stop");
      next.messages = usual.messages;
    });

    test.each([thought, unsigned])("a tool's turn comes back with its thinking as it was given: %o", async (given) => {
      next.messages = () => jsonResponse(message([given, call], "tool_use"));
      const { data } = await ask({ tools: [weather] });
      next.messages = usual.messages;
      const messages = [
        { role: "user", content: "Hi" },
        { role: "assistant", content: data.content },
        { role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "sunny" }] },
      ];
      const { response } = await ask({ tools: [weather], messages });
      expect(response.headers.get(formatHeader)).toBe("messages");
      // Claude checks signatures, and refuses thinking without one.
      const back = rules.signed === true && given === unsigned ? [call] : [given, call];
      expect((at.upstream.last.json as Body)["messages"]).toEqual(
        messages.with(1, { role: "assistant", content: back } as (typeof messages)[number]),
      );
      expect(at.upstream.last.text).toContain(JSON.stringify(back));
    });

    test("system turns, which Claude Code sends to names that it does not know, are taken", async () => {
      const messages = [
        { role: "user", content: "Hi" },
        { role: "system", content: "Be brief." },
      ];
      const { response } = await ask({ messages });
      expect(response.headers.get(formatHeader)).toBe("messages");
      expect(at.upstream.last.text).toContain("Be brief.");
    });

    test("its errors pass byte for byte", async () => {
      const raw = '{"type":"error", "error":{"type":"overloaded_error","message":"busy"}}';
      next.messages = () => new Response(raw, { status: 529, headers: { "content-type": "application/json" } });
      const refused = await post({});
      expect([refused.status, await refused.text(), refused.headers.get(formatHeader)]).toEqual([529, raw, "messages"]);
      next.messages = usual.messages;
    });

    test("tokens are counted there where it counts, and estimated elsewhere", async () => {
      const counts = rules.counts === true;
      const counted = await at.troupe.post("/gateway/v1/messages/count_tokens", {
        model: at.model,
        messages: [{ role: "user", content: "Hi" }],
      });
      const { input_tokens } = (await counted.json()) as { input_tokens: number };
      expect(input_tokens === 17).toBe(counts);
      expect(counted.headers.has("x-troupe-estimated")).toBe(!counts);
    });
  });
}

test("a translated turn's thinking goes back by the native endpoint where it is text, and by translation where it is sealed", async () => {
  const hi = { role: "user", content: "Hi" };
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "call_1", content: "sunny" }] };
  const use = { type: "tool_use", id: "call_1", name: "weather", input: {} };
  const details = [{ type: "reasoning.encrypted", data: "opaque", id: "r1", format: "google-gemini-v1", index: 0 }];
  for (const [name, signature, format, found] of [
    ["deepseek", "", "messages", '{"type":"thinking","thinking":"Hm.","signature":""}'],
    ["openrouter", seal("openrouter", { details }), "chat", JSON.stringify(details)],
  ] as const) {
    const { troupe, upstream, model } = await startWithEndpoints(name);
    const content = [{ type: "thinking", thinking: "Hm.", signature }, use];
    const messages = [hi, { role: "assistant", content }, result];
    const answered = await troupe.post("/gateway/v1/messages", { model, max_tokens: 9, tools: [weather], messages });
    expect([answered.status, answered.headers.get(formatHeader)]).toEqual([200, format]);
    expect(upstream.last.text).toContain(found);
    await troupe[Symbol.asyncDispose]();
    upstream[Symbol.dispose]();
  }
});

/** What each drops, and what says it to the translated call. */
const lost: readonly (readonly [name: string, more: object, found: string])[] = [
  ["deepseek", { output_config: { format: { type: "json_schema", schema: { type: "object" } } } }, "json_object"],
  ["deepseek", { tools: [weather], tool_choice: { type: "any" } }, '"tool_choice":"required"'],
  ["minimax", { stop_sequences: ["x"] }, '"stop":'],
  ["minimax", { tools: [weather], tool_choice: { type: "any" } }, '"tool_choice":"required"'],
  ["vllm", { thinking: { type: "enabled", budget_tokens: 2000 } }, '"reasoning_effort"'],
  ["ollama", { output_config: { format: { type: "json_schema", schema: { type: "object" } } } }, "json_schema"],
  ["llamacpp", { output_config: { format: { type: "json_schema", schema: { type: "object" } } } }, "json_schema"],
];
test.each(lost)("%s drops %j, which is translated", async (name, more, found) => {
  const { troupe, upstream, model } = await startWithEndpoints(name);
  const body = { model, max_tokens: 9, messages: [{ role: "user", content: "Hi" }], ...more };
  const answered = await troupe.post("/gateway/v1/messages", body);
  expect([answered.status, answered.headers.get(formatHeader)]).toEqual([200, "chat"]);
  expect(upstream.last.text).toContain(found);
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
});

test("a persona is put before the caller's own words, and is translated where it asks for what the native endpoint drops", async () => {
  const { troupe, upstream, model } = await startWithEndpoints("deepseek");
  troupe.setTargets("troupe/guide", [model]);
  const ask = () =>
    troupe.post("/v1/messages", { model: "troupe/guide", max_tokens: 9, messages: [{ role: "user", content: "Hi" }] });
  const passed = await ask();
  expect([passed.status, passed.headers.get(formatHeader)]).toEqual([200, "messages"]);
  expect((upstream.last.json as Body)["system"]).toMatchObject([{ type: "text" }]);
  const { personas } = troupe.server.services;
  const others = personas.list();
  const json = { responseFormat: { type: "json_object" as const } };
  personas.replace(others.map((one) => (one.id === "troupe/guide" ? { ...one, ...json } : one)));
  expect((await ask()).headers.get(formatHeader)).toBe("chat");
  await troupe[Symbol.asyncDispose]();
  upstream[Symbol.dispose]();
});

test("a tool that the upstream would run itself is refused by us where it has none, and passes where it has", async () => {
  const search = { type: "web_search_20250305", name: "web_search" };
  for (const [name, status] of [
    ["ollama", 400],
    ["deepseek", 200],
  ] as const) {
    const { troupe, upstream, model } = await startWithEndpoints(name);
    const body = { model, max_tokens: 9, messages: [{ role: "user", content: "Hi" }], tools: [search] };
    expect((await troupe.post("/gateway/v1/messages", body)).status).toBe(status);
    expect(upstream.requests).toHaveLength(status === 200 ? 1 : 0);
    await troupe[Symbol.asyncDispose]();
    upstream[Symbol.dispose]();
  }
});

for (const [name, rules] of Object.entries(responsesRules)) {
  describe(`${name} by Responses`, () => {
    let at: Started;
    let client: OpenAI;
    beforeAll(async () => {
      at = await startWithEndpoints(name);
      client = at.troupe.client("gateway");
    });
    afterAll(async () => {
      await at.troupe[Symbol.asyncDispose]();
      at.upstream[Symbol.dispose]();
    });
    const ask = (more: object) =>
      client.responses
        .create({ model: at.model, input: "Hi", ...more } as OpenAI.Responses.ResponseCreateParamsNonStreaming)
        .withResponse() as Promise<{ data: ResponseObject; response: Response }>;

    test("a call that nobody is to store passes, and so does its answer", async () => {
      const raw = ` ${JSON.stringify(response("resp_1", [reasoning, said("Hé")]))}`;
      next.responses = () => new Response(raw, { headers: { "content-type": "application/json" } });
      const sent = `{"model" : "${at.model}","store":false, "temperature":1.0,"input":"Hi"}`;
      const answered = await at.troupe.fetch("/gateway/v1/responses", {
        method: "POST",
        body: sent,
        headers: { "content-type": "application/json" },
      });
      expect([answered.status, answered.headers.get(formatHeader)]).toEqual([200, "responses"]);
      expect(await answered.text()).toBe(raw);
      expect(at.upstream.last.path).toBe(rules.path);
      expect(at.upstream.last.text).toBe(sent.replace(at.model, at.model.slice(name.length + 1)));
      next.responses = usual.responses;
    });

    test("Codex's fields pass, or are left out where neither format knows them", async () => {
      const more = {
        store: false,
        include: ["reasoning.encrypted_content"],
        prompt_cache_key: "conversation-1",
        instructions: "Be brief.",
        reasoning: { effort: "low", summary: "auto" },
        tools: [{ type: "function", name: "shell", parameters: { type: "object" }, strict: false }],
      };
      const { response } = await ask(more);
      expect(response.headers.get(formatHeader)).toBe("responses");
      const sent = at.upstream.last.json as Body;
      expect("include" in sent).toBe(rules.fields.includes("include"));
      expect([sent["reasoning"], sent["tools"]]).toEqual([more.reasoning, more.tools]);
    });

    test("reasoning in clear text comes back with the next turn as it was given", async () => {
      const { data } = await ask({ store: false });
      const input = [{ role: "user", content: "Hi" }, ...data.output, { role: "user", content: "Go on" }];
      await ask({ store: false, input });
      expect((at.upstream.last.json as Body)["input"]).toEqual(JSON.parse(JSON.stringify(input)));
      expect(at.upstream.last.text).toContain(JSON.stringify(reasoning));
    });

    test("an answer that is to be stored, and a turn that continues one, are kept here alone", async () => {
      const { data, response: first } = await ask({});
      expect(first.headers.get(formatHeader)).toBe("chat");
      const { response: second } = await ask({ previous_response_id: data.id, input: "Go on" });
      expect([second.status, second.headers.get(formatHeader)]).toEqual([200, "chat"]);
      expect(at.upstream.last.text).toContain("By chat");
      const kept = await client.responses.retrieve(data.id);
      expect(kept.output_text).toBe("By chat");
    });
  });
}

test("every row with a native endpoint has a strict stand-in for it, and each stand-in a row", () => {
  const speaks = (format: string) =>
    providers.flatMap((provider) => {
      if (provider.kind !== "remote" || provider.format !== "chat") return [];
      const account = { name: "x", baseUrl: provider.baseUrl, models: [], options: {}, modelRules: [] };
      const request = { model: "m", messages: [] };
      const found = [models[provider.name] ?? "m"].some((model) =>
        provider.native?.(format, { model, request, extras: {}, account, media: new Map() }),
      );
      return found ? [provider.name] : [];
    });
  const page = readFileSync(join(import.meta.dir, "../../docs/translation.md"), "utf8").split("\n");
  const table = page.slice(page.findIndex((line) => line.startsWith("| provider | Messages | Responses |")) + 2);
  const documented = (column: number) =>
    table.slice(0, table.indexOf("")).flatMap((line) => {
      const cells = line.split("|").map((cell) => cell.trim());
      return cells[column] === "" ? [] : cells[1]!.split(", ");
    });
  expect(documented(2).toSorted()).toEqual([...speaks("messages"), "anthropic", "foundry"].toSorted());
  expect(documented(3).toSorted()).toEqual(speaks("responses").toSorted());
  expect(speaks("messages").toSorted()).toEqual(Object.keys(messagesRules).toSorted());
  const own = ["openai", "xai", "azure"];
  expect(speaks("responses").toSorted()).toEqual([...Object.keys(responsesRules), ...own].toSorted());
});
