/**
 * Whatever format a client speaks: the official clients read the same in every provider's example answers, plain and streamed,
 * and what they send back in the next turn brings the maker its thinking state, and nobody else.
 */
import { describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { type Content, GoogleGenAI, type Part, ThinkingLevel } from "@google/genai";
import type { ResponseFunctionToolCall, ResponseInputItem } from "openai/resources/responses/responses";
import type { SurfaceName } from "../../src/config/config.ts";
import {
  type AnsweredCase,
  answeredCases,
  answeredRules,
  exampleResponse,
  fixtureFamilies,
} from "../helpers/fixtures.ts";
import { some } from "../helpers/long-form.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const persona = "troupe/tutor";
let answer: () => Response;

/** What every format tells of an answer. */
type Told = {
  thinking: string;
  text: string;
  calls: { name: string; args: unknown }[];
  end: "done" | "length" | "refused";
  usage: { input: number; cached: number; output: number; reasoning: number };
};

/** An answer as its client got it: what it tells, and what the client sends back of it. */
type Read = { readonly told: Told; readonly next: (to: string) => Promise<unknown> };
type Ask = {
  readonly surface: SurfaceName;
  readonly model: string;
  readonly stream: boolean;
};

const hi = "Hi";
const tools = ["get_weather", "get_time"].map((name) => ({ name, parameters: { type: "object", properties: {} } }));
/** Formats put several thoughts into one text, or into several. */
const joined = (...texts: string[]) => texts.join("").replaceAll(/\s/g, "");
const parse = (text: string): unknown => JSON.parse(text === "" ? "{}" : text);

async function byChat({ surface, model }: Ask): Promise<Read> {
  const { completions } = troupe.client(surface).chat;
  const body = {
    model,
    messages: [{ role: "user" as const, content: hi }],
    tools: tools.map((one) => ({ type: "function" as const, function: one })),
    reasoning_effort: "low" as const,
    include_thoughts: true,
  };
  const { choices, usage } = await completions.create(body);
  const { message, finish_reason } = choices[0]!;
  const calls = (message.tool_calls ?? []).filter((call) => call.type === "function");
  const { reasoning_content = "" } = message as { reasoning_content?: string };
  const refused = finish_reason === "content_filter" || (message.refusal ?? "") !== "";
  const results = calls.map(({ id }) => ({ role: "tool" as const, tool_call_id: id, content: "ok" }));
  return {
    told: {
      thinking: joined(reasoning_content),
      text: (message.content ?? "") + (message.refusal ?? ""),
      calls: calls.map((call) => ({ name: call.function.name, args: parse(call.function.arguments) })),
      end: finish_reason === "length" ? "length" : refused ? "refused" : "done",
      usage: {
        input: usage?.prompt_tokens ?? 0,
        cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
        output: usage?.completion_tokens ?? 0,
        reasoning: usage?.completion_tokens_details?.reasoning_tokens ?? 0,
      },
    },
    next: (to) =>
      completions.create({
        ...body,
        model: to,
        messages: [...body.messages, message, ...results, { role: "user", content: hi }] as never,
      }),
  };
}

async function byResponses({ surface, model, stream }: Ask): Promise<Read> {
  const { responses } = troupe.client(surface);
  const body = {
    model,
    input: [{ role: "user", content: hi }] as ResponseInputItem[],
    tools: tools.map((one) => ({ type: "function" as const, strict: null, ...one })),
    reasoning: { effort: "low" as const, summary: "auto" as const },
    include: ["reasoning.encrypted_content" as const],
    // A persona's call that is not kept would pass as it comes.
    store: true,
  };
  const response = stream ? await responses.stream(body).finalResponse() : await responses.create(body);
  const { output, usage } = response;
  const calls = output.filter(({ type }) => type === "function_call") as ResponseFunctionToolCall[];
  const parts = output.flatMap((item) => (item.type === "message" ? item.content : []));
  const thoughts = output.flatMap((item) =>
    item.type === "reasoning" ? [...item.summary, ...(item.content ?? [])] : [],
  );
  const reason = response.incomplete_details?.reason;
  const refused = reason === "content_filter" || parts.some(({ type }) => type === "refusal");
  const results = calls.map(({ call_id }) => ({ type: "function_call_output" as const, call_id, output: "ok" }));
  return {
    told: {
      thinking: joined(...thoughts.map(({ text }) => text)),
      text: parts.map((part) => (part.type === "refusal" ? part.refusal : part.text)).join(""),
      calls: calls.map((call) => ({ name: call.name, args: parse(call.arguments) })),
      end: reason === "max_output_tokens" ? "length" : refused ? "refused" : "done",
      usage: {
        input: usage?.input_tokens ?? 0,
        cached: usage?.input_tokens_details.cached_tokens ?? 0,
        output: usage?.output_tokens ?? 0,
        reasoning: usage?.output_tokens_details.reasoning_tokens ?? 0,
      },
    },
    next: (to) =>
      responses.create({
        ...body,
        model: to,
        input: [...body.input, ...(output as ResponseInputItem[]), ...results, { role: "user", content: hi }],
      }),
  };
}

async function byMessages({ surface, model, stream }: Ask): Promise<Read> {
  const baseURL = troupe.baseUrl(surface).replace(/\/v1$/, "");
  const { messages } = new Anthropic({ baseURL, apiKey: troupe.key, maxRetries: 0 });
  const body = {
    model,
    max_tokens: 4096,
    messages: [{ role: "user", content: hi }] as Anthropic.MessageParam[],
    tools: tools.map(({ name, parameters }) => ({ name, input_schema: parameters as { type: "object" } })),
    thinking: { type: "enabled" as const, budget_tokens: 1024 },
  };
  const message = stream ? await messages.stream(body).finalMessage() : await messages.create(body);
  const { content, usage, stop_reason } = message;
  const calls = content.filter((block) => block.type === "tool_use");
  const text = content.map((block) => (block.type === "text" ? block.text : "")).join("");
  // In Anthropic's own words it stands here alone.
  const explanation = (message.stop_details as { explanation?: string | null } | null)?.explanation ?? "";
  const results = calls.map(({ id }) => ({ type: "tool_result" as const, tool_use_id: id, content: "ok" }));
  const ends = { max_tokens: "length", model_context_window_exceeded: "length", refusal: "refused" } as const;
  const { cache_read_input_tokens: cached, cache_creation_input_tokens: written, output_tokens_details } = usage;
  return {
    told: {
      thinking: joined(...content.map((block) => (block.type === "thinking" ? block.thinking : ""))),
      text: text.includes(explanation) ? text : text + explanation,
      calls: calls.map(({ name, input }) => ({ name, args: input })),
      end: ends[stop_reason as keyof typeof ends] ?? "done",
      usage: {
        input: usage.input_tokens + (cached ?? 0) + (written ?? 0),
        cached: cached ?? 0,
        output: usage.output_tokens,
        reasoning: output_tokens_details?.thinking_tokens ?? 0,
      },
    },
    next: (to) =>
      messages.create({
        ...body,
        model: to,
        messages: [
          ...body.messages,
          { role: "assistant", content: content as Anthropic.ContentBlockParam[] },
          { role: "user", content: [...results, { type: "text", text: hi }] },
        ],
      }),
  };
}

async function byGemini({ surface, model, stream }: Ask): Promise<Read> {
  const baseUrl = troupe.baseUrl(surface).replace(/\/v1$/, "");
  const { models } = new GoogleGenAI({ apiKey: troupe.key, httpOptions: { baseUrl } });
  const contents: Content[] = [{ role: "user", parts: [{ text: hi }] }];
  const functionDeclarations = tools.map(({ name, parameters }) => ({ name, parametersJsonSchema: parameters }));
  const thinkingConfig = { includeThoughts: true, thinkingLevel: ThinkingLevel.LOW };
  const body = { model, contents, config: { tools: [{ functionDeclarations }], thinkingConfig } };
  const answers = stream
    ? await Array.fromAsync(await models.generateContentStream(body))
    : [await models.generateContent(body)];
  // Those of other candidates come between.
  const firsts = answers.flatMap(({ candidates = [] }) => candidates.filter(({ index = 0 }) => index === 0));
  const parts = firsts.flatMap(({ content }) => content?.parts ?? []);
  const calls = parts.flatMap(({ functionCall }) => functionCall ?? []);
  const texts = (isThought: boolean) =>
    parts.filter(({ thought = false }) => thought === isThought).map(({ text = "" }) => text);
  const { finishReason: reason } = firsts.findLast((one) => one.finishReason) ?? {};
  const feedback = answers.find(({ promptFeedback }) => promptFeedback)?.promptFeedback;
  const isRefused = feedback?.blockReason !== undefined || refusals.has(reason);
  const usage = answers.findLast(({ usageMetadata }) => usageMetadata)?.usageMetadata;
  const reasoning = usage?.thoughtsTokenCount ?? 0;
  const results = calls.map(
    ({ id, name }): Part => ({ functionResponse: { ...(id && { id }), name: name!, response: { output: "ok" } } }),
  );
  return {
    told: {
      thinking: joined(...texts(true)),
      text: texts(false).join("") + (isRefused ? (feedback?.blockReasonMessage ?? "") : ""),
      calls: calls.map(({ name, args }) => ({ name: name!, args: args ?? {} })),
      end: reason === "MAX_TOKENS" ? "length" : isRefused ? "refused" : "done",
      usage: {
        input: (usage?.promptTokenCount ?? 0) + (usage?.toolUsePromptTokenCount ?? 0),
        cached: usage?.cachedContentTokenCount ?? 0,
        output: (usage?.candidatesTokenCount ?? 0) + reasoning,
        reasoning,
      },
    },
    next: (to) =>
      models.generateContent({
        ...body,
        model: to,
        contents: [...contents, { role: "model", parts }, { role: "user", parts: [...results, { text: hi }] }],
      }),
  };
}

/** https://ai.google.dev/api/generate-content#FinishReason */
const refusals: ReadonlySet<string | undefined> = new Set([
  "SAFETY",
  "RECITATION",
  "BLOCKLIST",
  "PROHIBITED_CONTENT",
  "SPII",
]);

const readers = { responses: byResponses, messages: byMessages, gemini: byGemini };
/** The format in which an upstream's answer passes as it comes, and so in the form that was asked for. */
const natives: Readonly<Record<string, keyof typeof readers>> = {
  anthropic: "messages",
  openai: "responses",
  xai: "responses",
  azure: "responses",
  google: "gemini",
};

/** Half a call has no arguments to compare, and nobody asks for a custom tool here. */
const uncalled = /^cut-short-in-a-call$|custom-tool/;

const cases = fixtureFamilies()
  .filter(({ folder, provider }) => folder.endsWith("-responses") || natives[provider.name] !== "responses")
  .flatMap(({ folder, provider }) =>
    answeredCases(folder)
      .filter(({ name, expected }) => expected.error === undefined && !uncalled.test(name))
      .map((one) => [one.path, provider.name, one] as const),
  );

/**
 * What Google tells its own clients in another way: a prompt's block in a word, arguments in pieces, a list where events were
 * asked for, and an answer that the client asks on for.
 */
const unlike = /^(?:blocked-prompt|streamed-arguments|stream-in-list|continuation)/;

/** The forms in which a client may ask; none where the example's stream, which is shortened, would reach the client. */
function formsOf(surface: SurfaceName, provider: string, format: string, { form, name }: AnsweredCase): boolean[] {
  if (natives[provider] !== format) return [false, true];
  if (format === "responses") return surface === "gateway" ? [] : [false, true];
  if (format === "gemini" && unlike.test(name)) return [];
  return [form === "sse"];
}

const upstream = untilEnd(new UpstreamServer(() => answer()));
const named = fixtureFamilies().map(({ provider: { name } }) => {
  const isWithin = natives[name] === "responses";
  const modelRules = [...answeredRules(name), ...(isWithin ? [{ match: "*", responses_only: true }] : [])];
  return [name, { baseUrl: upstream.url, modelRules }];
});
const troupe = untilEnd(await Troupe.start({ providers: Object.fromEntries(named) }));

describe.each(["gateway", "orchestrator"] as const)("%s", (surface) => {
  // Personas are answered by the same code, so some of each provider's show it.
  const own = some(cases, surface === "gateway" ? 3 : 8);
  test.each(own)("%s is read alike", async (_, provider, one: AnsweredCase) => {
    troupe.setTargets(persona, [`${provider}/${one.model}`]);
    answer = () => exampleResponse(one.path);
    const model = surface === "gateway" ? `${provider}/${one.model}` : persona;
    const chat = await byChat({ surface, model, stream: false });
    for (const [format, read] of Object.entries(readers)) {
      for (const stream of formsOf(surface, provider, format, one)) {
        const { told } = await read({ surface, model, stream });
        // Gemini's client leaves out `finishMessage`, where a refusal stands beside what was said.
        const isPart = format === "gemini" && told.end === "refused" && chat.told.text.startsWith(told.text);
        const expected = isPart ? { ...chat.told, text: told.text } : chat.told;
        expect({ format, stream, ...told }).toEqual({ format, stream, ...expected });
      }
    }
  });
});

/** What makers sign or encrypt, by the names of its members. */
const stateNames = new Set(["signature", "thought_signature", "thoughtSignature", "encrypted_content"]);

function statesIn(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    stateNames.has(name) && typeof inner === "string" && inner !== "" ? [inner] : statesIn(inner),
  );
}

const stateful = cases.filter(([, , { expected }]) => statesIn(expected.completion ?? expected.chunks).length > 0);
/** Whose state tells its maker, who takes it from everybody. */
const resold = new Set(["openrouter"]);
/**
 * Clouds that run another maker's models: the maker takes its state back from there too.
 * Source: https://platform.claude.com/docs/en/build-with-claude/extended-thinking
 */
const makers: Readonly<Record<string, string>> = { bedrock: "anthropic", foundry: "anthropic", vertex: "google" };
/** Other makers' models, and an answer of each. */
const others: Readonly<Record<string, string>> = {
  "anthropic/claude-sonnet-4-5": "anthropic/text",
  "google/gemini-2.5-flash": "google/plain",
  "groq/some-model": "together/plain",
};

test("there are examples with thinking state of every maker that has some", () => {
  const found = new Set(stateful.map(([, provider]) => provider));
  expect([...found]).toEqual(expect.arrayContaining(["anthropic", "google", "openai", "xai", "openrouter"]));
});

test.each(some(stateful, 3))(
  "%s: its maker gets its state back in the next turn, and nobody else",
  async (_, provider, one) => {
    const model = `${provider}/${one.model}`;
    const states = [...new Set(statesIn(one.expected.completion ?? one.expected.chunks))];
    const nextOf = async (read: Read, to: string, path: string) => {
      answer = () => exampleResponse(path);
      // Whether the client can read what comes back is not asked here.
      await read.next(to).catch(() => {});
      return states.filter((state) => upstream.last.text.includes(JSON.stringify(state)));
    };
    const reads: [string, () => Promise<Read>][] = [
      ["chat", () => byChat({ surface: "gateway", model, stream: false })],
    ];
    for (const [format, read] of Object.entries(readers)) {
      const forms = formsOf("gateway", provider, format, one);
      for (const stream of forms)
        reads.push([`${format} ${stream}`, () => read({ surface: "gateway", model, stream })]);
    }
    const back: Record<string, string[]> = {};
    for (const [name, read] of reads) {
      answer = () => exampleResponse(one.path);
      const got = await read();
      back[name] = await nextOf(got, model, one.path);
      for (const [other, path] of Object.entries(others)) {
        if (other.startsWith(makers[provider] ?? provider) || (resold.has(provider) && path !== "together/plain"))
          continue;
        expect([name, other, await nextOf(got, other, path)]).toEqual([name, other, []]);
        expect(upstream.last.text).not.toContain("trp1.");
      }
    }
    // Images that a model makes have no place in Messages, and neither has what is signed of them.
    const ofImages = statesIn(one.expected.completion?.choices[0]?.message["images"]);
    const expected = (name: string) =>
      name.startsWith("messages") ? states.filter((state) => !ofImages.includes(state)) : states;
    expect(back).toEqual(Object.fromEntries(reads.map(([name]) => [name, expected(name)])));
  },
);
