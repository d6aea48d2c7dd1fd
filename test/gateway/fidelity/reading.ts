/** How a careful client reads an answer that came through the gateway, and what it finds wrong with its form. */
import { expect } from "bun:test";
import type OpenAI from "openai";

export type Reading = {
  text: string;
  thoughts: string;
  refusal: string;
  /** Name and arguments of each call. */
  calls: [string, string][];
  finish: string;
  /** Prompt, completion, total; then cached and reasoning where they were told. */
  usage: number[];
};

/** What is expected: the rest is as in an empty answer that stopped. */
export type Wanted = Partial<Reading> | { error: number; body?: string } | { breaks: string; text?: string };

/** A case: the upstream's answer in one form or in both. */
export type Case = {
  readonly name: string;
  readonly ask?: Record<string, unknown>;
  readonly model?: string;
  readonly status?: number;
  readonly json?: unknown;
  readonly sse?: string;
  readonly want: Wanted;
};

type Message = OpenAI.ChatCompletionMessage & { reasoning_content?: string };

const numbersOf = (usage: OpenAI.CompletionUsage | null | undefined): number[] => {
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  const reasoning = usage?.completion_tokens_details?.reasoning_tokens;
  const counts = [usage?.prompt_tokens ?? -1, usage?.completion_tokens ?? -1, usage?.total_tokens ?? -1];
  if (!cached && !reasoning) return counts;
  return [...counts, cached ?? 0, ...(reasoning ? [reasoning] : [])];
};

const callOf = (call: {
  id?: string;
  type?: string;
  function?: { name?: string; arguments?: string };
  custom?: unknown;
}) => {
  const made = (call.function ?? call.custom) as { name?: string; arguments?: string; input?: string };
  return [made.name ?? "", made.arguments ?? made.input ?? ""] as [string, string];
};

export function readPlain(completion: OpenAI.ChatCompletion): Reading {
  expect(completion.object).toBe("chat.completion");
  const [{ message, finish_reason }] = completion.choices as [OpenAI.ChatCompletion.Choice];
  const { content, reasoning_content, refusal, tool_calls = [] } = message as Message;
  for (const call of tool_calls) expect([typeof call.id, call.id !== ""]).toEqual(["string", true]);
  return {
    text: content ?? "",
    thoughts: reasoning_content ?? "",
    refusal: refusal ?? "",
    calls: tool_calls.map(callOf),
    finish: finish_reason,
    usage: numbersOf(completion.usage),
  };
}

/** The chunks of a stream's text, and its legal form: one envelope, the role once and with a fragment, ends in order. */
export function chunksOf(text: string): OpenAI.ChatCompletionChunk[] {
  expect(text.endsWith("data: [DONE]\n\n")).toBe(true);
  const lines = text.split("\n\n").slice(0, -2);
  const chunks = lines.map((line) => {
    expect(line.startsWith("data: {")).toBe(true);
    return JSON.parse(line.slice("data: ".length)) as OpenAI.ChatCompletionChunk;
  });
  expect(new Set(chunks.map(({ id, created, model, object }) => `${id} ${created} ${model} ${object}`)).size).toBe(1);
  const started = new Set<number>();
  const finished = new Set<number>();
  for (const { choices } of chunks) {
    for (const { index, delta, finish_reason } of choices) {
      expect(finished.has(index)).toBe(false);
      expect(delta.role).toBe(started.has(index) || finish_reason !== null ? undefined : "assistant");
      if (finish_reason === null) {
        if (!started.has(index)) expect(Object.keys(delta).length).toBeGreaterThan(1);
        started.add(index);
      } else {
        expect(delta).toEqual({});
        finished.add(index);
      }
    }
  }
  return chunks;
}

export function readChunks(chunks: readonly OpenAI.ChatCompletionChunk[]): Reading {
  const reading: Reading = { text: "", thoughts: "", refusal: "", calls: [], finish: "", usage: [] };
  const last = chunks.at(-1)!;
  expect(last.choices).toEqual([]);
  reading.usage = numbersOf(last.usage);
  for (const { choices } of chunks) {
    for (const { index, delta, finish_reason } of choices) {
      if (index !== 0) continue;
      reading.text += delta.content ?? "";
      reading.thoughts += (delta as { reasoning_content?: string }).reasoning_content ?? "";
      reading.refusal += delta.refusal ?? "";
      for (const call of delta.tool_calls ?? []) readFragment(reading.calls, call);
      reading.finish = finish_reason ?? reading.finish;
    }
  }
  return reading;
}

function readFragment(calls: [string, string][], fragment: OpenAI.ChatCompletionChunk.Choice.Delta.ToolCall): void {
  const [name, written] = callOf(fragment);
  const known = calls[fragment.index];
  if (known === undefined) {
    expect([fragment.index, typeof fragment.id, fragment.type === undefined]).toEqual([calls.length, "string", false]);
    calls.push([name, written]);
  } else {
    expect([fragment.id, fragment.type, name]).toEqual([undefined, undefined, ""]);
    known[1] += written;
  }
}

export const empty: Reading = { text: "", thoughts: "", refusal: "", calls: [], finish: "stop", usage: [0, 0, 0] };

export const data = (...events: readonly (object | string)[]) =>
  events.map((event) => `data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`).join("");
