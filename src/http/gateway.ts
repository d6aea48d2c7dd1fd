/** The gateway: a provider's model by its name, its errors byte for byte. */

import { mayUseModel, mayUseProvider } from "../auth/keys.ts";
import { ApiError, UpstreamFault } from "../protocols/errors.ts";
import { formatModelId } from "../protocols/model-id.ts";
import type { Model } from "../protocols/models.ts";
import { resolveTarget } from "../upstream/target.ts";
import { type ChatSurface, errorObjectIn } from "./chat.ts";
import type { Services } from "./services.ts";

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

/** The models that are known by name; a provider may well take others. */
export function gatewayModels({ live, build }: Services): Model[] {
  const created = Math.floor(Date.parse(build.builtAt) / 1000) || 0;
  return live.accounts.list().flatMap(({ account }) =>
    account.models.map(
      (name): Model => ({
        id: formatModelId({ namespace: account.name, name }),
        object: "model",
        created,
        owned_by: account.name,
        // Several accounts may have models of one name.
        name: `${name} (${account.name})`,
      }),
    ),
  );
}
