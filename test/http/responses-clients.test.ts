/** Clients that ask for Responses by default, as their users use them, through a loop of tools on every family of upstreams. */
import { describe, expect, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { HumanMessage, ToolMessage } from "@langchain/core/messages";
import { ChatOpenAI } from "@langchain/openai";
import { Agent, OpenAIResponsesModel, Runner, setTracingDisabled, tool } from "@openai/agents";
import { tool as aiTool, generateText, jsonSchema, stepCountIs, streamText } from "ai";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, type RecordedRequest, sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const parameters = {
  type: "object" as const,
  properties: { city: { type: "string" as const } },
  required: ["city"],
  additionalProperties: false as const,
};
const city = '{"city":"Oslo"}';
const weather = "sunny-in-Oslo";
const said = "It is sunny.";

type Family = {
  readonly model: string;
  /** First a thought and a call of `weather`, then, once its result is there, the text. */
  readonly answer: (request: RecordedRequest, isCall: boolean, isStream: boolean) => Response;
  /** What the second request must bring back of the first answer. */
  readonly expects: (body: never) => void;
};

const dataOf = (...values: object[]) => values.map((value) => `data: ${JSON.stringify(value)}\n\n`);
const namedOf = (...values: { type: string }[]) =>
  values.map((value) => `event: ${value.type}\ndata: ${JSON.stringify(value)}\n\n`);

const chatCall = { id: "call_w1", type: "function", function: { name: "weather", arguments: city } };
const chatUsage = { prompt_tokens: 9, completion_tokens: 4, total_tokens: 13 };
const chatFamily: Family = {
  model: "groq/x",
  answer(_, isCall, isStream) {
    const message = isCall ? { content: null, tool_calls: [chatCall] } : { content: said };
    const finish_reason = isCall ? "tool_calls" : "stop";
    if (!isStream) {
      return jsonResponse({
        choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason }],
        usage: chatUsage,
      });
    }
    const chunk = (delta: object, finish: string | null = null) => ({
      choices: [{ index: 0, delta, finish_reason: finish }],
    });
    const first = isCall ? { tool_calls: [{ index: 0, ...chatCall }] } : { content: said };
    return sseResponse([
      ...dataOf(chunk({ role: "assistant", ...first }), chunk({}, finish_reason), { choices: [], usage: chatUsage }),
      "data: [DONE]\n\n",
    ]);
  },
  expects({ messages }: { messages: object[] }) {
    expect(messages.slice(-2)).toMatchObject([
      { role: "assistant", tool_calls: [{ id: "call_w1", function: { name: "weather", arguments: city } }] },
      { role: "tool", tool_call_id: "call_w1", content: expect.stringContaining(weather) },
    ]);
  },
};

const thinking = { type: "thinking", thinking: "Let me look.", signature: "c2lnbmVk" };
const toolUse = { type: "tool_use", id: "toolu_w1", name: "weather", input: { city: "Oslo" } };
const anthropicFamily: Family = {
  model: "anthropic/claude-sonnet-4-5",
  answer(_, isCall, isStream) {
    const content = isCall ? [thinking, toolUse] : [{ type: "text", text: said }];
    const stop_reason = isCall ? "tool_use" : "end_turn";
    const usage = { input_tokens: 9, output_tokens: 4 };
    const message = {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "claude-sonnet-4-5",
      stop_sequence: null,
      usage,
    };
    if (!isStream) return jsonResponse({ ...message, content, stop_reason });
    const block = (index: number, begin: object, ...deltas: object[]) => [
      { type: "content_block_start", index, content_block: begin },
      ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
      { type: "content_block_stop", index },
    ];
    const blocks = isCall
      ? [
          ...block(
            0,
            { type: "thinking", thinking: "", signature: "" },
            { type: "thinking_delta", thinking: thinking.thinking },
            { type: "signature_delta", signature: thinking.signature },
          ),
          ...block(1, { ...toolUse, input: {} }, { type: "input_json_delta", partial_json: city }),
        ]
      : block(0, { type: "text", text: "" }, { type: "text_delta", text: said });
    return sseResponse(
      namedOf(
        { type: "message_start", message: { ...message, content: [], stop_reason: null } } as { type: string },
        ...blocks,
        { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage } as { type: string },
        { type: "message_stop" },
      ),
    );
  },
  expects({ messages }: { messages: object[] }) {
    expect(messages.slice(-2)).toEqual([
      { role: "assistant", content: [thinking, toolUse] },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "toolu_w1", content: expect.stringContaining(weather) }],
      },
    ] as never);
  },
};

const functionCall = { name: "weather", args: { city: "Oslo" }, id: "g_w1" };
const googleFamily: Family = {
  model: "google/gemini-3-flash-preview",
  answer(_, isCall, isStream) {
    const parts = isCall ? [{ functionCall, thoughtSignature: "s1" }] : [{ text: said }];
    const usageMetadata = { promptTokenCount: 9, candidatesTokenCount: 4, totalTokenCount: 13 };
    const body = { candidates: [{ index: 0, content: { role: "model", parts }, finishReason: "STOP" }], usageMetadata };
    return isStream ? sseResponse(dataOf(body)) : jsonResponse(body);
  },
  expects({ contents }: { contents: { role: string; parts: object[] }[] }) {
    const [model, user] = contents.slice(-2);
    expect(model!.parts).toMatchObject([
      { functionCall: { name: "weather", args: { city: "Oslo" } }, thoughtSignature: "s1" },
    ]);
    expect(JSON.stringify(user)).toContain(weather);
  },
};

/** OpenAI itself: the gateway passes the calls on as they are, and a persona's items are kept here alone. */
const reasoning = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: "gAAAA" };
const responsesFamily: Family = {
  model: "openai/gpt-5.9",
  answer(_, isCall, isStream) {
    const status = "completed";
    const called = { id: "fc_1", type: "function_call", status, call_id: "call_w1", name: "weather", arguments: city };
    const content = [{ type: "output_text", text: said, annotations: [], logprobs: [] }];
    const message = { id: "msg_1", type: "message", role: "assistant", status, content };
    const output = isCall ? [reasoning, called] : [message];
    const usage = {
      input_tokens: 9,
      input_tokens_details: { cached_tokens: 0 },
      output_tokens: 4,
      output_tokens_details: { reasoning_tokens: 1 },
      total_tokens: 13,
    };
    const response = {
      id: isCall ? "resp_1" : "resp_2",
      object: "response",
      created_at: 1,
      model: "gpt-5.9",
      status,
      output,
      usage,
    };
    if (!isStream) return jsonResponse(response);
    const events = [
      { type: "response.created", response: { ...response, status: "in_progress", output: [], usage: null } },
      ...output.flatMap((item, output_index) => {
        const place = { item_id: item.id, output_index };
        const begun = "content" in item ? { content: [] } : "arguments" in item ? { arguments: "" } : {};
        const within =
          "content" in item
            ? [
                { type: "response.content_part.added", ...place, content_index: 0, part: { ...content[0]!, text: "" } },
                { type: "response.output_text.delta", ...place, content_index: 0, delta: said, logprobs: [] },
                { type: "response.output_text.done", ...place, content_index: 0, text: said, logprobs: [] },
                { type: "response.content_part.done", ...place, content_index: 0, part: content[0]! },
              ]
            : "arguments" in item
              ? [
                  { type: "response.function_call_arguments.delta", ...place, delta: city },
                  { type: "response.function_call_arguments.done", ...place, arguments: city },
                ]
              : [];
        return [
          { type: "response.output_item.added", output_index, item: { ...item, ...begun, status: "in_progress" } },
          ...within,
          { type: "response.output_item.done", output_index, item },
        ];
      }),
      { type: "response.completed", response },
    ];
    return sseResponse(namedOf(...events.map((event, sequence_number) => ({ ...event, sequence_number }))));
  },
  expects({ input, store }: { input: { type?: string }[]; store?: boolean }) {
    expect(input.at(-1)).toMatchObject({ type: "function_call_output", call_id: "call_w1", output: expect.anything() });
    if (store !== false) return;
    expect(input.slice(-3, -1)).toMatchObject([
      { type: "reasoning", id: "rs_1", encrypted_content: "gAAAA" },
      { type: "function_call", call_id: "call_w1", name: "weather" },
    ]);
  },
};

let family: Family;

setTracingDisabled(true);
const upstream = untilEnd(
  new UpstreamServer((request) => {
    const isStream = request.path.includes("stream") || (request.json as { stream?: boolean }).stream === true;
    return family.answer(request, !request.text.includes(weather), isStream);
  }),
);
const baseUrl = upstream.url;
const troupe = untilEnd(
  await Troupe.start({
    providers: { groq: { baseUrl }, anthropic: { baseUrl }, google: { baseUrl }, openai: { baseUrl } },
  }),
);

const families = [
  ["chat", chatFamily],
  ["anthropic", anthropicFamily],
  ["google", googleFamily],
  ["openai", responsesFamily],
] as const;
const surfaces = ["gateway", "orchestrator"] as const;
const persona = "troupe/tutor";

describe.each(surfaces)("%s", (surface) => {
  describe.each(families)("%s", (_, chosen) => {
    const model = () => {
      family = chosen;
      troupe.setTargets(persona, [chosen.model]);
      return surface === "gateway" ? chosen.model : persona;
    };
    const settings = () => ({ baseURL: troupe.baseUrl(surface), apiKey: troupe.key });
    const expectLoop = (text: string, before: number) => {
      expect(text).toBe(said);
      expect(upstream.requests.length - before).toBe(2);
      chosen.expects(upstream.last.json as never);
    };
    const aiTools = {
      weather: aiTool({ inputSchema: jsonSchema<{ city: string }>(parameters), execute: async () => weather }),
    };

    test("AI SDK: generateText", async () => {
      const before = upstream.requests.length;
      const ask = { model: createOpenAI(settings())(model()), tools: aiTools, stopWhen: stepCountIs(3), maxRetries: 0 };
      const { text, steps } = await generateText({ ...ask, prompt: "Oslo?" });
      expect(steps[0]!.usage.inputTokens).toBe(9);
      expectLoop(text, before);
    });

    test("AI SDK: streamText", async () => {
      const before = upstream.requests.length;
      const ask = { model: createOpenAI(settings())(model()), tools: aiTools, stopWhen: stepCountIs(3), maxRetries: 0 };
      const result = streamText({ ...ask, prompt: "Oslo?" });
      expectLoop(await result.text, before);
    });

    const agent = () =>
      new Agent({
        name: "Forecaster",
        instructions: "Answer briefly.",
        model: new OpenAIResponsesModel(troupe.client(surface) as never, model()),
        tools: [tool({ name: "weather", description: "The weather.", parameters, execute: async () => weather })],
      });

    test("Agents SDK: run", async () => {
      const before = upstream.requests.length;
      const result = await new Runner({ tracingDisabled: true }).run(agent(), "Oslo?");
      expectLoop(result.finalOutput as string, before);
    });

    test("Agents SDK: run with a stream", async () => {
      const before = upstream.requests.length;
      const result = await new Runner({ tracingDisabled: true }).run(agent(), "Oslo?", { stream: true });
      for await (const _event of result) {
      }
      await result.completed;
      expectLoop(result.finalOutput as string, before);
    });

    test.each([false, true])("LangChain (streaming: %p)", async (streaming) => {
      const before = upstream.requests.length;
      const { baseURL, apiKey } = settings();
      const chat = new ChatOpenAI({
        model: model(),
        apiKey,
        configuration: { baseURL },
        useResponsesApi: true,
        streaming,
        maxRetries: 0,
      });
      const bound = chat.bindTools([{ type: "function", function: { name: "weather", parameters } }]);
      const question = new HumanMessage("Oslo?");
      const first = await bound.invoke([question]);
      const [called] = first.tool_calls!;
      expect(called).toMatchObject({ name: "weather", args: { city: "Oslo" } });
      const second = await bound.invoke([
        question,
        first,
        new ToolMessage({ content: weather, tool_call_id: called!.id! }),
      ]);
      expectLoop(second.text, before);
    });
  });
});
