/** The gateway: a provider's model by its name, its errors byte for byte. */
import { aim } from "../relay/target.ts";
import { mayUseModel, mayUseProvider } from "../services/keys.ts";
import type { Services } from "../services/services.ts";
import { ApiError, UpstreamFault } from "../wire/errors.ts";
import { formatModelId } from "../wire/model-id.ts";
import type { Model } from "../wire/models.ts";
import { type ChatSurface, errorObjectIn } from "./chat.ts";

export const gateway: ChatSurface = {
  name: "gateway",
  plan(services, caller, request, source) {
    const mayName = (provider: string) => mayUseProvider(caller, provider);
    const target = aim(services.live.accounts, request.model, request, source, mayName);
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
