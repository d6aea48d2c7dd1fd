/** Routes a call of several keys, endpoints or targets: by its conversation, and to where what it names is stored. */

import type { LeftReport, Pooling } from "../../upstream/pool/walk.ts";
import type { Target } from "../../upstream/target.ts";
import { type Conversation, heldAt } from "../conversation.ts";
import { conversationKey } from "./conversation-key.ts";
import { describeFailure } from "./errors.ts";
import type { CallScope } from "./scope.ts";
import type { Plan } from "./surface.ts";

/** @param namesStored true where the call names what is in a provider's own store: that was made with the first key */
export function poolingOf(
  scope: CallScope,
  plan: Plan,
  conversation: Conversation,
  targets: readonly Target[],
  namesStored: boolean,
): Pooling {
  const { services, context } = scope;
  const { strategy, weights } = plan;
  const [first] = targets;
  const held = conversation.held && first && heldAt(conversation.held, first)?.member;
  const pinned = held ?? (namesStored ? first?.pool?.members[0]?.member.id : undefined);
  const report: LeftReport = ({ account, call, member }, failure, reason) => {
    services.log.warn("a key or an endpoint failed; trying the next one", {
      request_id: context.id,
      provider: account.name,
      upstream_model: call.model,
      key: member.fingerprint,
      endpoint: member.endpoint.url,
      reason,
      ...describeFailure(services, failure),
    });
  };
  return {
    pools: services.pools,
    routing: { key: conversationKey(scope, plan, conversation), strategy, weights, pinned },
    report,
  };
}
