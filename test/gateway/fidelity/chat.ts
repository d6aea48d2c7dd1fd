/** Answers of upstreams that speak chat completions: those that any of them may give, and those with an accent. */
import { type Case, data } from "./reading.ts";

const frame = { id: "c-1", object: "chat.completion.chunk", created: 1_790_000_000, model: "served-model" };
const usage = { prompt_tokens: 9, completion_tokens: 6, total_tokens: 15 };
const chunk = (
  delta: object | undefined,
  finish_reason: string | null = null,
  more: object = {},
  choice: object = {},
) => ({
  ...frame,
  choices: [{ index: 0, delta, logprobs: null, finish_reason, ...choice }],
  ...more,
});
const whole = (message: object, finish_reason: string | null = "stop", more: object = {}) => ({
  ...frame,
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", ...message }, logprobs: null, finish_reason }],
  usage,
  ...more,
});
const counted = { ...frame, choices: [], usage };
const call = (index: number, id: string, name: string, args: unknown) => ({
  index,
  id,
  type: "function",
  function: { name, arguments: args },
});
const piece = (index: number, args: string) => ({ index, function: { arguments: args } });
const rate = '{"error":{"message":"Too many.","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"}}';
const told = [9, 6, 15];

/** Every upstream of this kind may answer so. */
export const common: readonly Case[] = [
  { name: "text", json: whole({ content: "Hi ☃" }), want: { text: "Hi ☃", usage: told } },
  {
    name: "text in fragments, then the counts",
    sse: data(
      chunk({ role: "assistant", content: "" }),
      chunk({ content: "He" }),
      chunk({ content: "y" }),
      chunk({}, "stop"),
      counted,
      "[DONE]",
    ),
    want: { text: "Hey", usage: told },
  },
  {
    name: "counts on the last chunk, an end without [DONE], and CRLF",
    sse: data(chunk({ content: "Hey" }), chunk({ content: "" }, "length", { usage })).replaceAll("\n", "\r\n"),
    want: { text: "Hey", finish: "length", usage: told },
  },
  {
    name: "counts on every chunk: the last ones",
    sse: data(
      chunk({ content: "Hey" }, null, { usage: { prompt_tokens: 9, completion_tokens: 1, total_tokens: 10 } }),
      chunk({}, "stop", { usage }),
    ),
    want: { text: "Hey", usage: told },
  },
  {
    name: "counts of nobody",
    sse: data(chunk({ content: "Hey" }), chunk({}, "stop"), "[DONE]"),
    want: { text: "Hey" },
  },
  {
    name: "a call, and an empty text beside it",
    json: whole({ content: "", tool_calls: [call(0, "call_aaaa1", "f", '{"a":1}')] }, "tool_calls"),
    want: { calls: [["f", '{"a":1}']], finish: "tool_calls", usage: told },
  },
  {
    name: "two calls in mixed fragments, one without arguments",
    sse: data(
      chunk({ role: "assistant", content: null, tool_calls: [call(0, "call_1", "f", "")] }),
      chunk({ tool_calls: [call(1, "call_2", "g", "")] }),
      chunk({ tool_calls: [piece(0, '{"a"'), piece(1, "")] }),
      chunk({ tool_calls: [piece(0, ":1}")] }),
      chunk({}, "tool_calls"),
      counted,
      "[DONE]",
    ),
    want: {
      calls: [
        ["f", '{"a":1}'],
        ["g", "{}"],
      ],
      finish: "tool_calls",
      usage: told,
    },
  },
  {
    name: "whole calls without numbers, with the arguments as an object, and 'stop' as the reason",
    sse: data(
      chunk({ content: "So:" }),
      chunk(
        {
          tool_calls: [
            { id: "call_1", function: { name: "f", arguments: { a: 1 } } },
            { id: "call_2", function: { name: "g", arguments: "{}" } },
          ],
        },
        "stop",
        { usage },
      ),
      "[DONE]",
    ),
    want: {
      text: "So:",
      calls: [
        ["f", '{"a":1}'],
        ["g", "{}"],
      ],
      finish: "tool_calls",
      usage: told,
    },
  },
  {
    name: "a call that begins at another number and repeats its name",
    sse: data(
      chunk({ tool_calls: [call(3, "call_1", "f", "{")] }),
      chunk({
        tool_calls: [{ ...piece(3, "}"), id: "call_1", type: "function", function: { name: "f", arguments: "}" } }],
      }),
      chunk({}, "tool_calls"),
      counted,
    ),
    want: { calls: [["f", "{}"]], finish: "tool_calls", usage: told },
  },
  {
    name: "thoughts under either name",
    sse: data(
      chunk({ reasoning_content: "Hm" }),
      chunk({ reasoning: ", yes" }),
      chunk({ content: "Yes", reasoning: "" }),
      chunk({}, "stop"),
      counted,
      "[DONE]",
    ),
    want: { text: "Yes", thoughts: "Hm, yes", usage: told },
  },
  {
    name: "thoughts twice over are thoughts once",
    json: whole({ content: "Yes", reasoning_content: "Hm", reasoning: "Hm" }),
    want: { text: "Yes", thoughts: "Hm", usage: told },
  },
  {
    name: "filtered",
    json: whole({ content: null }, "content_filter"),
    want: { finish: "content_filter", usage: told },
  },
  {
    name: "an empty answer",
    sse: data(chunk({ role: "assistant", content: "" }), chunk({}, "stop"), "[DONE]"),
    want: {},
  },
  {
    name: "cached and reasoning tokens, audio and what else",
    json: whole({ content: "x" }, "stop", {
      usage: {
        prompt_tokens: 20,
        completion_tokens: 12,
        total_tokens: 32,
        prompt_tokens_details: { cached_tokens: 16, audio_tokens: null },
        completion_tokens_details: { reasoning_tokens: 8 },
        queue_time: 0.1,
      },
    }),
    want: { text: "x", usage: [20, 12, 32, 16, 8] },
  },
  {
    name: "comments, blank lines, an event without a space, unknown events and fields",
    sse: `: PROCESSING\n\n\n\nevent: message\nid: 7\nretry: 3\ndata:${JSON.stringify(chunk({ content: "A" }, null, { x_new: { a: 1 } }))}\n\n${data({ type: "unheard_of" }, chunk({ content: "B", mood: "fine" }), chunk({}, "stop"), "[DONE]")}`,
    want: { text: "AB" },
  },
  { name: "an unheard-of reason", json: whole({ content: "x" }, "tired"), want: { text: "x", usage: told } },
  { name: "a first event that is an error", sse: data(rate), want: { error: 429, body: rate } },
  {
    name: "a first fragment without anything, then an error",
    sse: data(chunk({ role: "assistant", content: "" }), rate, "[DONE]"),
    want: { error: 429, body: rate },
  },
  { name: "a 200 that is an error", json: JSON.parse(rate), want: { error: 429, body: rate } },
  {
    name: "an error within the stream",
    sse: data(chunk({ content: "He" }), rate),
    want: { text: "He", breaks: "Too many." },
  },
  {
    name: "an early end, within an event",
    sse: data(chunk({ content: "He" }), chunk({ content: "y" })).slice(0, -40),
    want: { text: "He", breaks: "ended its stream before the answer was finished" },
  },
  { name: "a stream of nothing but [DONE]", sse: data("[DONE]"), want: { error: 503 } },
  ...[400, 401, 403, 404, 413, 429, 500, 503, 529].map((status) => ({
    name: `refused with ${status}`,
    status,
    json: { error: { message: `no ${status}`, code: status } },
    want: { error: status, body: `{"error":{"message":"no ${status}","code":${status}}}` },
  })),
];

const thinkTags = (name: string): Case[] => [
  {
    name: "thoughts in tags",
    json: whole({ content: "<think>\nHm\n</think>\n\nYes" }),
    want: { text: "Yes", thoughts: "Hm", usage: told },
  },
  {
    name: `tags cut anywhere (${name})`,
    sse: data(
      ...["<th", "ink>H", "m</thi", "nk>", "\n\nYes <think>"].map((content) => chunk({ content })),
      chunk({}, "stop"),
      "[DONE]",
    ),
    want: { text: "Yes <think>", thoughts: "Hm" },
  },
];

/** What single upstreams do in their own way. */
export const accents: Readonly<Record<string, readonly Case[]>> = {
  openai: [
    {
      name: "a refusal",
      sse: data(
        chunk({ role: "assistant", content: "", refusal: null }),
        chunk({ refusal: "I " }),
        chunk({ refusal: "won't." }),
        chunk({}, "stop"),
        counted,
        "[DONE]",
      ),
      want: { refusal: "I won't.", usage: told },
    },
    {
      name: "padding against guesses, a tier, and a moderation after the counts",
      sse: data(
        chunk({ content: "A" }, null, { obfuscation: "xxx", service_tier: "default" }),
        chunk({}, "stop"),
        counted,
        { ...frame, choices: [], usage: null, moderation: { flagged: false } },
        "[DONE]",
      ),
      want: { text: "A", usage: told },
    },
  ],
  azure: [
    {
      name: "a frame without an answer before it, filters on each choice",
      sse: data(
        {
          choices: [],
          created: 0,
          id: "",
          model: "",
          object: "",
          prompt_filter_results: [{ prompt_index: 0, content_filter_results: {} }],
        },
        chunk({ role: "assistant", content: "" }, null, {}, { content_filter_results: {} }),
        chunk({ content: "A" }, null, {}, { content_filter_results: { hate: { filtered: false, severity: "safe" } } }),
        chunk({}, "content_filter", {}, { content_filter_results: { hate: { filtered: true, severity: "high" } } }),
        counted,
        "[DONE]",
      ),
      want: { text: "A", finish: "content_filter", usage: told },
    },
    {
      name: "a prompt that was filtered",
      status: 400,
      json: {
        error: {
          message: "filtered",
          type: null,
          param: "prompt",
          code: "content_filter",
          status: 400,
          innererror: { code: "ResponsibleAIPolicyViolation" },
        },
      },
      want: { error: 400 },
    },
  ],
  xai: [
    {
      name: "reasoning beside the completion's tokens",
      json: whole({ content: "Hello", reasoning_content: "First" }, "stop", {
        usage: {
          prompt_tokens: 12,
          completion_tokens: 1,
          total_tokens: 241,
          completion_tokens_details: { reasoning_tokens: 228 },
          prompt_tokens_details: { cached_tokens: 2 },
        },
      }),
      want: { text: "Hello", thoughts: "First", usage: [12, 229, 241, 2, 228] },
    },
    {
      name: "no finish_reason until the end, a whole call in a fragment",
      sse: data(
        { ...frame, choices: [{ index: 0, delta: { role: "assistant", reasoning_content: "Hm" } }] },
        { ...frame, choices: [{ index: 0, delta: { tool_calls: [call(0, "call_5511", "f", '{"a":1}')] } }] },
        { ...frame, choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
        counted,
        "[DONE]",
      ),
      want: { thoughts: "Hm", calls: [["f", '{"a":1}']], finish: "tool_calls", usage: told },
    },
    {
      name: "an error in words, with a 200",
      json: { code: "The service is currently unavailable", error: "Busy" },
      want: { error: 503 },
    },
    {
      name: "an error in words",
      status: 400,
      json: { code: "invalid-argument", error: "No." },
      want: { error: 400, body: '{"code":"invalid-argument","error":"No."}' },
    },
  ],
  mistral: [
    {
      name: "thoughts and text in one list",
      sse: data(
        chunk({ role: "assistant", content: "" }),
        chunk({ content: [{ type: "thinking", thinking: [{ type: "text", text: "Hm" }] }] }),
        chunk({
          content: [
            { type: "thinking", thinking: [{ type: "text", text: "." }], closed: true },
            { type: "text", text: "Y" },
          ],
        }),
        chunk({ content: "es" }),
        chunk({ content: "" }, "stop", { usage }),
        "[DONE]",
      ),
      want: { text: "Yes", thoughts: "Hm.", usage: told },
    },
    {
      name: "the model's own limit",
      json: whole({ content: "A" }, "model_length"),
      want: { text: "A", finish: "length", usage: told },
    },
    {
      name: "two whole calls and the end in one chunk",
      sse: data(
        chunk(
          {
            content: "",
            tool_calls: [
              { id: "aaaaaaaa1", function: { name: "f", arguments: "{}" } },
              { id: "aaaaaaaa2", function: { name: "f", arguments: '{"a":2}' } },
            ],
          },
          "tool_calls",
          { usage },
        ),
        "[DONE]",
      ),
      want: {
        calls: [
          ["f", "{}"],
          ["f", '{"a":2}'],
        ],
        finish: "tool_calls",
        usage: told,
      },
    },
    { name: "a flat error", status: 422, json: { detail: [{ loc: ["body", "x"], msg: "no" }] }, want: { error: 422 } },
  ],
  groq: [
    ...thinkTags("groq"),
    {
      name: "counts in a field of its own",
      sse: data(
        chunk({ role: "assistant", content: null }, null, { x_groq: { id: "r" } }),
        chunk({ reasoning: "Hm", channel: "analysis" }),
        chunk({ content: "A" }),
        chunk({}, "stop", { x_groq: { id: "r", usage } }),
        "[DONE]",
      ),
      want: { text: "A", thoughts: "Hm", usage: told },
    },
    {
      name: "a generation that failed",
      sse: `${data(chunk({ reasoning: "Hm" }))}event: error\ndata: {"error":{"message":"Failed to call a function.","type":"invalid_request_error","code":"tool_use_failed","failed_generation":"x","status_code":400}}\n\n`,
      want: { breaks: "Failed to call a function." },
    },
  ],
  deepseek: [
    {
      name: "both keys in each fragment, the idle one null, and cache hits",
      sse: data(
        chunk({ role: "assistant", content: null, reasoning_content: "Hm" }, null, { usage: null }),
        chunk({ content: "A", reasoning_content: null }, null, { usage: null }),
        chunk({ content: "", reasoning_content: null }, "stop", {
          usage: { ...usage, prompt_cache_hit_tokens: 4, prompt_cache_miss_tokens: 5 },
        }),
        ": keep-alive",
        "[DONE]",
      ),
      want: { text: "A", thoughts: "Hm", usage: [9, 6, 15, 4] },
    },
    {
      name: "blank lines before the answer",
      json: `\n\n\n${JSON.stringify(whole({ content: "A" }))}`,
      want: { text: "A", usage: told },
    },
    { name: "out of resources", json: whole({ content: "A" }, "insufficient_system_resource"), want: { error: 503 } },
  ],
  together: [
    ...thinkTags("together"),
    {
      name: "another word for the end",
      json: whole({ content: "A", tool_calls: [] }, "eos", { prompt: [] }),
      want: { text: "A", usage: told },
    },
    {
      name: "each fragment twice",
      sse: data(
        chunk({ role: "assistant", content: "A", token_id: 5 }, null, { usage: null }, { text: "A" }),
        chunk({ content: "", token_id: 6 }, "stop", { usage }, { text: "" }),
        "[DONE]",
      ),
      want: { text: "A", usage: told },
    },
  ],
  fireworks: [
    ...thinkTags("fireworks"),
    {
      name: "an error in a word",
      status: 404,
      json: { error: "Model not found" },
      want: { error: 404, body: '{"error":"Model not found"}' },
    },
  ],
  openrouter: [
    {
      name: "the role in each fragment, thoughts in two forms, counts with a second end",
      sse: data(
        chunk({
          role: "assistant",
          content: "",
          reasoning: "Hm",
          reasoning_details: [{ type: "reasoning.text", text: "Hm", index: 0, format: null }],
        }),
        chunk({ role: "assistant", content: "A" }),
        chunk({ role: "assistant", content: "" }, "stop", {}, { native_finish_reason: "end_turn" }),
        chunk({ role: "assistant", content: "" }, null, { usage: { ...usage, cost: 0.1 } }),
        "[DONE]",
      ),
      want: { text: "A", thoughts: "Hm", usage: told },
    },
    {
      name: "an error in a choice",
      json: {
        ...whole({ content: "" }),
        choices: [
          {
            index: 0,
            message: { role: "assistant", content: "" },
            finish_reason: "error",
            error: { code: 502, message: "Upstream broke" },
          },
        ],
      },
      want: { error: 502 },
    },
    {
      name: "an error with a 200",
      json: { error: { code: 429, message: "Rate limited", metadata: { raw: "x" } }, user_id: "u" },
      want: { error: 429 },
    },
    {
      name: "an error after the text",
      sse: data(
        chunk({ content: "A" }),
        chunk({ content: "" }, "error", { error: { code: 502, message: "Provider disconnected" } }),
        "[DONE]",
      ),
      want: { text: "A", breaks: "Provider disconnected" },
    },
  ],
  perplexity: [
    ...thinkTags("perplexity"),
    {
      name: "the message so far beside each fragment, sources in each chunk",
      sse: data(
        chunk(
          { role: "assistant", content: "A" },
          null,
          { citations: ["https://a.example"], usage },
          { message: { role: "assistant", content: "A" } },
        ),
        chunk(
          { role: "assistant", content: "B" },
          null,
          { citations: ["https://a.example"], usage },
          { message: { role: "assistant", content: "AB" } },
        ),
        {
          ...chunk({ role: "assistant", content: "" }, "stop", { citations: ["https://a.example"], usage }),
          object: "chat.completion.done",
        },
      ),
      want: { text: "AB", usage: told },
    },
  ],
  cerebras: [
    {
      name: "thoughts, and times beside the counts",
      sse: data(
        chunk({ role: "assistant", reasoning: "Hm" }),
        chunk({ content: "A" }),
        chunk({}, "stop", { usage, time_info: { total_time: 1 } }),
      ),
      want: { text: "A", thoughts: "Hm", usage: told },
    },
    {
      name: "a flat error",
      status: 400,
      json: { message: "no", type: "invalid_request_error", param: "x", code: "wrong_api_format" },
      want: { error: 400 },
    },
  ],
  moonshot: [
    {
      name: "counts in the choice",
      sse: data(
        chunk({ role: "assistant", content: "" }),
        chunk({ reasoning_content: "Hm" }),
        chunk({ content: "A" }),
        chunk({}, "stop", {}, { usage: { ...usage, cached_tokens: 3 } }),
        "[DONE]",
      ),
      want: { text: "A", thoughts: "Hm", usage: [9, 6, 15, 3] },
    },
  ],
  zai: [
    {
      name: "the role each time, an end without a reason before it",
      sse: data(
        { ...frame, choices: [{ index: 0, delta: { role: "assistant", reasoning_content: "Hm" } }] },
        { ...frame, choices: [{ index: 0, delta: { role: "assistant", content: "A" } }] },
        {
          ...frame,
          choices: [{ index: 0, delta: { role: "assistant", content: "" }, finish_reason: "sensitive" }],
          usage,
        },
        "[DONE]",
      ),
      want: { text: "A", thoughts: "Hm", finish: "content_filter", usage: told },
    },
    { name: "an error of the network", json: whole({ content: "" }, "network_error"), want: { error: 503 } },
  ],
  minimax: [
    ...thinkTags("minimax"),
    {
      name: "an error with a 200",
      json: { choices: null, base_resp: { status_code: 1008, status_msg: "insufficient balance" } },
      want: { error: 402 },
    },
  ],
  databricks: [
    {
      name: "thoughts as parts of the content",
      sse: data(
        chunk({
          role: "assistant",
          content: [{ type: "reasoning", summary: [{ type: "summary_text", text: "Hm", signature: "" }] }],
        }),
        chunk({ content: [{ type: "text", text: "A" }] }),
        chunk({ content: "" }, "stop", { usage }),
        "[DONE]",
      ),
      want: { text: "A", thoughts: "Hm", usage: told },
    },
  ],
  ollama: [
    {
      name: "a whole call",
      sse: data(
        chunk({ role: "assistant", content: "", tool_calls: [call(0, "call_x", "f", '{"a":1}')] }),
        chunk({ content: "" }, "tool_calls"),
        counted,
        "[DONE]",
      ),
      want: { calls: [["f", '{"a":1}']], finish: "tool_calls", usage: told },
    },
    {
      name: "thoughts",
      json: whole({ content: "A", reasoning: "Hm" }),
      want: { text: "A", thoughts: "Hm", usage: told },
    },
  ],
  vllm: [
    {
      name: "extras",
      json: whole({ content: "A", reasoning: null, tool_calls: [] }, "stop", {
        prompt_logprobs: null,
        kv_transfer_params: null,
      }),
      want: { text: "A", usage: told },
    },
    {
      name: "a flat error with a 200",
      sse: data({ object: "error", message: "bad", type: "BadRequestError", param: null, code: 400 }),
      want: { error: 400 },
    },
  ],
  llamacpp: [
    {
      name: "timings",
      sse: data(
        chunk({ role: "assistant", content: null }),
        chunk({ content: "A" }),
        chunk({}, "stop", { usage, timings: { predicted_ms: 1 } }),
        "[DONE]",
      ),
      want: { text: "A", usage: told },
    },
    {
      name: "an error line of older servers",
      sse: 'error: {"code":500,"message":"slot","type":"server_error"}\n\n',
      want: { error: 500 },
    },
  ],
  lmstudio: [
    {
      name: "statistics",
      json: whole({ content: "A" }, "stop", { stats: {}, system_fingerprint: "m" }),
      want: { text: "A", usage: told },
    },
  ],
};
