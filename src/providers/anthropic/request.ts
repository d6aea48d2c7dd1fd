/**
 * A chat request as the body of a Messages API call.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import type { CacheControlEphemeral } from "@anthropic-ai/sdk/resources/messages";
import type { AnthropicRules } from "../../facts/vocabulary/claude.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import { specialWishes } from "../../protocols/messages/ending.ts";
import { ownTier } from "../../protocols/messages/facts.ts";
import type { Account, Call, NativeBody, PassedHeaders, UpstreamRequest } from "../provider.ts";
import { dropExcessMarkers, markSystem } from "./cache.ts";
import { encodeConversation } from "./messages.ts";
import { planOutput } from "./output.ts";
import { cacheMarker } from "./parts.ts";
import { anthropicRules } from "./rules.ts";
import { canStartThinking, planThinking, type ThinkingPlan } from "./thinking.ts";
import { demandOf, demandsCall, planTools } from "./tools.ts";
import { oldestVersion } from "./versions.ts";

/** @throws ApiError for what this provider can't do, naming the field */
export function encodeRequest(call: Call): UpstreamRequest {
  const body = encodeBody(call);
  // https://platform.claude.com/docs/en/build-with-claude/files
  const betas = body.messages.some(({ content }) => content.some(namesFile)) ? ["files-api-2025-04-14"] : [];
  return upstreamRequest(call.account, "", JSON.stringify(body), { betas });
}

/** The format's version and its extensions, as a caller's headers name them. */
type Version = { readonly version?: string | undefined; readonly betas: readonly string[] };

/** @param path below that of messages: "" or `/count_tokens` */
export function upstreamRequest(
  { baseUrl }: Pick<Account, "baseUrl">,
  path: string,
  body: NativeBody,
  { version = oldestVersion, betas }: Version,
): UpstreamRequest {
  return {
    url: `${messagesUrl(baseUrl)}${path}`,
    headers: {
      "anthropic-version": version,
      ...(betas.length > 0 && { "anthropic-beta": [...new Set(betas)].join(",") }),
    },
    body,
  };
}

/** @param headers the caller's, as far as the format passes them on */
export function callersVersion(headers: PassedHeaders): Version {
  return { version: headers["anthropic-version"], betas: betasIn(headers) };
}

export function betasIn({ "anthropic-beta": given }: PassedHeaders): readonly string[] {
  if (given === undefined) return [];
  return given
    .split(",")
    .map((beta) => beta.trim())
    .filter((beta) => beta !== "");
}

const dated = /^\d{4}-\d\d-\d\d$/;

/** True for a version that is not older than another; names that are no dates are nobody's. */
export const isSince = (version: string | undefined, other: string): boolean =>
  version !== undefined && dated.test(version) && version >= other;

function messagesUrl(baseUrl: string): string {
  return baseUrl.endsWith("/v1") ? `${baseUrl}/messages` : `${baseUrl}/v1/messages`;
}

function namesFile(block: object): boolean {
  const { source, content } = block as { source?: { type?: unknown }; content?: unknown };
  return source?.type === "file" || (Array.isArray(content) && content.some(namesFile));
}

export function encodeBody(call: Call) {
  const { request } = call;
  refuseUnsupported(request);
  const rules = anthropicRules(call);
  const output = planOutput(request, rules);
  const { system, turns } = encodeConversation(request.messages, rules);
  if (output.kind === "instruction") system.push({ type: "text", text: output.text });
  const demand = demandOf(request, rules);
  if (demand !== undefined) system.push({ type: "text", text: demand });
  const toolPlan = planTools(request, rules, output);
  const thinking = planThinking(call, rules, !demandsCall(toolPlan) && canStartThinking(turns));
  const tokens = outputTokens(request, rules, thinking);
  const outputConfig = {
    ...(thinking.effort !== undefined && { effort: thinking.effort }),
    ...(output.kind === "format" && { format: { type: "json_schema", schema: output.schema } }),
  };
  const body = {
    model: call.model,
    max_tokens: tokens,
    ...(system.length > 0 && { system }),
    messages: turns,
    ...(toolPlan.tools.length > 0 && { tools: toolPlan.tools }),
    ...(toolPlan.choice !== undefined && { tool_choice: toolPlan.choice }),
    ...(thinking.thinking !== undefined && { thinking: thinking.thinking }),
    ...(Object.keys(outputConfig).length > 0 && { output_config: outputConfig }),
    ...sampling(request, rules, thinking),
    ...stopSequences(request),
    ...userMetadata(request),
    ...serviceTier(request),
    ...(request.stream === true && { stream: true }),
    ...cacheMarker(request),
  };
  const marker = call.extras["system_cache_control"] as CacheControlEphemeral | undefined;
  return dropExcessMarkers(marker === undefined ? body : markSystem(body, marker));
}

/** @throws ApiError for promises about the place and the speed, which would be forgotten otherwise */
export function refuseWishes(request: ChatRequest): void {
  for (const name of specialWishes(request))
    throw ApiError.unsupported(name, `${name}: it can be had of Anthropic's own API alone, and by its own format.`);
}

export function refuseUnsupported(request: ChatRequest): void {
  refuseWishes(request);
  const { n, modalities } = request;
  if (n !== undefined && n > 1) throw ApiError.unsupported("n", "n: this provider gives one choice per call.");
  if (modalities?.includes("audio")) {
    throw ApiError.unsupported("modalities", "modalities: this provider's answers are text only.");
  }
}

/** The thoughts count within max_tokens, so a budget for them is added to what the caller wants for the answer. */
export function outputTokens(
  request: ChatRequest,
  rules: AnthropicRules,
  { thinking, budgetIncluded }: ThinkingPlan,
): number {
  const wanted = request.max_completion_tokens ?? request.max_tokens ?? rules.default_output;
  const budget = thinking?.budget_tokens;
  if (budget === undefined || (budgetIncluded === true && budget < wanted)) return wanted;
  return Math.max(wanted, Math.min(wanted + budget, rules.max_output));
}

/**
 * Newer models refuse these fields, and thinking excludes all but a wide top_p.
 * https://platform.claude.com/docs/en/build-with-claude/thinking#feature-compatibility
 */
export function sampling(
  request: ChatRequest,
  rules: AnthropicRules,
  { thinking }: ThinkingPlan,
): Record<string, unknown> {
  if (rules.sampling === "none") return {};
  const { temperature, top_p } = request;
  if (thinking?.type === "enabled" || thinking?.type === "adaptive") {
    return top_p !== undefined && top_p >= 0.95 ? { top_p } : {};
  }
  const topK = (request as Record<string, unknown>)["top_k"];
  const exclusive = temperature !== undefined && rules.sampling === "one";
  return {
    ...(temperature !== undefined && { temperature: Math.min(temperature, 1) }),
    ...(top_p !== undefined && !exclusive && { top_p }),
    ...(typeof topK === "number" && { top_k: topK }),
  };
}

export function stopSequences({ stop }: ChatRequest): { stop_sequences?: string[] } {
  const sequences = (typeof stop === "string" ? [stop] : (stop ?? [])).filter((text) => text.trim() !== "");
  return sequences.length === 0 ? {} : { stop_sequences: sequences };
}

/** An opaque id only: what looks like an e-mail address or a telephone number is refused upstream, so it stays here. */
function userMetadata({ safety_identifier, user, metadata }: ChatRequest): { metadata?: { user_id: string } } {
  const id = safety_identifier ?? user ?? metadata?.["user_id"];
  const personal = id === undefined || /^\S+@\S+\.\S+$|^\+?[\d\s().-]{7,}$/.test(id);
  return personal ? {} : { metadata: { user_id: id } };
}

function serviceTier({ service_tier }: ChatRequest): { service_tier?: string } {
  const tier = ownTier(service_tier ?? "");
  return tier === undefined ? {} : { service_tier: tier };
}
