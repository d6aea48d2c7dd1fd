/** Plans a call: opens the conversation that it continues, and chooses its targets. */
import type { JsonObject } from "../../lib/json/json.ts";
import type { Conversation, Shown } from "../conversation.ts";
import { openConversation } from "../conversation.ts";
import { checkNamedModels } from "../named-models.ts";
import { namedUpstream } from "../upstream-items.ts";
import type { CallScope } from "./scope.ts";
import type { Plan } from "./surface.ts";

export type Planned = {
  readonly plan: Plan;
  readonly conversation: Conversation;
  /** Of what the call names in a provider's own store. */
  readonly namedBytes: number;
};

/** @throws ApiError before anything is called */
export async function planCall(scope: CallScope): Promise<Planned> {
  const { services, context, surface, caller, call, source, writer } = scope;
  const conversation = await openConversation(services, context, caller, surface.name, call.request, shownBy(scope));
  const plan = surface.plan(services, caller, conversation.whole, source);
  for (const { account } of plan.targets) checkNamedModels(caller, account.name, "gateway", source);
  const naming = namedUpstream(services, caller, surface.name, writer.protocol, plan.targets, source);
  const namedBytes = typeof naming === "number" ? naming : await naming;
  if (plan.store) await conversation.checkStorage();
  return { plan, conversation, namedBytes };
}

/** How the exchange is kept where the client's format has stored answers of its own. */
function shownBy({ writer: { protocol, envelope, whole }, call: { options }, source }: CallScope) {
  const { stored, name: format } = protocol;
  if (stored === undefined) return undefined;
  const unique = envelope.id.slice(protocol.answerIdPrefix.length);
  const shown: Shown = {
    format,
    leading: stored.leading(options),
    isBegun: stored.isBackground(options),
    items: () => stored.items(source.parsed, unique),
    answer: (completion, passed) =>
      (passed === undefined ? undefined : stored.answerIn(passed)) ?? (whole(completion) as JsonObject),
  };
  return shown;
}
