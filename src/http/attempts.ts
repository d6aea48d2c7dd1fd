/** The attempts of a request, as the accounts are told of them. */
import type { Caller } from "../auth/keys.ts";
import { truncate } from "../lib/truncate.ts";
import type { Target } from "../upstream/target.ts";
import type { Attempt, AttemptBounds, AttemptTarget } from "../usage/attempt.ts";
import type { RequestContext } from "./context.ts";

/**
 * The next attempt of a request.
 * @param asked the model as the caller named it, and on the orchestrator so its persona
 * @param target where it goes; undefined where no upstream is asked
 */
export function nextAttempt(
  context: RequestContext,
  caller: Caller,
  asked: string,
  target?: AttemptTarget,
  bounds?: AttemptBounds,
): Attempt {
  context.attempts += 1;
  const model = truncate(asked);
  return {
    requestId: context.id,
    number: context.attempts,
    keyId: caller.keyId,
    tier: caller.tier,
    tags: context.tags,
    labels: context.labels,
    surface: context.area,
    format: context.protocol.name,
    model,
    persona: context.area === "orchestrator" ? model : undefined,
    target,
    bounds,
  };
}

export function attemptTarget({ area }: RequestContext, { account, provider, call, models }: Target): AttemptTarget {
  return {
    provider: account.name,
    dialect: provider.name,
    baseUrl: account.baseUrl,
    model: truncate(call.model),
    isLocal: provider.kind === "local",
    isListed: area === "orchestrator" || models.has(call.model),
  };
}
