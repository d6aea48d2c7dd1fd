/** Counts of a call, from the usage of an answer in the inner form. */
import { isObject } from "../../lib/json/json.ts";
import { billed, type Usage } from "../../protocols/chat/schema.ts";
import type { TokenCounts } from "../../store/contract/usage.ts";

/** No part is more than its whole, and parts that exclude each other fit in it together. */
export type Counted = {
  readonly tokens: TokenCounts;
  /** Cached tokens that are audio too. */
  readonly audioCacheRead: number;
  readonly imageInput: number;
  readonly imageOutput: number;
  /** Images that the answer holds. */
  readonly images: number;
  /** Length of a recording that is billed by it. */
  readonly audioSeconds: number;
  /** Uses of hosted tools, by their names. */
  readonly tools: Readonly<Record<string, number>>;
  /** Options that the answer names beside its service tier and that change the price, by their names in prices. */
  readonly surcharges: readonly string[];
  /** Micro-dollars, where the upstream itself returns the cost. */
  readonly cost: number | undefined;
};

export const noTokens: TokenCounts = {
  input: 0,
  cacheRead: 0,
  cacheWrite5m: 0,
  cacheWrite1h: 0,
  output: 0,
  reasoning: 0,
  audioInput: 0,
  audioOutput: 0,
};

const noTools: Readonly<Record<string, number>> = {};
const noSurcharges: readonly string[] = [];

/** Upstreams may say anything: what is no count is none. */
export function countedOf(usage: Usage): Counted {
  const { prompt_tokens_details: prompt, completion_tokens_details: completion } = usage;
  const more = usage[billed];
  const input = countOf(usage.prompt_tokens);
  const output = countOf(usage.completion_tokens);
  const cost = usage.cost === undefined && usage.cost_in_usd_ticks === undefined ? undefined : upstreamCost(usage);
  // Text alone has no other counts.
  if (prompt === undefined && completion === undefined && more === undefined)
    return {
      tokens: { ...noTokens, input, output },
      audioCacheRead: 0,
      imageInput: 0,
      imageOutput: 0,
      images: 0,
      audioSeconds: 0,
      tools: noTools,
      surcharges: noSurcharges,
      cost,
    };
  const cacheRead = Math.min(input, countOf(prompt?.["cached_tokens"]));
  const written = Math.min(
    input - cacheRead,
    countOf(
      prompt?.["cache_write_tokens"] || prompt?.["cache_creation_tokens"] || prompt?.["cache_creation_input_tokens"],
    ),
  );
  const cacheWrite1h = Math.min(written, countOf(more?.cacheWrite1h));
  const audioInput = Math.min(input - written, countOf(prompt?.["audio_tokens"]));
  const notCached = input - cacheRead - written;
  // Audio input that is not fresh was cached, whether the upstream says so or not.
  const audioCacheRead = Math.max(
    audioInput - notCached,
    Math.min(cacheRead, audioInput, countOf(more?.audioCacheRead ?? prompt?.["cached_audio_tokens"])),
  );
  const reasoning = Math.min(output, countOf(completion?.["reasoning_tokens"]));
  const audioOutput = Math.min(output - reasoning, countOf(completion?.["audio_tokens"]));
  return {
    tokens: {
      input,
      cacheRead,
      cacheWrite5m: written - cacheWrite1h,
      cacheWrite1h,
      output,
      reasoning,
      audioInput,
      audioOutput,
    },
    audioCacheRead,
    imageInput: Math.min(notCached - (audioInput - audioCacheRead), countOf(more?.imageInput)),
    imageOutput: Math.min(output - reasoning - audioOutput, countOf(more?.imageOutput)),
    images: countOf(more?.images),
    audioSeconds: countOf(Math.round(more?.audioSeconds ?? 0)),
    tools: more?.tools ?? noTools,
    surcharges: more?.surcharges ?? noSurcharges,
    cost,
  };
}

function upstreamCost(usage: Usage): number | undefined {
  // https://openrouter.ai/docs/use-cases/usage-accounting: `cost` in credits, which are dollars; with a key of one's own at the
  // upstream that is OpenRouter's fee alone, and the rest stands beside it.
  const { cost, cost_in_usd_ticks: ticks, cost_details: details } = usage;
  // https://docs.x.ai/docs/key-information/consumption-and-rate-limits: ten billion ticks are a dollar.
  if (isAmount(ticks)) return Math.round(ticks / 10_000);
  // https://docs.perplexity.ai/api-reference/chat-completions-post
  if (isObject(cost) && isAmount(cost["total_cost"])) return Math.round(cost["total_cost"] * 1e6);
  if (!isAmount(cost)) return undefined;
  const beside = usage["is_byok"] === true ? (details as Record<string, unknown> | undefined) : undefined;
  const upstream = beside?.["upstream_inference_cost"];
  return Math.round(cost * 1e6 + (isAmount(upstream) ? upstream * 1e6 : 0));
}

const isAmount = (value: unknown): value is number => typeof value === "number" && value >= 0 && value < 1e15;

/** Beyond this no upstream counts: sums stay exact. */
const maxCount = 1_000_000_000;

function countOf(value: unknown): number {
  return typeof value === "number" && value > 0 ? Math.min(maxCount, Math.trunc(value)) : 0;
}
