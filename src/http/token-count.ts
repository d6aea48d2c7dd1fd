/** Counts the tokens of a request without answering it: by the provider's own counter where there is one, else estimated. */
import { truncate } from "../lib/truncate.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type { Target } from "../upstream/target.ts";
import { estimatePrompt } from "../usage/estimate.ts";
import { admit } from "./authenticate.ts";
import { parseCall, type Surface } from "./completion.ts";
import { openConversation } from "./conversation.ts";
import { readJson } from "./request-body.ts";
import { jsonAnswer } from "./respond.ts";
import type { Route } from "./routes.ts";
import type { Services } from "./services.ts";

/** @param bodyOf writes the count in the client's format */
export function tokenCountRoute(
  surface: Surface,
  path: string,
  protocol: Protocol,
  bodyOf: (tokens: number) => object,
  detail: Route["detail"],
): Route {
  const run: Route["run"] = async (services, context) => {
    const caller = admit(services, context, surface.name);
    const source = await readJson(context, services.live.config.limits);
    if (source.large !== undefined) await source.large.restore([source.parsed]);
    const { request } = await parseCall(services, context, caller, surface, protocol, source);
    context.logFields["model"] = truncate(request.model);
    const conversation = await openConversation(services, context, caller, surface.name, request);
    const [target] = surface.plan(services, caller, conversation.whole, source).targets;
    if (target === undefined) throw ApiError.modelNotFound(request.model);
    const counted = await countedBy(services, target, context.request.signal);
    if (counted === undefined) context.headers["x-troupe-estimated"] = "true";
    return jsonAnswer(bodyOf(counted ?? (await estimatePrompt(target.call.request))));
  };
  return { method: "POST", path, area: surface.name, protocol, detail, run };
}

/** @returns undefined where the provider has no counter, or it failed */
async function countedBy(services: Services, target: Target, signal: AbortSignal): Promise<number | undefined> {
  const { provider, account, timeouts, call } = target;
  const counter = provider.kind === "remote" ? provider.counter?.(call) : undefined;
  if (counter === undefined) return undefined;
  try {
    const answer = await services.upstream.send(counter.request, account, timeouts, signal);
    const text = await answer.text();
    return answer.status === 200 ? counter.tokensIn(JSON.parse(text)) : undefined;
  } catch (error) {
    if (signal.aborted) throw error;
    services.log.warn("a provider could not count tokens; they are estimated", { provider: account.name, error });
    return undefined;
  }
}
