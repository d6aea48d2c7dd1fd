/** What outlives a call beside its answer: thinking state that clients strip from the history, and logged content. */
import type { Caller } from "../../auth/keys.ts";
import type { Target } from "../../upstream/target.ts";
import type { Remember } from "../call-observer.ts";
import type { RequestContext } from "../context.ts";
import type { Services } from "../services.ts";

const scopeOf = (caller: Caller, target: Target) => `${caller.keyId} ${target.account.name} ${target.call.model}`;

/** Restores the thinking state that a client's library stripped from the history. */
export function restoreThinkingState(services: Services, caller: Caller, target: Target): Target {
  const request = services.replayMemory.restore(scopeOf(caller, target), target.call.request);
  return request === target.call.request ? target : { ...target, call: { ...target.call, request } };
}

/** Stores thinking state of the whole answer. It matters only where tools may be called. */
export function memoriesOf(services: Services, caller: Caller, target: Target): Remember[] {
  if (target.call.request.tools === undefined) return [];
  const scope = scopeOf(caller, target);
  return [
    (whole) =>
      services.replayMemory.remember(
        scope,
        whole.choices.map((choice) => choice.message),
      ),
  ];
}

/** Logs content where `log.content` is set, as text, so that the log redacts keys in it. */
export function logContent({ logFields }: RequestContext, name: "messages" | "choices", content: unknown): void {
  logFields[name] = JSON.stringify(content);
}
