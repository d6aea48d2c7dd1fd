/**
 * Sampling to models of OpenAI's that think: gemini-cli, LangChain and personas name a temperature whatever the model is. The upstream refuses
 * what it is documented to refuse: https://platform.openai.com/docs/guides/latest-model (parameter compatibility)
 */
import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { served, untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, UpstreamServer } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;

/** By model: the efforts with which sampling is taken; "" is none named. */
const taken: Readonly<Record<string, readonly string[]>> = {
  "gpt-4.1": ["", "none", "low"],
  "gpt-5-chat-latest": ["", "none", "low"],
  "gpt-5": [],
  "o3-mini": [],
  "gpt-5-mini": [],
  "gpt-5.1": ["", "none"],
  "gpt-5.4-mini": ["", "none"],
  "gpt-5.5": ["none"],
  "gpt-5.6-luna": ["none"],
  "gpt-6-sol": ["none"],
};

const folder = untilEnd(new TempFolder());

const refusable = ["temperature", "top_p", "logprobs", "top_logprobs"];

function answer({ json, path }: RecordedRequest): Response {
  const body = json as Json;
  const reasoning = body["reasoning"] as Json | undefined;
  const effort = String(body["reasoning_effort"] ?? reasoning?.["effort"] ?? "");
  const said = refusable.filter((name) => name in body);
  if (said.length > 0 && !taken[String(body["model"])]!.includes(effort))
    return jsonResponse(
      { error: { message: `Unsupported parameter: '${said[0]}' is not supported with this model.` } },
      400,
    );
  if (path.endsWith("/responses"))
    return jsonResponse({
      id: "resp_1",
      object: "response",
      created_at: 1,
      status: "completed",
      model: body["model"],
      output: [],
    });
  const message = { role: "assistant", content: "ok" };
  return jsonResponse({
    id: "c",
    object: "chat.completion",
    created: 1,
    model: "m",
    choices: [{ index: 0, message, finish_reason: "stop" }],
  });
}

const personaOf = (model: string) => `acme/${model.replaceAll(".", "-")}`;

mkdirSync(folder.file("acme"));
for (const model of Object.keys(taken)) {
  const text = `description: A.\nmodel: openai/${model}\nsystem: Be brief.\ndefaults: { temperature: 0.2, top_p: 0.9 }\n`;
  writeFileSync(folder.file(`${personaOf(model)}.yaml`), text);
}
const { troupe, upstream } = await served(answer, (url) => ({
  personas: folder.path,
  providers: {
    openai: { baseUrl: `${url}/v1`, apiKey: "sk" },
    azure: { baseUrl: url, apiKey: "k" },
  },
}));

const effortIn = (effort: string) => (effort === "" ? {} : { reasoning_effort: effort });
const messages = [{ role: "user", content: "Hi" }];

/** By its name: a call with sampling whose effort is this one, where the format has a word for it. */
const calls: Readonly<Record<string, (model: string, effort: string) => readonly [string, object] | undefined>> = {
  "a persona by chat": (model, effort) => [
    "/v1/chat/completions",
    { model: personaOf(model), messages, ...effortIn(effort) },
  ],
  "a persona by Responses": (model, effort) => [
    "/v1/responses",
    { model: personaOf(model), input: "Hi", ...(effort !== "" && { reasoning: { effort } }) },
  ],
  // Unstored, it passes as it came, but for the persona's.
  "a persona by unstored Responses": (model, effort) => [
    "/v1/responses",
    {
      model: personaOf(model),
      input: "Hi",
      store: false,
      top_logprobs: 2,
      ...(effort !== "" && { reasoning: { effort } }),
    },
  ],
  Messages: (model, effort) => [
    "/gateway/v1/messages",
    {
      ...{ model: `openai/${model}`, max_tokens: 99, messages, temperature: 0.3, top_p: 0.5 },
      ...(effort === "none" && { thinking: { type: "disabled" } }),
      ...(effort === "low" && { output_config: { effort } }),
    },
  ],
  Gemini: (model, effort) =>
    effort === "none"
      ? undefined
      : [
          `/gateway/v1beta/models/openai/${model}:generateContent`,
          {
            contents: [{ parts: [{ text: "Hi" }] }],
            generationConfig: {
              ...{ temperature: 0, topP: 0.95, topK: 64, presencePenalty: 0.1 },
              ...(effort === "low" && { thinkingConfig: { thinkingLevel: "LOW" } }),
            },
          },
        ],
  "Messages with tools": (model, effort) => [
    "/gateway/v1/messages",
    {
      ...{ model: `openai/${model}`, max_tokens: 99, messages, temperature: 0.3 },
      tools: [{ name: "f", input_schema: { type: "object", properties: {} } }],
      ...(effort === "low" && { output_config: { effort } }),
    },
  ],
  "Azure by Messages": (model) => [
    "/gateway/v1/messages",
    { model: `azure/${model}`, max_tokens: 99, messages, temperature: 0.3, top_p: 0.5 },
  ],
};

test.each(Object.entries(calls))("%s", async (name, call) => {
  for (const [model, efforts] of Object.entries(taken)) {
    for (const effort of ["", "none", "low"]) {
      const asked = call(model, effort);
      if (asked === undefined) continue;
      const answered = await troupe.post(asked[0], asked[1], { headers: { "anthropic-version": "2023-06-01" } });
      const text = await answered.text();
      expect([name, model, effort, answered.status, answered.status === 200 ? "" : text]).toEqual([
        name,
        model,
        effort,
        200,
        "",
      ]);
      // Nothing is left out that the model takes.
      const sent = upstream.last.json as Json;
      const went = String(sent["reasoning_effort"] ?? (sent["reasoning"] as Json | undefined)?.["effort"] ?? "");
      expect([name, model, effort, "temperature" in sent]).toEqual([name, model, effort, efforts.includes(went)]);
    }
  }
});

test("Kimi's later models have a temperature of their own, too", async () => {
  using kimi = new UpstreamServer(() =>
    jsonResponse({ id: "c", object: "chat.completion", created: 1, model: "m", choices: [] }),
  );
  await using other = await Troupe.start({ providers: { moonshot: { baseUrl: `${kimi.url}/v1` } } });
  const asked = { max_tokens: 99, messages, temperature: 0.3, top_p: 0.5 };
  for (const [model, expected] of [
    ["kimi-k2.6", false],
    ["moonshot-v1-auto", true],
  ] as const) {
    await other.post("/gateway/v1/messages", { model: `moonshot/${model}`, ...asked });
    expect("temperature" in (kimi.last.json as Json)).toBe(expected);
  }
});

test("who names the model by chat completions is told by the upstream, byte for byte", async () => {
  const body = { model: "openai/gpt-5", messages, temperature: 0.2 };
  const answered = await troupe.post("/gateway/v1/chat/completions", body);
  expect([answered.status, await answered.text()]).toEqual([
    400,
    expect.stringContaining("'temperature' is not supported"),
  ]);
});
