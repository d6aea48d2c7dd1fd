/** Plans a call: where it goes, with which conversation, and which tools are called meanwhile. */
import type { McpBounds } from "../../config/mcp.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { type CallableTool, grantedTools } from "../../mcp/grants.ts";
import type { ApiError } from "../../protocols/errors.ts";
import type { StoredForm } from "../../protocols/protocol.ts";
import type { Target } from "../../upstream/target.ts";
import { checkNamedModels, type KeptSize, keptUpstream, mayNameKept, nothingKept } from "../admit/named.ts";
import type { CallScope } from "../scope.ts";
import { nativeCall } from "../send/native.ts";
import { standInsFor } from "../send/tools/hosted.ts";
import { skillsTool } from "../send/tools/skills.ts";
import type { Plan } from "../surface.ts";
import { type Conversation, openConversation, type Shown } from "./conversation.ts";
import { loggedAdditions } from "./knowledge.ts";
import { noteVersion } from "./persona-version.ts";
import { noteVariant } from "./variant.ts";

/** What a call was planned to be. What holds the request is emptied with its cell, once it was sent. */
export type Planned = {
  plan: Plan;
  conversation: Conversation;
  /** The plan's, each with the request as it goes there once it is being sent. */
  targets: readonly Target[];
  /** The size of what the call names in a provider's own store. */
  readonly kept: KeptSize;
  /** Absent: none are called here. */
  readonly tools: GrantedTools | undefined;
};

/** Tools that are called here while the model answers. */
export type GrantedTools = {
  readonly granted: readonly CallableTool[];
  readonly bounds: McpBounds;
  /** The error for a tool of the request that none of them stands in for. */
  readonly nativeTools: ApiError | undefined;
};

/**
 * Opens the conversation, asks the surface for targets, checks what they name, and finds what else the call needs.
 * @throws ApiError before anything is called
 */
export async function planCall(scope: CallScope): Promise<Planned> {
  const { services, context, surface, caller, asked, writer } = scope;
  const { call, source } = asked;
  const { stored } = writer.protocol;
  const shown = stored && shownBy(scope, stored);
  const conversation = await openConversation(scope, call.request, shown);
  const plan = await surface.plan(services, caller, conversation.whole, source);
  if (plan.additions !== undefined) Object.assign(context.logFields, loggedAdditions(plan.additions));
  if (plan.persona !== undefined) noteVersion(context, plan.persona);
  if (plan.variant !== undefined) noteVariant(context, plan.variant);
  for (const { account } of plan.targets) checkNamedModels(caller, account.name, "gateway", source);
  const { protocol } = writer;
  const kept = mayNameKept(protocol, plan.targets, source)
    ? await keptUpstream(scope, protocol, plan.targets, source)
    : nothingKept;
  if (plan.store) await conversation.checkStorage();
  const hasTools = plan.mcp !== undefined || call.hosted !== undefined;
  const tools = hasTools ? await toolsOf(scope, plan, conversation) : undefined;
  return { plan, conversation, targets: plan.targets, kept, tools };
}

/** @returns undefined where none are granted @throws ApiError upstream_unavailable; tools_called; for a server that the caller names */
async function toolsOf(scope: CallScope, plan: Plan, conversation: Conversation): Promise<GrantedTools | undefined> {
  const { services, caller, effects } = scope;
  const { call } = scope.asked;
  const [first] = plan.targets;
  const standIns =
    call.hosted &&
    standInsFor(services, caller, call.hosted, {
      isNative: plan.mcp === undefined && nativeCall(scope, { plan, conversation }, first!) !== undefined,
      drops: first!.account.unsupportedTools === "drop",
    });
  const grants = [...(plan.mcp?.grants ?? []), ...(standIns?.grants ?? [])];
  const skills = plan.mcp?.skills;
  if (grants.length === 0 && skills === undefined) return undefined;
  const asked = first?.call.request.tools ?? [];
  const names = asked.flatMap((tool) => (tool.type === "function" ? tool.function.name : []));
  const own = skills === undefined ? [] : [skillsTool(skills, names)];
  const reserved = [...names, ...own.map(({ name }) => name)];
  const others = grants.length === 0 ? [] : await grantedTools(services.mcp, grants, caller, reserved);
  const granted = [...own, ...others];
  if (granted.length === 0) return undefined;
  if (others.length > 0) await effects?.check();
  return {
    granted,
    bounds: plan.mcp?.bounds ?? services.live.config.mcp,
    nativeTools: standIns === undefined ? call.nativeTools : standIns.refusal,
  };
}

/** Writes the exchange as it is kept where the client's format has stored answers of its own. */
function shownBy({ writer, asked }: CallScope, stored: StoredForm<unknown>): Shown {
  const { source } = asked;
  const { options } = asked.call;
  const { protocol, envelope } = writer;
  const unique = envelope.id.slice(protocol.answerIdPrefix.length);
  return {
    format: protocol.name,
    leading: stored.leading(options),
    isBegun: stored.isBackground(options),
    items: () => stored.items(source.parsed, unique),
    answer: (completion, passed) =>
      (passed === undefined ? undefined : stored.answerIn(passed)) ?? (writer.whole(completion) as JsonObject),
  };
}
