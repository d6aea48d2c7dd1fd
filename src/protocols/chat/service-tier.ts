/** Names of the capacity that served an answer: OpenAI's typed clients know its own alone, and refuse an answer with another. */
import { ownMember } from "../../lib/json/own-member.ts";

/** https://developers.openai.com/api/reference/resources/chat (service_tier) */
const known: ReadonlySet<string> = new Set(["auto", "default", "flex", "scale", "priority"]);

/** Vendors' words for one of them: https://console.groq.com/docs/service-tiers */
const vendors: Readonly<Record<string, string>> = { on_demand: "default", performance: "priority" };

/** @returns OpenAI's word; "default" for one that has none */
export const openAiTier = (tier: string): string => (known.has(tier) ? tier : (ownMember(vendors, tier) ?? "default"));
