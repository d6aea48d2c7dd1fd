/** The end of an answer and its counts: in this format's words from those of the inner form, and back. */
import { countOf, type JsonObject, numberOf, objectOf, textOf } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import { raised } from "../../lib/json/raised.ts";
import { billedPlaces, type Place } from "../billed/places.ts";
import { billedBy, toldIn } from "../billed/reading.ts";
import type { BilledPart, ChunkBody, FinishReason, Usage } from "../chat/schema.ts";

type StopFields = {
  readonly stop_reason: string | null;
  readonly stop_sequence: string | null;
  readonly stop_details: JsonObject | null;
};

export const notStopped: StopFields = { stop_reason: null, stop_sequence: null, stop_details: null };

/** An end, as far as it is known. */
export type Ending = {
  readonly finish: FinishReason | null | undefined;
  /** The answer holds calls of the caller's tools. */
  readonly calls: boolean;
  /** The refusal in the model's or its provider's words. */
  readonly refusal?: string | undefined;
  /** The stop sequence that was hit, which some servers name beside the reason. */
  readonly stoppedAt?: unknown;
};

/**
 * Clients run tools on `tool_use` alone, and some upstreams say something else beside calls, so their presence decides; but an
 * answer cut short may hold half a call, which must not be run.
 * @param stops the request's stop sequences
 */
export function stopFields({ finish, calls, refusal, stoppedAt }: Ending, stops: readonly string[]): StopFields {
  if (finish === "length") return { ...notStopped, stop_reason: "max_tokens" };
  if (finish === "content_filter" || refusal) {
    const stop_details = { type: "refusal", category: null, explanation: refusal || null };
    return { ...notStopped, stop_reason: "refusal", stop_details };
  }
  if (calls) return { ...notStopped, stop_reason: "tool_use" };
  const sequence = textOf(stoppedAt);
  if (sequence !== undefined && stops.includes(sequence)) {
    return { ...notStopped, stop_reason: "stop_sequence", stop_sequence: sequence };
  }
  return { ...notStopped, stop_reason: "end_turn" };
}

/** https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons */
const finishReasons: Readonly<Record<string, FinishReason>> = {
  stop_sequence: "stop",
  pause_turn: "stop",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};

/** @param calls whether the answer calls a tool of the caller's; one that only carries the answer is none */
export function finishReason(stopReason: unknown, calls: boolean): FinishReason {
  const reason = textOf(stopReason) ?? "";
  if (Object.hasOwn(finishReasons, reason)) return finishReasons[reason]!;
  return calls ? "tool_calls" : "stop";
}

/** The stop sequence that vLLM and servers like it name beside `finish_reason`: https://docs.vllm.ai/en/latest/serving/openai_compatible_server */
export const stoppedAt = (choice: object): unknown => (choice as JsonObject)["stop_reason"];

/** The tiers that an answer names, in the inner form. */
const tiers: Readonly<Record<string, string>> = { standard: "default", priority: "priority" };
const ownTiers: Readonly<Record<string, string>> = { ...inverted(tiers), standard: "standard" };

/** Tokens from the cache, and those written to it, are counted apart from the others here. */
export function usageFields(usage: Usage | null | undefined, { service_tier }: Pick<ChunkBody, "service_tier"> = {}) {
  const details = usage?.prompt_tokens_details;
  const prompt = usage?.prompt_tokens ?? 0;
  // Some upstreams count what they read among what they wrote, too.
  const read = Math.min(details?.["cached_tokens"] ?? 0, prompt);
  const written = Math.min(details?.["cache_write_tokens"] ?? 0, prompt - read);
  const thinking = numberOf(objectOf(usage?.completion_tokens_details)?.["reasoning_tokens"]);
  const tier = ownMember(ownTiers, service_tier ?? "");
  return {
    input_tokens: prompt - read - written,
    cache_creation_input_tokens: written,
    cache_read_input_tokens: read,
    output_tokens: usage?.completion_tokens ?? 0,
    ...(thinking !== undefined && { output_tokens_details: { thinking_tokens: thinking } }),
    ...(tier !== undefined && { service_tier: tier }),
  };
}

const promptCounts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"] as const;

/**
 * Joins what two events of a stream report: counts are cumulative, what is not restated stays, and what says less than before says nothing.
 * The same prompt may be divided anew, by what of it was cached.
 */
export function laterCounts(known: JsonObject, reported: JsonObject): JsonObject {
  const joined = raised(known, reported);
  const [before, now] = [promptOf(known), promptOf(reported)];
  const isSame = now.length > 0 && sum(now.map(([, count]) => count)) === sum(before.map(([, count]) => count));
  if (!isSame) return joined;
  const finer = (countOf(reported["input_tokens"]) ?? 0) < (countOf(known["input_tokens"]) ?? 0);
  return { ...joined, ...Object.fromEntries(finer ? now : before) };
}

const promptOf = (usage: JsonObject): (readonly [string, number])[] =>
  promptCounts.flatMap((name) => {
    const count = countOf(usage[name]);
    return count === undefined ? [] : [[name, count] as const];
  });

const sum = (counts: readonly number[]): number => counts.reduce((all, one) => all + one, 0);

/** What is known of an answer beside its counts. */
export type Answering = {
  /** The model that answered, where another than the one that was asked did. */
  readonly servedBy?: string | undefined;
  /** True if the answer holds words of attempts that were declined in the middle of them. */
  readonly hasDeclined?: boolean;
};

/** Counts in the inner form's meaning: cached tokens count as prompt tokens. Undefined where nothing was counted. */
export function usageOf(usage: JsonObject, answering: Answering = {}): Usage | undefined {
  const found = toldIn(billedPlaces.messages, { usage });
  const { served, attempts = [], parts = [] } = found;
  const servedBy = textOf(served?.["model"])?.slice(0, maxName) ?? answering.servedBy;
  const others = [
    ...parts.map(({ what, counts }) => partOf(what, counts, usage)),
    ...(served !== undefined && answering.hasDeclined === true
      ? attempts.filter((one) => one["model"] !== served["model"] && countOf(one["output_tokens"]))
      : []
    ).map((counts) => partOf("a declined attempt", counts, usage)),
  ].filter((part) => part !== undefined);
  const billed = billedBy(found, { servedBy, parts: others.length > 0 ? others : undefined });
  const own = served === undefined ? usage : { ...usage, ...attemptsOf(served, attempts) };
  const counts = countsOf(own);
  if (counts === undefined && servedBy === undefined && others.length === 0) return undefined;
  return { ...(counts ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }), ...billed };
}

function countsOf(usage: JsonObject): Usage | undefined {
  const input = countOf(usage["input_tokens"]);
  const output = countOf(usage["output_tokens"]);
  if (input === undefined && output === undefined) return undefined;
  const read = countOf(usage["cache_read_input_tokens"]);
  const written = countOf(usage["cache_creation_input_tokens"]);
  const thinking = countOf(objectOf(usage["output_tokens_details"])?.["thinking_tokens"]);
  const prompt = (input ?? 0) + (read ?? 0) + (written ?? 0);
  const promptDetails = {
    ...(read !== undefined && { cached_tokens: read }),
    ...(written !== undefined && { cache_write_tokens: written }),
  };
  return {
    prompt_tokens: prompt,
    completion_tokens: output ?? 0,
    total_tokens: prompt + (output ?? 0),
    ...(Object.keys(promptDetails).length > 0 && { prompt_tokens_details: promptDetails }),
    ...(thinking !== undefined && { completion_tokens_details: { reasoning_tokens: thinking } }),
  };
}

/** The longest name of a model. */
const maxName = 128;

/** The counts of something beside the answer: with the whole request's tier and place, and its speed where it was the same model. */
function partOf(
  what: string,
  counts: JsonObject,
  { service_tier, inference_geo, speed }: JsonObject,
): BilledPart | undefined {
  const { model, iterations: _, ...own } = counts;
  const name = textOf(model)?.slice(0, maxName);
  const usage = usageOf({ service_tier, inference_geo, ...(name === undefined && { speed }), ...own });
  return usage && { what, model: name, usage };
}

/** The counts of the model that answered, in all its turns: those of the whole usage are of them alone. */
function attemptsOf(served: JsonObject, attempts: readonly JsonObject[]): JsonObject {
  const names = [...promptCounts, "output_tokens"];
  const own = [...attempts.filter(({ model }) => model === served["model"]), served];
  return Object.fromEntries(names.map((name) => [name, sum(own.map((one) => countOf(one[name]) ?? 0))]));
}

const wishes = ["inference_geo", "speed"].map((name) => {
  const place: Place | undefined = billedPlaces.messages.find(({ at }) => at === `usage.${name}`);
  return [name, place?.usual ?? []] as const;
});

/** @returns the names of a request's fields that ask for another place or speed than the usual */
export const specialWishes = (body: JsonObject): readonly string[] =>
  wishes.flatMap(([name, usual]) => {
    const value = body[name];
    return value == null || (typeof value === "string" && usual.includes(value.toLowerCase())) ? [] : [name];
  });

export function servedTier({ service_tier }: JsonObject): { service_tier?: string } {
  const tier = ownMember(tiers, textOf(service_tier) ?? "");
  return tier === undefined ? {} : { service_tier: tier };
}
