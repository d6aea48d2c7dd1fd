/** Routes a call of several keys, endpoints or targets: by its conversation, and to where what it names is stored. */

import type { ApiError } from "../../protocols/errors.ts";
import type { LeftReport, Pooling } from "../../upstream/pool/walk.ts";
import type { Target } from "../../upstream/target.ts";
import { refusedBy } from "../../usage/ledger/error-note.ts";
import { type Conversation, heldAt } from "../plan/conversation.ts";
import { conversationKey } from "../read/conversation-key.ts";
import { describeFailure } from "../relay/errors.ts";
import type { CallScope } from "../scope.ts";
import { nextAttempt } from "../settle/settle.ts";
import type { Plan } from "../surface.ts";

/** @param namesStored true where the call names what is in a provider's own store: that was made with the first key */
export function poolingOf(
  scope: CallScope,
  plan: Plan,
  conversation: Conversation,
  targets: readonly Target[],
  namesStored: boolean,
): Pooling {
  const { services, context, caller } = scope;
  const { model: named } = scope.asked.call.request;
  const { strategy, weights } = plan;
  const { held } = conversation;
  const holding = held && targets.map((target) => heldAt(held, target)).find((one) => one !== undefined);
  const pinned = holding?.member ?? (namesStored ? targets[0]?.pool?.members[0]?.member.id : undefined);
  const report: LeftReport = ({ account, call: { model }, member }, failure, reason) => {
    services.log.warn("a key or an endpoint failed; trying the next one", {
      request_id: context.id,
      provider: account.name,
      upstream_model: model,
      key: member.fingerprint,
      endpoint: member.endpoint.url,
      reason,
      ...describeFailure(services, failure),
    });
  };
  const onRefusal = (error: ApiError) => services.usage.record(nextAttempt(context, caller, named), refusedBy(error));
  const routing = { key: conversationKey(scope, plan, conversation), strategy, weights, pinned };
  return { pools: services.pools, routing, report, onRefusal };
}
