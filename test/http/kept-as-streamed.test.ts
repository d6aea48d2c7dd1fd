/**
 * What is kept of an answer is what was streamed: each item under its id, in the same order, for reading it again and for the next
 * turn, which names items by their ids. The AI SDK's loop of tools does that with every step.
 */
import { expect, test } from "bun:test";
import { createOpenAI } from "@ai-sdk/openai";
import { jsonSchema, stepCountIs, streamText, tool } from "ai";
import fc from "fast-check";
import { runs } from "../helpers/long-form.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";
import { sseResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Json = Record<string, unknown>;
type Item = Json & { readonly id: string; readonly type: string };
const persona = "troupe/tutor";
let answer: (sent: Json) => Response;

const upstream = untilEnd(new UpstreamServer(({ json }) => answer(json as Json)));
const baseUrl = upstream.url;
const providers = { openai: { baseUrl }, openrouter: { baseUrl }, google: { baseUrl, apiKey: "AIza-test" } };
const troupe = untilEnd(await Troupe.start({ providers }));
troupe.setTargets(persona, ["openai/gpt-5.9"]);

const events = (given: readonly object[]) => sseResponse(given.map((event) => `data: ${JSON.stringify(event)}\n\n`));
const usage = { input_tokens: 5, output_tokens: 2, total_tokens: 7 };

/** Items of an upstream's Responses, as its events. */
function responses(output: readonly Json[]): Response {
  const response = { id: "resp_up", object: "response", status: "completed", output, usage };
  const all = [
    { type: "response.created", response: { ...response, status: "in_progress", output: [] } },
    ...output.flatMap((item, output_index) => [
      {
        type: "response.output_item.added",
        output_index,
        item: {
          ...item,
          ...(item["type"] === "reasoning" ? { summary: [] } : {}),
          ...(item["content"] ? { content: [] } : {}),
        },
      },
      ...((item["summary"] as { text: string }[] | undefined) ?? []).map(({ text }, summary_index) => ({
        type: "response.reasoning_summary_text.delta",
        output_index,
        item_id: item["id"],
        summary_index,
        delta: text,
      })),
      { type: "response.output_item.done", output_index, item },
    ]),
    { type: "response.completed", response },
  ];
  return events(all.map((event, sequence_number) => ({ ...event, sequence_number })));
}

const reasoning = (at: number, summary: readonly string[], encrypted_content: string | undefined) => ({
  id: `rs_${at}`,
  type: "reasoning",
  summary: summary.map((text) => ({ type: "summary_text", text })),
  ...(encrypted_content !== undefined && { encrypted_content }),
});
const message = (at: number, text: string) => ({
  id: `msg_${at}`,
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
});
const call = (at: number, name: string) => ({
  id: `fc_${at}`,
  type: "function_call",
  status: "completed",
  call_id: `call_${at}`,
  name,
  arguments: '{"city":"Oslo"}',
});

const items = fc
  .array(fc.tuple(fc.constantFrom("reasoning", "message", "call"), fc.integer({ min: 0, max: 2 }), fc.boolean()), {
    minLength: 1,
    maxLength: 6,
  })
  .map((given) =>
    given.map(([type, count, isSealed], at) =>
      type === "message"
        ? message(at, `text ${at}`)
        : type === "call"
          ? call(at, "weather")
          : reasoning(at, ["one", "two"].slice(0, count), isSealed ? `sealed ${at}` : undefined),
    ),
  )
  .filter((output) => output.some(({ type }) => type !== "reasoning"));

/** OpenRouter's fragments, with state in any place. */
const fragments = fc
  .array(fc.constantFrom("reasoning", "details", "content", "call"), { minLength: 1, maxLength: 7 })
  .map((kinds) =>
    kinds.map((kind, at): Json => {
      if (kind === "reasoning") return { reasoning: `hm ${at}` };
      if (kind === "content") return { content: `text ${at}` };
      if (kind === "details")
        return { reasoning_details: [{ type: "reasoning.encrypted", data: `d${at}`, format: "x" }] };
      const called = { name: "weather", arguments: "{}" };
      return { tool_calls: [{ index: at, id: `call_${at}`, type: "function", function: called }] };
    }),
  );
const chat = (deltas: readonly Json[]) =>
  events(
    [...deltas, undefined].map((delta) => ({
      id: "c",
      object: "chat.completion.chunk",
      created: 1,
      model: "m",
      choices: [{ index: 0, delta: delta ?? {}, finish_reason: delta === undefined ? "stop" : null }],
    })),
  );

/** Gemini's parts, signed or not. */
const parts = fc.array(fc.tuple(fc.constantFrom("thought", "text", "call"), fc.boolean()), {
  minLength: 1,
  maxLength: 6,
});
const gemini = (given: readonly (readonly [string, boolean])[]) =>
  events(
    given.map(([kind, isSigned], at) => {
      const part =
        kind === "call"
          ? { functionCall: { name: "weather", args: {} } }
          : { text: `${at}`, thought: kind === "thought" };
      const signed = { ...part, ...(isSigned && { thoughtSignature: `s${at}` }) };
      const isLast = at === given.length - 1;
      return { candidates: [{ content: { parts: [signed] }, ...(isLast && { finishReason: "STOP" }) }] };
    }),
  );

const answers = fc.oneof(
  items.map((output) => ["openai/gpt-5.9", () => responses(output)] as const),
  fragments.map((deltas) => ["openrouter/x/m", () => chat(deltas)] as const),
  parts.map((given) => ["google/gemini-3-flash-preview", () => gemini(given)] as const),
);
const tools = [{ type: "function", name: "weather", parameters: { type: "object" } }];
const post = (body: Json) => troupe.post("/v1/responses", body as never);

test("every id of every stream resolves, in the same order", async () => {
  await fc.assert(
    fc.asyncProperty(answers, async ([target, made]) => {
      troupe.setTargets(persona, [target]);
      answer = made;
      const body = { model: persona, input: "hi", tools, reasoning: { summary: "auto" } };
      const text = await (await post({ ...body, stream: true })).text();
      const told = text.split("\n\n").flatMap((event) => {
        const data = /^data: (.*)$/m.exec(event)?.[1];
        return data === undefined ? [] : [JSON.parse(data) as Json & { type: string; item: Item }];
      });
      const { output, id } = told.at(-1)!["response"] as { output: Item[]; id: string };
      const idsOf = (type: string) => told.filter((event) => event.type === type).map(({ item }) => item.id);
      const ids = output.map((item) => item.id);
      expect([idsOf("response.output_item.added"), idsOf("response.output_item.done")]).toEqual([ids, ids]);
      expect(new Set(ids).size).toBe(ids.length);
      const kept = (await (
        await fetch(`${troupe.url}/v1/responses/${id}`, { headers: { authorization: `Bearer ${troupe.key}` } })
      ).json()) as { output: Item[] };
      expect(kept.output).toEqual(output);
      // The next turn by references alone says what it says with the items themselves.
      const results = output.flatMap((item) =>
        item.type === "function_call"
          ? [{ type: "function_call_output", call_id: item["call_id"], output: "Rain." }]
          : [],
      );
      const sent = await Promise.all(
        [output, ids.map((one) => ({ type: "item_reference", id: one }))].map(async (said) => {
          answer = () => chat([{ content: "ok" }]);
          if (target.startsWith("openai")) answer = () => responses([message(0, "ok")]);
          if (target.startsWith("google")) answer = () => gemini([["text", false]]);
          const again = {
            ...body,
            input: ["hi", said, results].flat().map((one) => (one === "hi" ? hi : one)),
            stream: true,
          };
          const response = await post(again);
          expect([response.status, await response.text()]).toEqual([200, expect.any(String)]);
          return upstream.last.json;
        }),
      );
      expect(sent[1]).toEqual(sent[0]);
    }),
    { numRuns: runs(60) },
  );
});
const hi = { role: "user", content: "hi" };

test("the AI SDK's loop of tools goes past its first step, with a summary of reasoning", async () => {
  troupe.setTargets(persona, ["openai/gpt-5.9"]);
  answer = ({ input }) =>
    (input as Json[]).some(({ type }) => type === "function_call_output")
      ? responses([message(1, "It rains.")])
      : responses([reasoning(0, ["Hm."], "sealed"), call(1, "weather")]);
  const provider = createOpenAI({ baseURL: `${troupe.url}/v1`, apiKey: troupe.key });
  const weather = tool({ inputSchema: jsonSchema<Json>({ type: "object" }), execute: async () => "Rain." });
  const made = streamText({
    model: provider.responses(persona),
    prompt: "hi",
    tools: { weather },
    stopWhen: stepCountIs(3),
    maxRetries: 0,
  });
  expect(await made.text).toBe("It rains.");
  const { input } = upstream.last.json as { input: Json[] };
  expect(input.slice(-3)).toMatchObject([
    { type: "reasoning", id: "rs_0", encrypted_content: "sealed" },
    { type: "function_call", call_id: "call_1" },
    { type: "function_call_output", call_id: "call_1" },
  ]);
});
