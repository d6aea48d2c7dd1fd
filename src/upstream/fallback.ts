/** Tries several targets until one answers: a persona's models, and the keys and endpoints of each. */
import { ApiError } from "../protocols/errors.ts";
import { type Answer, type EventSource, isUpstreamError } from "./answer.ts";
import { type Attempts, type CallTools, callUpstream } from "./call.ts";
import { classifyFailure, isOfModel } from "./failures.ts";
import { type Pooling, walkPool } from "./pool/walk.ts";
import type { Target } from "./target.ts";

/**
 * Tries the targets in order until one answers. An error about the input itself is the answer: another model
 * would be asked the same.
 * @param pooling present where one of them has several keys or endpoints, or they have a strategy
 * @throws the last target's ApiError; ClientDisconnected
 */
export function callWithFallback(
  tools: CallTools,
  targets: readonly Target[],
  attempts: Attempts,
  pooling?: Pooling,
): Promise<Answer<EventSource>> {
  const [only] = targets;
  // Fast path: most calls have one target, with one key at one endpoint.
  if (pooling === undefined && only !== undefined && targets.length === 1)
    return callUpstream(tools, only, attempts.optionsFor(only, false));
  if (pooling?.routing.strategy !== undefined) return walkPool({ ...pooling, tools, attempts }, targets, false);
  return callInTurn(tools, targets, attempts, pooling);
}

async function callInTurn(
  tools: CallTools,
  targets: readonly Target[],
  attempts: Attempts,
  pooling: Pooling | undefined,
): Promise<Answer<EventSource>> {
  const last = targets.length - 1;
  for (const [at, target] of targets.entries()) {
    try {
      const answer =
        pooling === undefined || target.pool === undefined
          ? await callUpstream(tools, target, attempts.optionsFor(target, at < last))
          : await walkPool({ ...pooling, tools, attempts }, [target], at < last);
      const isFinal = !isUpstreamError(answer) || classifyFailure(answer).kind === "input";
      if (isFinal || at === last) return answer;
      attempts.failed(target, answer);
    } catch (error) {
      const isRetriable = error instanceof ApiError && (error.status >= 500 || isOfModel(error));
      if (!isRetriable || at === last) throw error;
      attempts.failed(target, error);
    }
  }
  throw ApiError.internal("no target to call");
}
