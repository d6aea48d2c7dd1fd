/** Counts the tokens of a request without answering it: by the provider's own counter where there is one, else estimated. */

import { admit } from "../../call/admit/admit.ts";
import { checkNamedModels, keptUpstream, mayNameKept } from "../../call/admit/named.ts";
import type { RequestContext } from "../../call/context.ts";
import { openConversation } from "../../call/plan/conversation.ts";
import { personaSurface } from "../../call/plan/orchestrator.ts";
import { noteVersion } from "../../call/plan/persona-version.ts";
import { sessionKey } from "../../call/read/conversation-key.ts";
import { parseCall } from "../../call/read/read.ts";
import { readWhole } from "../../call/read/request-body.ts";
import { jsonAnswer } from "../../call/relay/relay.ts";
import { nativeChange, passedHeaders, patchedBody, refuseNativeOnly, writtenAs } from "../../call/send/native.ts";
import type { Services } from "../../call/services.ts";
import type { Plan, Surface } from "../../call/surface.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { filledText, type Source } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Protocol } from "../../protocols/protocol.ts";
import type { TokenCounter } from "../../providers/provider.ts";
import type { UpstreamError, WholeAnswer } from "../../upstream/answer.ts";
import { atMember } from "../../upstream/pool/pools.ts";
import type { Target } from "../../upstream/target.ts";
import { readUpstreamError } from "../../upstream/upstream-error.ts";
import { estimatePrompt } from "../../usage/tokens/estimate.ts";
import type { Route } from "../routes.ts";

/** The longest wait of a caller for the tokenizer, which takes a second to start. */
const estimateMs = 5_000;

/** @param bodyOf writes the count in the client's format */
export function tokenCountRoute(
  surface: Surface,
  path: string,
  protocol: Protocol,
  bodyOf: (tokens: number) => object,
  describe: Route["describe"],
): Route {
  const run: Route["run"] = (services, context) => countTokens(services, context, surface, protocol, bodyOf);
  return { method: "POST", path, area: surface.name, protocol, describe, run };
}

/** @param bodyOf writes the count in the client's format */
export async function countTokens(
  services: Services,
  context: RequestContext,
  onSurface: Surface,
  protocol: Protocol,
  bodyOf: (tokens: number) => object,
): Promise<WholeAnswer> {
  const caller = await admit(services, context, onSurface.name, { mayPreview: true });
  const source = await readWhole(context, services.live.config.limits);
  const onArrival = { services, context, surface: onSurface, caller };
  const asked = await parseCall(onArrival, protocol, source);
  const surface = asked.byPersona ? await personaSurface(onArrival) : onSurface;
  const admitted = { ...onArrival, surface };
  const parsed = asked.call;
  const { request } = parsed;
  context.logFields["model"] = truncate(request.model);
  const conversation = await openConversation(admitted, request);
  const plan = await surface.plan(services, caller, conversation.whole, source);
  if (plan.persona !== undefined) noteVersion(context, plan.persona);
  const [planned] = plan.targets;
  if (planned === undefined) throw ApiError.modelNotFound(request.model);
  const target =
    planned.pool === undefined
      ? planned
      : atMember(planned, services.pools.pick(planned, planned.call.model, sessionKey(context.request)));
  checkNamedModels(caller, target.account.name, "gateway", source, isCounted);
  if (mayNameKept(protocol, plan.targets, source)) await keptUpstream(admitted, protocol, plan.targets, source);
  const native = conversation.whole === request ? nativeCounter(context, protocol, plan, source, target) : undefined;
  if (native === undefined) refuseNativeOnly(parsed, target);
  const { provider, call } = target;
  const counter = native ?? (provider.kind === "remote" ? provider.counter?.(call) : undefined);
  const passesErrors = native !== undefined && surface.showsUpstream;
  const counted = counter && (await countedBy(services, target, counter, context.request.signal, passesErrors));
  if (typeof counted === "object") return surface.upstreamErrorAnswer(counted, protocol, context.id);
  if (counted !== undefined) return jsonAnswer(bodyOf(counted));
  const how = { counter: services.tokenizer, deadlineMs: estimateMs };
  const { tokens, isReckoned } = await estimatePrompt(call.request, how);
  context.headers["x-troupe-estimated"] = isReckoned ? "length" : "true";
  return jsonAnswer(bodyOf(tokens));
}

/** Gemini's clients wrap what they have counted: https://ai.google.dev/api/tokens */
const isCounted = ([wrapper, name, ...rest]: readonly PathPart[]) =>
  (wrapper === "generateContentRequest" || wrapper === "generate_content_request") &&
  name === "model" &&
  rest.length === 0;

/** The client's own body, for an upstream that counts it as it is. */
function nativeCounter(
  { request }: RequestContext,
  protocol: Protocol,
  plan: Plan,
  source: Source,
  { provider, call }: Target,
): TokenCounter | undefined {
  const route = provider.kind === "remote" ? provider.native?.(protocol.name, call) : undefined;
  if (route?.counter === undefined) return undefined;
  const headers = passedHeaders(protocol, request.headers);
  const change = nativeChange(plan, route, call, headers);
  const body = change && protocol.native && patchedBody(protocol.native, { route, call, headers }, source, change);
  if (body === undefined) return undefined;
  return route.counter(filledText(source, writtenAs(source, body), body), call, headers);
}

/** Statuses that a server without such a route answers. */
const noRoute: ReadonlySet<number> = new Set([404, 405, 501]);

/**
 * @param passesErrors whether the caller sees what the provider finds wrong
 * @returns undefined where the provider does not count after all
 */
async function countedBy(
  services: Services,
  target: Target,
  counter: TokenCounter,
  signal: AbortSignal,
  passesErrors: boolean,
): Promise<number | UpstreamError | undefined> {
  const { provider, account } = target;
  try {
    const answer = await services.upstream.send(counter.request, target, signal);
    const { status } = answer;
    if (passesErrors && provider.kind === "remote" && status >= 400 && status < 500 && !noRoute.has(status)) {
      const upstreamFailed = (name: string) => services.httpMetrics.upstreamErrors.series(name, String(status)).add();
      return await readUpstreamError(answer, provider, account.name, { upstreamFailed });
    }
    const text = await answer.text();
    return status === 200 ? counter.tokensIn(JSON.parse(text)) : undefined;
  } catch (error) {
    if (signal.aborted) throw error;
    services.log.warn("a provider could not count tokens; they are estimated", { provider: account.name, error });
    return undefined;
  }
}
