/** The end of an answer and its counts: in this format's words from those of the inner form, and back. */
import { countOf, countsByName, isObject, type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import { billedPlaces } from "../billed/places.ts";
import { billedBy, toldIn } from "../billed/reading.ts";
import { billedAs, type FinishReason, type Usage } from "../chat/schema.ts";

/** Source: https://platform.openai.com/docs/api-reference/responses/object (status) */
export type ResponseStatus = "queued" | "in_progress" | "completed" | "incomplete" | "failed" | "cancelled";

/** https://platform.openai.com/docs/api-reference/responses/object (status) */
const endedStatuses = new Set<unknown>(["completed", "incomplete"]);
const openStatuses = new Set<unknown>(["queued", "in_progress"]);

/** Some servers have a word of their own (`complete`), or none: there the items themselves show that they are finished. */
export function hasEnded({ status }: JsonObject, items: readonly JsonObject[]): boolean {
  if (endedStatuses.has(status)) return true;
  return !openStatuses.has(status) && items.length > 0 && items.every((item) => !openStatuses.has(item["status"]));
}

/** True where an answer, and with it its last item, is incomplete. A refusal is an answer. */
export function isCut(reason: FinishReason, hasRefused: boolean): boolean {
  return reason === "length" || (reason === "content_filter" && !hasRefused);
}

/** Reasons of an incomplete answer. */
const incompleteReasons: Readonly<Record<string, FinishReason>> = {
  max_output_tokens: "length",
  max_messages: "length",
  content_filter: "content_filter",
};

const reasonsOfCuts = inverted(incompleteReasons);

/** An answer cut short says so even when it holds calls: their arguments may be cut too. */
export function finishReasonOf(response: JsonObject, calls: number): FinishReason {
  if (response["status"] === "incomplete") {
    const reason = textOf(objectOf(response["incomplete_details"])?.["reason"]) ?? "";
    return ownMember(incompleteReasons, reason) ?? "length";
  }
  return calls > 0 ? "tool_calls" : "stop";
}

type End = { readonly status: ResponseStatus; readonly reason?: string | undefined };

export function endOf(reason: FinishReason, hasRefused: boolean): End {
  if (!isCut(reason, hasRefused)) return { status: "completed" };
  return { status: "incomplete", reason: ownMember(reasonsOfCuts, reason) };
}

/**
 * Counts mean here what they mean in the inner form: input includes cached tokens, output includes reasoning. All are there, as
 * typed clients want them: https://platform.openai.com/docs/api-reference/responses/object (usage).
 */
export function usageFields({ prompt_tokens, completion_tokens, total_tokens, ...details }: Usage): JsonObject {
  const { prompt_tokens_details: input, completion_tokens_details: output } = details;
  return {
    input_tokens: prompt_tokens,
    input_tokens_details: {
      cached_tokens: input?.["cached_tokens"] ?? 0,
      cache_write_tokens: input?.["cache_write_tokens"] ?? input?.["cache_creation_tokens"] ?? 0,
    },
    output_tokens: completion_tokens,
    output_tokens_details: { reasoning_tokens: output?.["reasoning_tokens"] ?? 0 },
    total_tokens,
  };
}

/** Counts in the public format's meaning, which is this format's too: input includes cached, output includes reasoning. */
function usageOf(value: unknown): Usage | undefined {
  const { input_tokens, output_tokens, total_tokens, input_tokens_details, output_tokens_details, ...rest } =
    objectOf(value) ?? {};
  const [input, output] = [countOf(input_tokens), countOf(output_tokens)];
  if (input === undefined || output === undefined) return undefined;
  const inputDetails = countsIn(input_tokens_details);
  const outputDetails = countsIn(output_tokens_details);
  const cached = inputDetails?.["cached_tokens"] ?? 0;
  // More cached than read in all: then the cached ones were not counted.
  const prompt = cached > input ? input + cached : input;
  const total = prompt === input ? countOf(total_tokens) : undefined;
  return {
    ...rest,
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: total ?? prompt + output,
    ...(inputDetails && { prompt_tokens_details: inputDetails }),
    ...(outputDetails && { completion_tokens_details: outputDetails }),
  };
}

const countsIn = (details: unknown) => (isObject(details) ? countsByName(details) : undefined);

/** The counts of a whole response: what it says itself, and what stands beside that. */
export function countsOf(response: JsonObject): Usage | undefined {
  const usage = usageOf(response["usage"]);
  const found = toldIn(billedPlaces.responses, response);
  const parts = (found.parts ?? []).flatMap(({ what, counts }) => {
    const used = imageUsage(counts);
    return used === undefined ? [] : [{ what, model: imageModel(response), usage: used }];
  });
  if (usage === undefined && parts.length === 0) return undefined;
  // By its tokens, and not by the piece.
  const { image_generation: _, ...others } = found.tools ?? {};
  const billed = parts.length === 0 ? billedBy(found) : billedBy(found, { tools: others, parts });
  return { ...(usage ?? { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }), ...billed };
}

/** @returns undefined where the response names none */
function imageModel({ tools }: JsonObject): string | undefined {
  const tool = listOf(tools).find((one) => objectOf(one)?.["type"] === "image_generation");
  return textOf(objectOf(tool)?.["model"])?.slice(0, 128) || undefined;
}

function imageUsage(counts: JsonObject): Usage | undefined {
  const usage = usageOf(counts);
  if (usage === undefined || usage.prompt_tokens + usage.completion_tokens === 0) return undefined;
  const { image_tokens: made } = countsByName(counts["output_tokens_details"]);
  const { image_tokens: seen = 0 } = countsByName(counts["input_tokens_details"]);
  const { cached_image_tokens: cached = 0 } = countsByName(counts["cached_tokens_details"]);
  return {
    ...usage,
    prompt_tokens_details: { cached_tokens: countOf(counts["cached_tokens"]) ?? 0 },
    ...billedAs({ imageInput: Math.max(0, seen - cached), imageOutput: made ?? usage.completion_tokens }),
  };
}
