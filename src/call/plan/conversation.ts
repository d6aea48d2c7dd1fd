/** Stored conversations for one call: resumes the one that the request names, and stores the new turn. */

import type { Caller } from "../../auth/keys.ts";
import type { SurfaceName } from "../../config/config.ts";
import type { KeyHolder, Resumed, ShownExchange, UpstreamState } from "../../conversations/conversations.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { chatCompletion } from "../../protocols/chat/response.ts";
import type { ChatRequest, CompletionBody, Envelope, Message } from "../../protocols/chat/schema.ts";
import { needsStorage } from "../../store/require-storage.ts";
import { type NormalForm, normaliseCompletion } from "../../upstream/stream/normaliser.ts";
import type { Target } from "../../upstream/target.ts";
import type { Admitted } from "../scope.ts";
import type { Services } from "../services.ts";
import type { Remember } from "../settle/settle.ts";

/** The owner of stored conversations: one key on one surface. */
export function keyHolderOf(caller: Caller, surface: SurfaceName): KeyHolder {
  return { keyId: caller.keyId, surface };
}

/** An exchange as it is kept for a format with stored answers of its own. */
export type Shown = {
  /** The format's name. */
  readonly format: string;
  /** The number of the request's first messages that are not kept for later turns. */
  readonly leading: number;
  /** The input as it is listed. */
  items(): JsonObject[];
  /** @param passed what came from an upstream of the format, and goes to the client as it is */
  answer(completion: CompletionBody, passed: string | undefined): JsonObject;
  /** True where the exchange was stored when it began. */
  readonly isBegun: boolean;
};

/** @throws ApiError not_found for a previous_response_id that is unknown, expired, deleted or another's */
export async function openConversation(admitted: Admitted, request: ChatRequest, shown?: Shown): Promise<Conversation> {
  const { previous_response_id: previous, ...said } = request;
  if (previous === undefined) return new Conversation(admitted, request, undefined, shown);
  const { services, caller, surface } = admitted;
  const resumed = await services.conversations.resume(keyHolderOf(caller, surface.name), previous);
  return new Conversation(admitted, said, resumed, shown);
}

type Exchange = Omit<ShownExchange, "format" | "state" | "items" | "answer">;

/** The conversation of one call: what was said before, and what is stored of it. */
export class Conversation {
  readonly #services: Services;
  readonly #requestId: string;
  readonly #keyHolder: KeyHolder;
  readonly #said: ChatRequest;
  readonly #resumed: Resumed | undefined;
  readonly #shown: Shown | undefined;
  /** The request with the earlier messages of the conversation. */
  readonly whole: ChatRequest;

  constructor(
    { services, context, caller, surface }: Admitted,
    said: ChatRequest,
    resumed: Resumed | undefined,
    shown: Shown | undefined,
  ) {
    this.#services = services;
    this.#requestId = context.id;
    this.#keyHolder = keyHolderOf(caller, surface.name);
    this.#said = said;
    this.#resumed = resumed;
    this.#shown = shown;
    this.whole =
      resumed === undefined
        ? said
        : { ...said, messages: joined(resumed.messages, said.messages, shown?.leading ?? 0) };
  }

  /** The earlier messages alone; absent where nothing is continued. */
  get earlier(): readonly Message[] | undefined {
    return this.#resumed?.messages;
  }

  /** Tokens of what an upstream holds of it, as it told them; 0: nobody told any. */
  get heldTokens(): number {
    return this.held === undefined ? 0 : this.#resumed!.tokens;
  }

  /** The upstream's own state of the conversation; undefined where there is none. */
  get held(): UpstreamState | undefined {
    return this.#resumed?.upstream;
  }

  /** Refuses a call that can't be stored before it is made and billed. @throws ApiError */
  checkStorage(): Promise<void> {
    return needsStorage(() => this.#services.store.maintenance.check());
  }

  /** The target with only the new messages, where the upstream stores the conversation. */
  heldUpstream(target: Target): Target {
    if (this.#resumed?.upstream === undefined) return target;
    const upstream = heldAt(this.#resumed.upstream, target);
    if (upstream === undefined || !isHeldUpstream(target)) return target;
    const { call } = target;
    const request = { ...call.request, messages: this.#said.messages };
    return { ...target, call: { ...call, request, upstreamResponseId: upstream.responseId } };
  }

  /** Checks whether that account holds the turn that is continued, by the id that the caller knows. */
  isHeldBy(target: HoldingAccount): boolean {
    const { held } = this;
    return held !== undefined && heldAt(held, target)?.responseId === this.#resumed?.id;
  }

  /** Stores the turn before it is answered, in the background. @throws ApiError storage_unavailable */
  begin(envelope: Envelope, answer: JsonObject): Promise<void> {
    const completion = chatCompletion({ choices: [] }, envelope);
    const { format, items } = this.#shown!;
    const exchange = {
      request: this.#kept(),
      completion,
      resumed: this.#resumed,
      format,
      state: "running",
      items: items(),
      answer,
    } as const;
    return this.#services.conversations.rememberShown(this.#keyHolder, exchange);
  }

  /**
   * Stores the turn once it is complete. If that fails the answer is sent all the same.
   * @param passing the caller gets the upstream's answer as it is, with its id; `isHeld`: the upstream keeps it too
   */
  remember(target: Target, form: NormalForm, envelope: Envelope, passing?: { readonly isHeld: boolean }): Remember {
    const holds = passing?.isHeld ?? isHeldUpstream(target);
    return async (body, upstreamResponseId, passed) => {
      const upstream: UpstreamState | undefined =
        holds && upstreamResponseId !== undefined
          ? {
              account: target.account.name,
              ...(target.pool !== undefined && { member: target.member.id }),
              responseId: upstreamResponseId,
            }
          : undefined;
      const shown = this.#shown;
      const isOwnId = passing === undefined || shown?.isBegun === true;
      const id = (isOwnId ? undefined : upstreamResponseId) ?? envelope.id;
      const normal = normaliseCompletion(body, form);
      const { created, model } = envelope;
      const completion = chatCompletion(normal, { id, created, model });
      try {
        const exchange = { request: this.#kept(), completion, resumed: this.#resumed, upstream };
        if (shown === undefined)
          await this.#services.conversations.remember(this.#keyHolder, { ...exchange, requestId: this.#requestId });
        else
          await this.#rememberShown(shown, exchange, {
            ...shown.answer(normal, passed),
            id,
            ...(shown.isBegun && { background: true }),
          });
      } catch (error) {
        this.#services.log.error("an exchange could not be stored", { request_id: this.#requestId, error });
      }
    };
  }

  /** The request as later turns get it. */
  #kept(): ChatRequest {
    const leading = this.#shown?.leading ?? 0;
    const said = this.#said;
    return leading === 0 ? said : { ...said, messages: said.messages.slice(leading) };
  }

  async #rememberShown({ format, isBegun, items }: Shown, exchange: Exchange, answer: JsonObject): Promise<void> {
    const { conversations, forgetUpstream } = this.#services;
    const { completion, upstream } = exchange;
    if (!isBegun) {
      await conversations.rememberShown(this.#keyHolder, {
        ...exchange,
        format,
        state: "finished",
        items: items(),
        answer,
      });
      return;
    }
    const ended = { id: completion.id, state: "finished", answer } as const;
    const isKept = await conversations.settle(ended, completion.model, completion, upstream);
    // It was cancelled or deleted while its last events came.
    if (!isKept && upstream !== undefined) void forgetUpstream(upstream);
  }
}

type HoldingAccount = Pick<Target, "account" | "pool">;

/** @returns the state with the key that holds it, where the account still has that; undefined where another account has it */
export function heldAt(upstream: UpstreamState, { account, pool }: HoldingAccount): UpstreamState | undefined {
  if (upstream.account !== account.name) return undefined;
  if (pool === undefined) return upstream;
  // It was begun when the account had one key.
  const { member = pool.members[0]!.member.id } = upstream;
  return pool.members.some((one) => one.member.id === member) ? { ...upstream, member } : undefined;
}

/** Leading messages stay first. */
const joined = (earlier: readonly Message[], said: readonly Message[], leading: number): Message[] => [
  ...said.slice(0, leading),
  ...earlier,
  ...said.slice(leading),
];

function isHeldUpstream({ provider, call }: Target): boolean {
  return provider.kind === "remote" && provider.holdsConversation?.(call) === true;
}
