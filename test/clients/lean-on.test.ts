/**
 * What published libraries lean on, as their sources show, and upstreams do otherwise: Troupe makes it right on the way. Each row names its
 * libraries (of PyPI, npm, Go, Maven); they need not be installed, as what counts are the bytes that they are sent.
 */
import { describe, expect, test } from "bun:test";
import { served } from "../helpers/served.ts";
import { jsonResponse, type RecordedRequest, sseResponse } from "../helpers/upstream-server.ts";
import { agentFamilies } from "../helpers/upstreams/agent.ts";

let answer: (request: RecordedRequest) => Response | Promise<Response>;
const { troupe, upstream } = await served(
  (request) => answer(request),
  (url) => ({
    providers: {
      groq: { baseUrl: url },
      anthropic: { baseUrl: url, apiKey: "sk-ant-test" },
      google: { baseUrl: url, apiKey: "AIza-test" },
    },
  }),
);

/** One of "hi" in chat completions; `data` lines are read, all else is in the text. */
async function asked(model: string, stream: boolean): Promise<{ text: string; events: Chunk[] }> {
  const tools = [{ type: "function", function: { name: "weather", parameters: { type: "object" } } }];
  const messages = [{ role: "user", content: "hi" }];
  const answered = await troupe.post("/gateway/v1/chat/completions", { model, messages, tools, stream });
  const text = await answered.text();
  const lines = stream ? [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => data!) : [text];
  return { text, events: lines.map((line) => JSON.parse(line) as Chunk) };
}
type Call = { index?: number; id?: string; function?: object };
type Choice = {
  index?: number;
  delta?: { content?: string; tool_calls?: Call[] };
  message?: object;
  finish_reason?: string | null;
};
type Chunk = { choices?: Choice[]; error?: object };
const event = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
const chunk = (choice: object) => event({ id: "c", object: "chat.completion.chunk", created: 1, choices: [choice] });
const delta = (given: object, finish_reason: string | null = null) => chunk({ index: 0, delta: given, finish_reason });
const call = (id: string, city: string, more: object = {}) => ({
  ...{ id, type: "function", function: { name: "weather", arguments: `{"city":"${city}"}` }, ...more },
});
const whole = (message: object, finish_reason: string | null, more: object = { index: 0 }) =>
  jsonResponse({
    id: "c",
    created: 1,
    choices: [{ ...more, message: { role: "assistant", ...message }, finish_reason }],
  });
const callsOf = (events: readonly Chunk[]) =>
  events.flatMap(({ choices }) =>
    (choices ?? []).flatMap(({ delta }) => (delta?.tool_calls ? [delta.tool_calls] : [])),
  );
const endsOf = (events: readonly Chunk[]) =>
  events.flatMap(({ choices }) => (choices ?? []).flatMap(({ finish_reason }) => finish_reason ?? []));

type Row = {
  readonly behaviour: string;
  readonly libraries: readonly string[];
  readonly tests: () => void;
};
const rows: readonly Row[] = [
  {
    behaviour: "each call of a stream has its `index`",
    // By which they join its fragments: absent it is a KeyError, one call made of two, or none.
    libraries: [
      ...["openai 3.54.0", "openai-agents 0.24.0", "langchain-openai 1.7.3", "llama-index-llms-openai 0.8.3"],
      ...["haystack-ai 3.4.0", "google-adk 2.13.0", "strands-agents 1.62.0", "smolagents 1.26.0", "agno 3.1.10"],
      ...["autogen-ext 0.7.5", "pydantic-ai-slim 2.38.0", "openai 7.55.0 (npm)", "@openai/agents 0.20.0"],
      ...["@langchain/openai 1.6.0", "openai-go 3.99.0", "eino 0.7.36"],
    ],
    tests() {
      const calls = [call("a", "Oslo"), call("b", "Rome")];
      test.each([
        ["without one, in chunks of their own", calls.map((one) => delta({ tool_calls: [one] }))],
        ["without one, in the same chunk", [delta({ tool_calls: calls })]],
        ["both as 0", calls.map((one) => delta({ tool_calls: [{ ...one, index: 0 }] }))],
        ["null", calls.map((one) => delta({ tool_calls: [{ ...one, index: null }] }))],
      ])("where the upstream has them %s", async (_how, events) => {
        answer = () => sseResponse([...events, delta({}, "tool_calls"), "data: [DONE]\n\n"]);
        const got = callsOf((await asked("groq/m", true)).events).flat();
        expect(got.filter(({ id }) => id).map(({ index, id }) => [index, id])).toEqual([
          [0, "a"],
          [1, "b"],
        ]);
        expect(got.every(({ index }) => index === 0 || index === 1)).toBeTrue();
      });

      test("and a fragment without one belongs to the call before it", async () => {
        const fragments = ['{"city":', '"Oslo"}'].map((part) =>
          delta({ tool_calls: [{ function: { arguments: part } }] }),
        );
        const opened = delta({ tool_calls: [call("a", "", { function: { name: "weather", arguments: "" } })] });
        answer = () => sseResponse([opened, ...fragments, delta({}, "tool_calls"), "data: [DONE]\n\n"]);
        const got = callsOf((await asked("groq/m", true)).events).flat();
        expect([...new Set(got.map(({ index }) => index))]).toEqual([0]);
        const written = got.map((one) => (one.function as { arguments?: string }).arguments ?? "");
        expect(written.join("")).toBe('{"city":"Oslo"}');
      });
    },
  },
  {
    behaviour: "each choice has its `index`",
    // They look for number 0, or keep the choices by it.
    libraries: [
      ...["openai-agents 0.24.0", "@openai/agents 0.20.0", "openai 7.55.0 (npm)", "haystack-ai 3.4.0"],
      ...["openai-java 4.101.0"],
    ],
    tests() {
      test("streamed", async () => {
        const choice = { delta: { content: "Hello" }, finish_reason: null };
        answer = () => sseResponse([chunk(choice), chunk({ delta: {}, finish_reason: "stop" }), "data: [DONE]\n\n"]);
        const { events } = await asked("groq/m", true);
        const choices = events.flatMap(({ choices }) => choices ?? []);
        expect(choices.map(({ index }) => index)).toEqual(choices.map(() => 0));
        expect(choices.map(({ delta }) => delta?.content ?? "").join("")).toBe("Hello");
      });

      test("whole", async () => {
        answer = () => whole({ content: "Hello" }, "stop", {});
        expect((await asked("groq/m", false)).events[0]!.choices).toMatchObject([{ index: 0 }]);
      });
    },
  },
  {
    behaviour: "an end is one of the format's",
    // Else it is `unknown`, `other`, unspecified or none to them, and some loops go on with the calls only behind `tool_calls`.
    libraries: [
      ...["autogen-ext 0.7.5", "google-adk 2.13.0", "haystack-ai 3.4.0", "pydantic-ai-slim 2.38.0"],
      ...["@ai-sdk/openai 4.0.118", "@ai-sdk/openai-compatible 3.0.92"],
    ],
    tests() {
      const calls = [call("a", "Oslo", { index: 0 })];
      test.each([
        [null, { content: "Hello" }, "stop"],
        ["", { content: "Hello" }, "stop"],
        ["end_turn", { content: "Hello" }, "stop"],
        ["a_word_of_tomorrow", { content: "Hello" }, "stop"],
        ["MAX_TOKENS", { content: "Hello" }, "length"],
        ["stop", { content: null, tool_calls: calls }, "tool_calls"],
        [null, { content: null, tool_calls: calls }, "tool_calls"],
        ["a_word_of_tomorrow", { content: null, tool_calls: calls }, "tool_calls"],
      ])("%p behind %j is %s", async (given, message, end) => {
        answer = () => whole(message, given);
        expect((await asked("groq/m", false)).events[0]!.choices).toMatchObject([{ finish_reason: end }]);
        answer = () => sseResponse([delta(message), ...(given ? [delta({}, given)] : []), "data: [DONE]\n\n"]);
        expect(endsOf((await asked("groq/m", true)).events)).toEqual([end]);
      });
    },
  },
  {
    behaviour: "a chunk has one call",
    // They read the first of a chunk alone, or refuse more: "Currently only one tool call is supported per message!"
    libraries: ["llama-index-llms-openai 0.8.3", "litellm 1.83.0 (for Databricks)", "spring-ai-openai 1.1.2"],
    tests() {
      test("where the upstream sends several at once", async () => {
        const calls = ["Oslo", "Rome", "Bern"].map((city, index) => call(city, city, { index }));
        answer = () => sseResponse([delta({ tool_calls: calls }, "tool_calls"), "data: [DONE]\n\n"]);
        const got = callsOf((await asked("groq/m", true)).events);
        expect(got.map((one) => one.map(({ index, id }) => [index, id]))).toEqual([
          [[0, "Oslo"]],
          [[1, "Rome"]],
          [[2, "Bern"]],
        ]);
      });
    },
  },
  {
    behaviour: "an upstream's pings stay with it",
    // In chat completions each event is an answer to them: `choices[0]` of an empty one fails, and other lines spoil the words of a later error.
    libraries: ["autogen-ext 0.7.5", "go-openai 1.43.0 (sashabaranov)", "eino-ext acl/openai 0.1.11"],
    tests() {
      const signs = [
        ...["event: ping\ndata: {}\n\n", "event: ping\n\n", ": ping\n\n", 'data: {"type":"ping"}\n\n'],
        ...['event: ping\ndata: {"type":"ping"}\n\n', 'event: keep-alive\ndata: {"ping":1}\n\n'],
      ];
      test.each(signs)("%j", async (sign) => {
        const sent = [delta({ content: "Hel" }), delta({ content: "lo" }), delta({}, "stop"), "data: [DONE]\n\n"];
        answer = () => sseResponse(sent.flatMap((one) => [sign, one]));
        const { text, events } = await asked("groq/m", true);
        expect(text).not.toContain("ping");
        expect(events.every(({ choices }) => choices?.length === 1)).toBeTrue();
        expect(events.map(({ choices }) => choices![0]!.delta?.content ?? "").join("")).toBe("Hello");
      });

      test("Anthropic's", async () => {
        const { answer: given } = agentFamilies.anthropic;
        answer = (request) => given({ text: "Hello" }, agentFamilies.anthropic.read(request));
        const { text, events } = await asked("anthropic/claude-sonnet-4-6", true);
        expect(text).not.toContain("ping");
        expect(events.every(({ choices }) => choices?.length === 1)).toBeTrue();
      });
    },
  },
  {
    behaviour: "an error's name stands behind its data",
    // They gather the lines that are no data until the error's own, and parse all of it: a name before the data loses the words.
    libraries: ["eino-ext acl/openai 0.1.11", "go-openai 1.43.0 (sashabaranov)", "go-openai 0.1.1 (meguminnnnnnnnn)"],
    tests() {
      test("where the upstream has it before them", async () => {
        const error = { error: { message: "the model is gone", type: "server_error", param: null, code: null } };
        answer = () => sseResponse([delta({ content: "Hel" }), `event: error\n${event(error)}`]);
        const { text, events } = await asked("groq/m", true);
        // What such a reader gathers is the JSON of the error and nothing else.
        const lines = text.split("\n").map((line) => line.trim());
        const at = lines.findIndex((line) => /^data: \{"error":/.test(line));
        expect(
          lines
            .slice(0, at)
            .filter((line) => !line.startsWith("data:"))
            .join(""),
        ).toBe("");
        expect(events.at(-1)!.error).toMatchObject({ message: "the model is gone" });
        expect(lines[at + 1]).toBe("");
        expect(text).toMatch(/\ndata: \{"error":[^\n]*\nevent: error\n\ndata: \[DONE\]\n\n$/);
      });
    },
  },
  {
    behaviour: "results reach Gemini in the order of the calls",
    // It sends them as they come, the fastest tool's first; Gemini 2.5 has no ids and reads them by their order.
    libraries: ["llama-index-core 0.14.25 (agents)"],
    tests() {
      test.each(["gemini-2.5-flash", "gemini-3-flash-preview"])(
        "where the second is there first, for %s",
        async (name) => {
          const { answer: given, read } = agentFamilies.google;
          answer = (request) => given({ text: "Hello" }, read(request));
          const calls = ["slow", "fast"].map((one) => call(one, "Oslo", { function: { name: one, arguments: "{}" } }));
          const messages = [
            { role: "user", content: "hi" },
            { role: "assistant", content: null, tool_calls: calls },
            ...["fast", "slow"].map((one) => ({ role: "tool", tool_call_id: one, content: `it is ${one}` })),
          ];
          const tools = calls.map(({ function: { name } }) => ({ type: "function", function: { name } }));
          await troupe.post("/gateway/v1/chat/completions", { model: `google/${name}`, messages, tools });
          type Part = { functionResponse?: { name: string; response: object } };
          const { contents } = upstream.last.json as { contents: { parts: Part[] }[] };
          const results = contents.flatMap(({ parts }) =>
            parts.flatMap(({ functionResponse }) => functionResponse ?? []),
          );
          expect(results.map((one) => [one.name, JSON.stringify(one.response)])).toEqual([
            ["slow", expect.stringContaining("it is slow")],
            ["fast", expect.stringContaining("it is fast")],
          ]);
        },
      );
    },
  },
];

for (const { behaviour, libraries, tests } of rows) describe(`${behaviour} (${libraries.join(", ")})`, tests);
