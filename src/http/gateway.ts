/** The gateway surface: providers' models by name, with their errors byte for byte. */

import { mayUseProvider } from "../auth/keys.ts";
import { ApiError, UpstreamFault } from "../protocols/errors.ts";
import type { WholeAnswer } from "../upstream/answer.ts";
import { resolveTarget } from "../upstream/target.ts";
import type { Surface } from "./call/surface.ts";
import { errorObjectIn } from "./error-fields.ts";
import { mayUseNamed, standsFor } from "./named.ts";
import { jsonAnswer } from "./respond.ts";

export const gateway: Surface = {
  name: "gateway",
  showsUpstream: true,
  plan(services, caller, request, source) {
    const mayName = (provider: string) => mayUseProvider(caller, provider);
    const model = standsFor(services, request.model);
    const target = resolveTarget(services.live.accounts, model, request, source, mayName);
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
