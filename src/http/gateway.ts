/** The gateway surface: providers' models by name, with their errors byte for byte. */

import { mayUseModel, mayUseProvider } from "../auth/keys.ts";
import { ApiError, UpstreamFault } from "../protocols/errors.ts";
import { resolveTarget } from "../upstream/target.ts";
import { type ChatSurface, errorObjectIn } from "./chat.ts";

export const gateway: ChatSurface = {
  name: "gateway",
  plan(services, caller, request, source) {
    const mayName = (provider: string) => mayUseProvider(caller, provider);
    const target = resolveTarget(services.live.accounts, request.model, request, source, mayName);
    if (!mayUseModel(caller, request.model)) throw ApiError.modelNotAllowed(request.model);
    const store = target.call.extras["store"] ?? request.store;
    return { targets: [target], store: store === true, upstreamMayHold: true };
  },
  refusal({ status, headers, body }) {
    return { kind: "whole", status, headers: { ...headers, "x-troupe-error-source": "upstream" }, body };
  },
  failure: (error) => error,
  fault(fault) {
    return fault instanceof UpstreamFault ? errorObjectIn(fault.payload) : { ...fault.body().error };
  },
};
