/**
 * Walks the keys and endpoints that a call may go to, each at most once, until one answers.
 *
 * It goes on only while nothing was answered and nothing can have been billed: after an error that the upstream answered, or where the
 * upstream can't have got the whole request. An error about the request itself is the answer: it would be the same everywhere.
 */
import { ApiError } from "../../protocols/errors.ts";
import { type Answer, type EventSource, isUpstreamError, type UpstreamError } from "../answer.ts";
import { type Attempts, type CallTools, callUpstream } from "../call.ts";
import { classifyFailure, isOfModel } from "../failures.ts";
import type { Target } from "../target.ts";
import type { CooldownReason } from "./cooldowns.ts";
import type { MemberAttempt } from "./member.ts";
import { PooledObserver } from "./pooled-observer.ts";
import type { PooledTarget, Pools, Routing } from "./pools.ts";

export type Pooling = {
  readonly pools: Pools;
  readonly routing: Routing;
  readonly report: LeftReport;
  /** Called where the call is refused, as all are in cooldown. */
  readonly onRefusal: (error: ApiError) => void;
};

/** Called with the error of a key at an endpoint before the next one is tried. */
export type LeftReport = (
  target: Target,
  failure: UpstreamError | ApiError,
  reason: CooldownReason | undefined,
) => void;

type Walk = Pooling & {
  readonly tools: CallTools;
  readonly attempts: Pick<Attempts, "optionsFor">;
};

/**
 * @param targets that stand for one model
 * @param isFollowed true where other models follow if all of these fail
 * @returns the answer; where all fail the last error that waiting may help with, else the last one
 * @throws ApiError in the place of an error; ClientDisconnected
 */
export async function walkPool(
  walk: Walk,
  targets: readonly Target[],
  isFollowed: boolean,
): Promise<Answer<EventSource>> {
  const { pools, routing, report } = walk;
  const choice = pools.choose(targets, routing);
  const failures: (UpstreamError | ApiError)[] = [];
  let left = choice.candidates;
  for (let [next] = left; next !== undefined; [next] = left) {
    const candidate = next;
    left = left.slice(1);
    const attempt = pools.begin(candidate, choice);
    if (attempt === undefined) continue;
    const result = await callMember(walk, candidate, attempt, isFollowed || left.length > 0);
    if (!isFailure(result)) {
      pools.answeredBy(candidate, choice);
      return result;
    }
    failures.push(result);
    left = left.filter((other) => mayFollow(candidate, attempt, result, other));
    if (left.length > 0) report(candidate.target, result, attempt.verdict?.reason);
    else if (attempt.verdict?.mayRepeat !== true) return given(result);
  }
  if (failures.length > 0) return given(failures.findLast(isTransient) ?? failures.at(-1)!);
  const probe = pools.probe(choice);
  if (probe === undefined) {
    const error = inCooldown(targets, pools.cooldownMs(choice));
    if (!isFollowed) walk.onRefusal(error);
    throw error;
  }
  const result = await callMember(walk, probe.candidate, probe.attempt, isFollowed);
  return isFailure(result) ? given(result) : result;
}

/** @throws ClientDisconnected, and what is no error of a call */
async function callMember(
  { tools, pools, attempts }: Walk,
  { target }: PooledTarget,
  attempt: MemberAttempt,
  mayFallBack: boolean,
): Promise<Answer<EventSource> | ApiError> {
  try {
    const options = attempts.optionsFor(target, mayFallBack);
    const observer = new PooledObserver(options.observer, () => attempt, pools.clock);
    return await callUpstream(tools, target, { ...options, observer });
  } catch (error) {
    attempt.over();
    if (error instanceof ApiError) return error;
    throw error;
  }
}

const isFailure = (result: Answer<EventSource> | ApiError): result is UpstreamError | ApiError =>
  result instanceof ApiError || isUpstreamError(result);

function given(failure: UpstreamError | ApiError): UpstreamError {
  if (failure instanceof ApiError) throw failure;
  return failure;
}

const isTransient = (failure: UpstreamError | ApiError) =>
  failure instanceof ApiError || classifyFailure(failure).kind === "transient";

/** Decides whether a member may be asked what another one did not answer. */
function mayFollow(
  { target, member }: PooledTarget,
  { verdict }: MemberAttempt,
  failure: UpstreamError | ApiError,
  other: PooledTarget,
): boolean {
  if (verdict?.mayRepeat === true) return verdict.cools !== "endpoint" || other.member.endpoint !== member.endpoint;
  // No such model there, say: another model may still be.
  const isOtherModel = other.target.account.name !== target.account.name || other.model !== target.call.model;
  if (failure instanceof ApiError) return isOtherModel && isOfModel(failure);
  return isOtherModel && classifyFailure(failure).kind === "configuration";
}

function inCooldown(targets: readonly Target[], ms: number): ApiError {
  const names = [...new Set(targets.map(({ account }) => account.name))].join(", ");
  const seconds = Math.max(1, Math.ceil(ms / 1000));
  const message = `Every key and endpoint of ${names} is in cooldown after errors; the first one for ${seconds} s more.`;
  return ApiError.unavailable("upstream_unavailable", message, { retryAfterSeconds: seconds });
}
