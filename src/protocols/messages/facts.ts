/**
 * Facts of this format, for clients that speak it and for upstreams.
 * Source: https://platform.claude.com/docs/en/api/messages
 */
import type { JsonObject } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import { argumentsIn } from "../chat/tools.ts";

/** The form of ids that is taken: `^[a-zA-Z0-9_-]+$`. Other makers' hold other characters. */
export const cleanId = (id: string): string => id.replace(/[^a-zA-Z0-9_-]/g, "_");

/** Arguments that are no JSON object, as a model may have left them when it was cut off, are kept as they are under one key. */
export const inputOf = (written: string): JsonObject => argumentsIn(written) ?? { _raw: written };

/** Tiers that are asked for, and what they are in the inner form: https://platform.claude.com/docs/en/api/service-tiers */
const askedTiers: Readonly<Record<string, string>> = { auto: "auto", standard_only: "default" };
const ownTiers: Readonly<Record<string, string>> = { ...inverted(askedTiers), standard_only: "standard_only" };

export const innerTier = (tier: string): string => ownMember(askedTiers, tier) ?? tier;
export const ownTier = (tier: string): string | undefined => ownMember(ownTiers, tier);

/** The order of a turn's blocks, a letter for each: thought (t), text (x), or use of a tool (u). @param layout texts by their lengths */
export const orderOf = (layout: readonly (string | number)[]): string =>
  layout.map((entry) => (entry === "thinking" ? "t" : entry === "tool_use" ? "u" : "x")).join("");
