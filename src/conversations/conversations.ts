/**
 * Stored completions: `store: true` keeps an exchange, `previous_response_id` continues it with only the new messages, and
 * the stored-completions routes read it. Only its holder may read one: one key on one surface.
 */
import type { SurfaceName } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import { truncate } from "../lib/truncate.ts";
import type { AssistantMessage, ChatCompletion, ChatRequest, Message, Metadata } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { damaged, pack, unpackText } from "../store/packing.ts";
import { asUnavailable, needsStorage } from "../store/require-storage.ts";
import { StorageError } from "../store/storage-error.ts";
import type { ConversationRepository, Turn } from "../store/store.ts";

export type Holder = { readonly keyId: string; readonly surface: SurfaceName };

/** A conversation that the upstream holds too. */
export type UpstreamState = {
  /** The account whose it is: another one does not know the id. */
  readonly account: string;
  readonly responseId: string;
};

/** What `previous_response_id` stands for. */
export type Resumed = {
  readonly id: string;
  /** All messages so far, answers included. */
  readonly messages: readonly Message[];
  readonly upstream: UpstreamState | undefined;
};

/** The stored parts of one exchange. */
export type Exchange = {
  /** As the caller sent it: `messages` are the new ones only. */
  readonly request: ChatRequest;
  readonly requestId: string;
  readonly completion: ChatCompletion;
  readonly resumed?: Resumed | undefined;
  readonly upstream?: UpstreamState | undefined;
};

export type StoredCompletion = ChatCompletion & { readonly request_id: string; readonly metadata: Metadata };

/** Pages of the stored-completions routes: pass `last_id` as `after`. */
export type ListOf<T> = {
  readonly object: "list";
  readonly data: readonly T[];
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly has_more: boolean;
};

export type StoredMessage = Record<string, unknown> & {
  readonly id: string;
  readonly role: string;
  readonly content: string | null;
  readonly name: string | null;
  readonly content_parts: readonly unknown[] | null;
};

export type Paging = {
  readonly after?: string | undefined;
  /** 1 to 100; default 20. */
  readonly limit?: number | undefined;
  readonly order?: "asc" | "desc" | undefined;
};

export type Filter = Paging & {
  readonly model?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
};

const dayMs = 86_400_000;
const defaultLimit = 20;
const maxLimit = 100;
/** A conversation is sent whole with every turn, so no model takes more than a small part of this. */
const maxHistoryCharacters = 64 * 1024 * 1024;

export class Conversations {
  readonly #rows: ConversationRepository;
  readonly #clock: Clock;
  readonly #retentionDays: () => number;

  constructor(store: { readonly conversations: ConversationRepository }, clock: Clock, retentionDays: () => number) {
    this.#rows = store.conversations;
    this.#clock = clock;
    this.#retentionDays = retentionDays;
  }

  /** @throws ApiError not_found for what is unknown, expired, deleted or another's; storage_unavailable */
  async resume(holder: Holder, id: string): Promise<Resumed> {
    const turn = await this.#find(holder, id, "previous_response_id");
    const messages: Message[] = [];
    let characters = 0;
    for (const { input, completion } of await needsStorage(() => this.#rows.chain(id))) {
      const [said, answered] = [textOf(input), textOf(completion)];
      characters += said.length + answered.length;
      if (characters > maxHistoryCharacters) {
        throw ApiError.invalidValue("previous_response_id", "The conversation has grown too long to be continued.");
      }
      messages.push(...parsed<Message[]>(said), answerOf(parsed<ChatCompletion>(answered)));
    }
    await this.#touch(id);
    return { id, messages, upstream: upstreamOf(turn) };
  }

  /** Stores a complete exchange. Its handle is the completion's id. @throws ApiError storage_unavailable */
  async remember(holder: Holder, exchange: Exchange): Promise<void> {
    const { request, completion, resumed, upstream } = exchange;
    const input = pack(JSON.stringify(request.messages));
    const turn: Turn = {
      id: completion.id,
      format: "chat",
      state: "finished",
      parent: resumed?.id ?? null,
      holder: nameOf(holder),
      model: completion.model,
      createdAt: this.#clock.now(),
      metadata: JSON.stringify(request.metadata ?? {}),
      upstreamAccount: upstream?.account ?? null,
      upstreamId: upstream?.responseId ?? null,
      request: pack(JSON.stringify(shownOf(request, exchange.requestId))),
      input,
      completion: pack(JSON.stringify(completion)),
      shown: null,
    };
    const alone = resumed === undefined ? input : pack(JSON.stringify([...resumed.messages, ...request.messages]));
    await needsStorage(() => this.#rows.insert(turn, alone, this.#expiry()));
  }

  /** @throws ApiError not_found, storage_unavailable */
  async get(holder: Holder, id: string): Promise<StoredCompletion> {
    return shown(await this.#find(holder, id));
  }

  /** @throws ApiError invalid_value naming the parameter; storage_unavailable */
  async list(holder: Holder, filter: Filter): Promise<ListOf<StoredCompletion>> {
    const limit = checkLimit(filter.limit);
    const page = {
      holder: nameOf(holder),
      format: "chat",
      now: this.#clock.now(),
      model: filter.model ?? null,
      metadata: JSON.stringify(filter.metadata ?? {}),
      after: filter.after ?? null,
      limit: limit + 1,
    };
    const turns = await needsStorage(() => this.#rows.list(page, filter.order ?? "asc"));
    if (turns === undefined) throw unknownCursor(filter.after!);
    return pageOf(turns.map(shown), limit);
  }

  /** The messages that the model was given for that completion. @throws ApiError */
  async messages(holder: Holder, id: string, paging: Paging): Promise<ListOf<StoredMessage>> {
    const limit = checkLimit(paging.limit);
    await this.#find(holder, id);
    const turns = await needsStorage(() => this.#rows.chain(id));
    const all = turns.flatMap(({ input, completion }, at) => {
      const said = parsed<Message[]>(textOf(input));
      return at === turns.length - 1 ? said : [...said, answerOf(parsed<ChatCompletion>(textOf(completion)))];
    });
    const shownMessages = all.map((message, at) => shownMessage(message, `${id}-${at}`));
    if (paging.order === "desc") shownMessages.reverse();
    const after = paging.after === undefined ? -1 : shownMessages.findIndex((message) => message.id === paging.after);
    if (paging.after !== undefined && after < 0) throw unknownCursor(paging.after);
    return pageOf(shownMessages.slice(after + 1, after + 2 + limit), limit);
  }

  /** @param metadata replaces what there was. @throws ApiError not_found, storage_unavailable */
  async update(holder: Holder, id: string, metadata: Metadata): Promise<StoredCompletion> {
    const text = JSON.stringify(metadata);
    const known = await needsStorage(() => this.#rows.setMetadata(nameOf(holder), id, text, this.#clock.now()));
    if (!known) throw notFound(id);
    return this.get(holder, id);
  }

  /**
   * From now on it can neither be read nor continued. What later turns said before stays with them.
   * @returns the state that the upstream holds, so that it can be deleted there too
   * @throws ApiError not_found, storage_unavailable
   */
  async delete(holder: Holder, id: string): Promise<UpstreamState | undefined> {
    const turn = await this.#find(holder, id);
    const known = await needsStorage(() => this.#rows.markDeleted(nameOf(holder), id, this.#clock.now()));
    if (!known) throw notFound(id);
    return upstreamOf(turn);
  }

  async #find(holder: Holder, id: string, param = ""): Promise<Turn> {
    const turn = await needsStorage(() => this.#rows.find(nameOf(holder), id, this.#clock.now()));
    if (turn === undefined) throw notFound(id, param);
    return turn;
  }

  #expiry(): number {
    return this.#clock.now() + this.#retentionDays() * dayMs;
  }

  async #touch(id: string): Promise<void> {
    try {
      await this.#rows.touch(id, this.#expiry());
    } catch (error) {
      // Reading works on a full disk too; this use then does not count.
      if (!(error instanceof StorageError)) throw error;
    }
  }
}

const nameOf = ({ keyId, surface }: Holder) => `${keyId} ${surface}`;

function upstreamOf({ upstreamAccount, upstreamId }: Turn): UpstreamState | undefined {
  if (upstreamAccount === null || upstreamId === null) return undefined;
  return { account: upstreamAccount, responseId: upstreamId };
}

/** The first choice's message as the next request carries it: without what only answers have. */
function answerOf({ choices }: ChatCompletion): AssistantMessage {
  const first = choices.find(({ index }) => index === 0) ?? choices[0];
  const { annotations: _, refusal, audio, ...message } = first?.message ?? { role: "assistant", content: "" };
  return {
    ...message,
    ...(refusal == null ? {} : { refusal }),
    ...(audio == null ? {} : { audio: { id: (audio as { id: string }).id } }),
  } as AssistantMessage;
}

/**
 * The request's fields that a stored completion shows.
 * Source: https://platform.openai.com/docs/api-reference/chat/get
 */
function shownOf(request: ChatRequest, requestId: string): Record<string, unknown> {
  return {
    request_id: requestId,
    tool_choice: request.tool_choice ?? null,
    tools: request.tools ?? null,
    seed: request.seed ?? null,
    top_p: request.top_p ?? 1,
    temperature: request.temperature ?? 1,
    presence_penalty: request.presence_penalty ?? 0,
    frequency_penalty: request.frequency_penalty ?? 0,
    input_user: request.user ?? null,
    response_format: request.response_format ?? null,
  };
}

function shown(turn: Turn): StoredCompletion {
  return {
    ...parsed<ChatCompletion>(textOf(turn.completion)),
    ...parsed<{ request_id: string }>(textOf(turn.request)),
    metadata: JSON.parse(turn.metadata) as Metadata,
  };
}

const shownParts = new Set(["text", "image_url"]);

function shownMessage(message: Message, id: string): StoredMessage {
  const parts = Array.isArray(message.content) ? (message.content as { type: string; text?: string }[]) : null;
  const text = parts === null ? (message.content as string | null | undefined) : textIn(parts);
  return {
    ...message,
    id,
    content: text ?? null,
    name: message.name ?? null,
    content_parts: parts?.filter(({ type }) => shownParts.has(type)) ?? null,
  };
}

const textIn = (parts: readonly { type: string; text?: string }[]) => parts.map(({ text }) => text ?? "").join("");

/** @param found one more than the page holds, if there are more */
function pageOf<T extends { readonly id: string }>(found: readonly T[], limit: number): ListOf<T> {
  const data = found.slice(0, limit);
  const [first_id, last_id] = [data[0]?.id ?? null, data.at(-1)?.id ?? null];
  return { object: "list", data, first_id, last_id, has_more: found.length > limit };
}

function checkLimit(limit = defaultLimit): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= maxLimit) return limit;
  throw ApiError.invalidValue("limit", `limit must be a whole number from 1 to ${maxLimit}.`);
}

const notFound = (id: string, param = "") =>
  ApiError.notFound(`There is no stored completion '${truncate(id)}'.`, param);
const unknownCursor = (after: string) =>
  ApiError.notFound(`There is no item '${truncate(after)}' to go on after.`, "after");

/** @throws ApiError storage_unavailable when it is damaged */
function textOf(packed: Uint8Array): string {
  try {
    return unpackText(packed);
  } catch (error) {
    throw asUnavailable(error);
  }
}

/** @throws ApiError storage_unavailable when it is damaged */
function parsed<T>(text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (error) {
    throw asUnavailable(damaged(error));
  }
}
