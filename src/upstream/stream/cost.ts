/** `usage.cost`, for callers that ask for it as OpenRouter's do: https://openrouter.ai/docs/use-cases/usage-accounting */
import type { Usage } from "../../protocols/chat/schema.ts";
import type { CallObserver } from "../observer.ts";

type Reported = { readonly usage?: Usage | null | undefined; readonly service_tier?: string };

/**
 * @param reported the upstream's own members, its counts among them
 * @returns the answer with its cost in dollars, as the ledger has it; null where it is not known, or not yet
 */
export function withCost<T extends { usage?: Usage | null }>(
  answer: T,
  observer: Pick<CallObserver, "costOf">,
  { usage: reported, service_tier }: Reported,
): T {
  if (answer.usage == null) return answer;
  const cost = reported == null ? undefined : observer.costOf(reported, service_tier);
  return { ...answer, usage: { ...answer.usage, cost: cost === undefined ? null : cost / 1e6 } };
}
