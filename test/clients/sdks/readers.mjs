/**
 * JavaScript's clients as readers of one answer: each line of the input is a question (`Question` in `reader.ts`), each line of the
 * output what the client made of the answer to it. Those that are no dependencies of this project lie in the folder `TROUPE_SDKS`.
 */
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const parameters = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const weather = { name: "weather", description: "The weather.", parameters };
const nested = [{ type: "function", function: weather }];
const said = "sunny";
const user = (content) => ({ role: "user", content });
const written = (args) => (typeof args === "string" ? args : JSON.stringify(args));
const made = (text, calls, end, more = {}) => ({
  ...{ text, calls: calls.map(([name, args]) => [name, written(args)]), end: end ?? null, ...more },
});
const installed = (name) =>
  import(pathToFileURL(createRequire(`${process.env["TROUPE_SDKS"]}/of.js`).resolve(name)).href);

/** Some spell the members of the format in camel case. */
const spelled = {
  snake: { calls: "tool_calls", end: "finish_reason", tier: "service_tier", id: "tool_call_id" },
  camel: { calls: "toolCalls", end: "finishReason", tier: "serviceTier", id: "toolCallId" },
};

/** A client whose answers have OpenAI's form; it stops at the first end, as the plainest loop does. */
const readChat = (create, words) => async (stream, history) => {
  let message, end, answer;
  if (stream) {
    let text = "";
    const calls = [];
    for await (const event of await create(true, history)) {
      answer = event.data ?? event; // Mistral's events.
      const [choice] = answer.choices;
      text += choice.delta.content ?? "";
      for (const one of choice.delta[words.calls] ?? []) {
        calls[one.index] ??= { id: one.id, type: "function", function: { name: one.function.name, arguments: "" } };
        calls[one.index].function.arguments += written(one.function.arguments ?? "");
      }
      end = choice[words.end] ?? end;
      if (end) break;
    }
    message = { role: "assistant", content: text || null, ...(calls.length > 0 && { [words.calls]: calls }) };
  } else {
    answer = await create(false, history);
    message = answer.choices[0].message;
    end = answer.choices[0][words.end];
  }
  const calls = message[words.calls] ?? [];
  const results = calls.map((call) => ({ role: "tool", [words.id]: call.id, content: said }));
  const read = calls.map((call) => [call.function.name, call.function.arguments]);
  const got = made(message.content ?? "", read, end, { tier: answer[words.tier] ?? null });
  return [got, [message, ...(results.length > 0 ? results : [user("and?")])]];
};

const stainless = (client) =>
  readChat(
    (stream, messages) => client.chat.completions.create({ model, messages, tools: nested, stream }),
    spelled.snake,
  );

async function openai() {
  const { default: OpenAI } = await import("openai");
  return new OpenAI({ baseURL: `${url}/gateway/v1`, apiKey: key, maxRetries: 0 });
}

async function together() {
  const { default: Together } = await installed("together-ai");
  return stainless(new Together({ baseURL: `${url}/gateway/v1`, apiKey: key, maxRetries: 0 }));
}

async function groq() {
  const { default: Groq } = await installed("groq-sdk");
  // Its path begins with Groq's own.
  return stainless(new Groq({ baseURL: `${url}/gateway`, apiKey: key, maxRetries: 0 }));
}

async function openrouter() {
  const { OpenRouter } = await installed("@openrouter/sdk");
  const client = new OpenRouter({ serverURL: `${url}/gateway/v1`, apiKey: key, retryConfig: { strategy: "none" } });
  const create = (stream, messages) => client.chat.send({ chatRequest: { model, messages, tools: nested, stream } });
  return readChat(create, spelled.camel);
}

async function mistral() {
  const { Mistral } = await installed("@mistralai/mistralai");
  // Adds /v1 itself.
  const client = new Mistral({ serverURL: `${url}/gateway`, apiKey: key, retryConfig: { strategy: "none" } });
  const create = (stream, messages) => client.chat[stream ? "stream" : "complete"]({ model, messages, tools: nested });
  return readChat(create, spelled.camel);
}

async function responses() {
  const client = await openai();
  return async (stream, input) => {
    const asked = { model, input, tools: [{ type: "function", ...weather, strict: false }], store: false };
    const answer = stream
      ? await client.responses.stream(asked).finalResponse()
      : await client.responses.create(asked);
    const calls = answer.output.filter(({ type }) => type === "function_call");
    const results = calls.map(({ call_id }) => ({ type: "function_call_output", call_id, output: said }));
    const read = calls.map((call) => [call.name, call.arguments]);
    const got = made(answer.output_text, read, answer.status, { tier: answer.service_tier ?? null });
    return [got, [...answer.output, ...(results.length > 0 ? results : [user("and?")])]];
  };
}

async function anthropic() {
  const { default: Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ baseURL: `${url}/gateway`, apiKey: key, authToken: null, maxRetries: 0 });
  const tools = [{ name: "weather", description: "The weather.", input_schema: parameters }];
  return async (stream, messages) => {
    const asked = { model, max_tokens: 99, messages, tools };
    const { content, stop_reason } = stream
      ? await client.messages.stream(asked).finalMessage()
      : await client.messages.create(asked);
    const uses = content.filter(({ type }) => type === "tool_use");
    const results = uses.map(({ id }) => ({ type: "tool_result", tool_use_id: id, content: said }));
    const text = content.map((block) => (block.type === "text" ? block.text : "")).join("");
    const read = uses.map(({ name, input }) => [name, input]);
    const got = made(text, read, stop_reason, { last: content.at(-1)?.type });
    return [got, [{ role: "assistant", content }, user(results.length > 0 ? results : "and?")]];
  };
}

async function genai() {
  const { GoogleGenAI } = await import("@google/genai");
  const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: `${url}/gateway` } });
  const config = { tools: [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: parameters }] }] };
  return async (stream, history) => {
    const contents = history.map((one) => (one.content ? { role: "user", parts: [{ text: one.content }] } : one));
    const asked = { model, contents, config };
    const answers = stream
      ? await client.models.generateContentStream(asked)
      : [await client.models.generateContent(asked)];
    const parts = [];
    let end;
    for await (const { candidates } of answers) {
      parts.push(...(candidates[0].content?.parts ?? []));
      end = candidates[0].finishReason ?? end;
    }
    const text = parts.map((part) => (part.thought ? "" : (part.text ?? ""))).join("");
    const calls = parts.flatMap(({ functionCall }) => functionCall ?? []);
    const results = calls.map(({ id, name }) => ({ functionResponse: { id, name, response: { result: said } } }));
    const next = results.length > 0 ? { role: "user", parts: results } : user("and?");
    const read = calls.map(({ name, args }) => [name, args]);
    return [made(text, read, end), [{ role: "model", parts }, next]];
  };
}

/** By a model of the AI SDK, which names the ends of all formats the same. */
const aiSdk = (modelOf) => async () => {
  const { generateText, jsonSchema, streamText } = await import("ai");
  globalThis.AI_SDK_LOG_WARNINGS = false;
  const chosen = await modelOf();
  const tools = { weather: { description: weather.description, inputSchema: jsonSchema(parameters) } };
  return async (stream, messages) => {
    const asked = { model: chosen, messages, tools, maxRetries: 0 };
    let failure;
    const onError = ({ error }) => {
      failure ??= error; // The break of the connection is told behind the words.
    };
    const answer = stream ? streamText({ ...asked, onError }) : await generateText(asked);
    if (stream) await answer.consumeStream({ onError });
    if (failure !== undefined) throw failure;
    const [text, calls, end, response] = await Promise.all([
      answer.text,
      answer.toolCalls,
      answer.finishReason,
      answer.response,
    ]);
    const results = calls.map(({ toolCallId, toolName }) => ({
      ...{ type: "tool-result", toolCallId, toolName, output: { type: "text", value: said } },
    }));
    const read = calls.map(({ toolName, input }) => [toolName, input]);
    const next = results.length > 0 ? { role: "tool", content: results } : user("and?");
    return [made(text, read, end), [...response.messages, next]];
  };
};
const setting = () => ({ baseURL: `${url}/gateway/v1`, apiKey: key });

const clients = {
  "openai, chat": async () => stainless(await openai()),
  "openai, Responses": responses,
  "@anthropic-ai/sdk": anthropic,
  "@google/genai": genai,
  "@ai-sdk/openai, chat": aiSdk(async () => (await import("@ai-sdk/openai")).createOpenAI(setting()).chat(model)),
  "@ai-sdk/openai, Responses": aiSdk(async () => (await import("@ai-sdk/openai")).createOpenAI(setting())(model)),
  "@ai-sdk/openai-compatible": aiSdk(async () => {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    return createOpenAICompatible({ name: "troupe", ...setting() })(model);
  }),
  "@ai-sdk/anthropic": aiSdk(async () => (await import("@ai-sdk/anthropic")).createAnthropic(setting())(model)),
  "@ai-sdk/google": aiSdk(async () => {
    const { createGoogleGenerativeAI: create } = await installed("@ai-sdk/google");
    return create({ baseURL: `${url}/gateway/v1beta`, apiKey: key })(model);
  }),
  "together-ai": together,
  "groq-sdk": groq,
  "@openrouter/sdk": openrouter,
  "@mistralai/mistralai": mistral,
};

const { TROUPE_URL: home, TROUPE_KEY: key } = process.env;
let url = home;
let model;
for await (const line of createInterface({ input: process.stdin })) {
  const question = JSON.parse(line);
  const { stream } = question;
  url = question.url ?? home;
  model = question.model;
  let got;
  try {
    const ask = await clients[question.client]();
    const history = [user("hi")];
    const [first, turn] = await ask(stream, history);
    got = question.again ? (await ask(stream, [...history, ...turn]))[0] : first;
  } catch (error) {
    got = { error: `${error?.name}: ${error?.message}` };
  }
  process.stdout.write(`${JSON.stringify(got)}\n`);
}
