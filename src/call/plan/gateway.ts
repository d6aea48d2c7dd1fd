/** The gateway surface: providers' models by name, with their errors byte for byte. */

import { type Caller, mayUseModel, mayUseProvider } from "../../auth/keys.ts";
import type { AliasGroup } from "../../config/aliases.ts";
import type { Source } from "../../protocols/body/source.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import { ApiError, UpstreamFault } from "../../protocols/errors.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import { type Naming, resolveTarget } from "../../upstream/target.ts";
import { mayUseNamed, standsFor } from "../admit/named.ts";
import { errorObjectIn } from "../relay/error-fields.ts";
import { jsonAnswer } from "../relay/relay.ts";
import type { Services } from "../services.ts";
import type { Plan, Surface } from "../surface.ts";

/** @param group that the request's model stands for */
function planGroup(
  services: Services,
  caller: Caller,
  { models, strategy = "sticky", weights }: AliasGroup,
  request: ChatRequest,
  source: Source,
): Plan {
  const isAllowed = mayUseModel(caller, request.model) || models.every((model) => mayUseModel(caller, model));
  const naming = namingFor(caller);
  const targets = models.map((model) => resolveTarget(services.live.accounts, model, request, source, naming));
  if (!isAllowed) throw ApiError.modelNotAllowed(request.model);
  const store = targets[0]!.call.extras["store"] ?? request.store;
  return { targets, strategy, weights, store: store === true, upstreamMayHold: true };
}

/** A caller is told of the accounts that it may use. */
const namingFor = (caller: Caller): Naming => ({ mayName: (provider) => mayUseProvider(caller, provider) });

export const gateway: Surface = {
  name: "gateway",
  showsUpstream: true,
  async plan(services, caller, request, source) {
    const model = standsFor(services, request.model);
    const group = model === request.model ? undefined : services.live.aliases.group(request.model);
    if (group !== undefined) return planGroup(services, caller, group, request, source);
    const target = resolveTarget(services.live.accounts, model, request, source, namingFor(caller));
    if (!mayUseNamed(caller, request.model, model)) throw ApiError.modelNotAllowed(request.model);
    const store = target.call.extras["store"] ?? request.store;
    return { targets: [target], store: store === true, upstreamMayHold: true };
  },
  upstreamErrorAnswer({ status, headers, body, format }, protocol, requestId) {
    const marked = { ...headers, "x-troupe-error-source": "upstream" };
    const error = errorObjectIn(body);
    const isOwn = format === protocol.name || protocol.sharesErrors?.includes(format) === true;
    const own = isOwn ? undefined : protocol.upstreamError?.(error, status, requestId);
    const answer: WholeAnswer =
      own === undefined ? { kind: "whole", status, headers: marked, body } : jsonAnswer(own, status, marked);
    return { ...answer, error };
  },
  failure: (error) => error,
  fault(fault) {
    return fault instanceof UpstreamFault ? errorObjectIn(fault.payload) : fault.fields();
  },
};
