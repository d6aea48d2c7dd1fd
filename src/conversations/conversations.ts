/**
 * Stored completions: `store: true` keeps an exchange, `previous_response_id` continues it with only the new messages, and
 * the stored-completions routes read it. Only its key holder may read one: one key on one surface.
 */

import type { SurfaceName } from "../config/config.ts";
import { isObject, type JsonObject } from "../lib/json/json.ts";
import { isPlainText, keepable } from "../lib/text/plain-text.ts";
import { truncate } from "../lib/text/truncate.ts";
import type { Clock } from "../lib/time/clock.ts";
import { dayMs } from "../lib/time/duration.ts";
import type {
  AssistantMessage,
  ChatCompletion,
  ChatRequest,
  CompletionBody,
  Message,
  Metadata,
} from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { StorageError } from "../store/contract/storage-error.ts";
import type { ConversationRepository, SettledTurn, Turn, TurnState } from "../store/contract/store.ts";
import { pack } from "../store/packing.ts";
import { needsStorage } from "../store/require-storage.ts";
import { checkLimit, conversationPageOf, type ListOf, type Paging, pageAfter, unknownCursor } from "./pages.ts";
import { shownOf } from "./shown-request.ts";
import { parsedOf, turnContentOf, turnTextOf } from "./turn-content.ts";

export type KeyHolder = { readonly keyId: string; readonly surface: SurfaceName };

/** A conversation that the upstream holds too. */
export type UpstreamState = {
  /** The account whose it is: another one does not know the id. */
  readonly account: string;
  /** Which of the account's keys at which of its endpoints; absent where it had one of both. */
  readonly member?: string | undefined;
  readonly responseId: string;
};

/** The conversation that `previous_response_id` stands for. */
export type Resumed = {
  readonly id: string;
  /** All messages so far, answers included. */
  readonly messages: readonly Message[];
  readonly upstream: UpstreamState | undefined;
  /** Tokens of the last turn, its prompt and its answer, as its upstream told them; 0: it told none. */
  readonly tokens: number;
};

/** The stored parts of one exchange. */
export type Exchange = {
  /** The request as the caller sent it: `messages` are the new ones only. */
  readonly request: ChatRequest;
  readonly requestId: string;
  readonly completion: ChatCompletion;
  readonly resumed?: Resumed | undefined;
  readonly upstream?: UpstreamState | undefined;
};

/** An exchange in a format with stored answers of its own. */
export type ShownExchange = Omit<Exchange, "requestId"> & {
  /** The format's name. */
  readonly format: string;
  readonly state: TurnState;
  /** The input as the format lists it. */
  readonly items: readonly JsonObject[];
  /** The answer as the format shows it. */
  readonly answer: JsonObject;
};

/** A stored answer of such a format. */
export type ShownAnswer = {
  readonly id: string;
  readonly state: TurnState;
  readonly answer: JsonObject;
};

export type StoredCompletion = ChatCompletion & { readonly request_id: string; readonly metadata: Metadata };

export type StoredMessage = Record<string, unknown> & {
  readonly id: string;
  readonly role: string;
  readonly content: string | null;
  readonly name: string | null;
  readonly content_parts: readonly unknown[] | null;
};

export type Filter = Paging & {
  readonly model?: string | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
};

/** A conversation is sent whole with every turn, so no model takes more than a small part of this. */
const maxHistoryCharacters = 64 * 1024 * 1024;

export class Conversations {
  readonly #rows: ConversationRepository;
  readonly #clock: Clock;
  readonly #retentionDays: () => number;
  /** The latest items that upstreams keep, by key holder and id, with their lengths: an agent names those of all its turns in each call. */
  readonly #items = new Map<string, number>();

  constructor(store: { readonly conversations: ConversationRepository }, clock: Clock, retentionDays: () => number) {
    this.#rows = store.conversations;
    this.#clock = clock;
    this.#retentionDays = retentionDays;
  }

  /** @throws ApiError not_found for what is unknown, expired, deleted or another's; storage_unavailable */
  async resume(keyHolder: KeyHolder, id: string): Promise<Resumed> {
    const turn = await this.#find(keyHolder, id, undefined, "previous_response_id");
    if (turn.state !== "finished") throw ApiError.invalidValue("previous_response_id", unfinished[turn.state](id));
    const messages: Message[] = [];
    let characters = 0;
    let tokens = 0;
    for (const { id: turnId, input, completion } of await needsStorage(() => this.#rows.chain(id))) {
      const [said, answered] = [turnTextOf(turnId, input), turnTextOf(turnId, completion)];
      characters += said.length + answered.length;
      if (characters > maxHistoryCharacters) {
        throw ApiError.invalidValue("previous_response_id", "The conversation has grown too long to be continued.");
      }
      const turnAnswer = parsedOf<ChatCompletion>(turnId, answered);
      messages.push(...parsedOf<Message[]>(turnId, said), answerOf(turnAnswer));
      tokens = turnAnswer.usage?.total_tokens ?? 0;
    }
    await this.#touch(id);
    return { id, messages, upstream: upstreamOf(turn), tokens };
  }

  /** Stores a complete exchange. Its handle is the completion's id. @throws ApiError storage_unavailable */
  remember(keyHolder: KeyHolder, exchange: Exchange): Promise<void> {
    const request = shownOf(exchange.request, exchange.requestId);
    return this.#insert(keyHolder, exchange, {
      format: "chat",
      state: "finished",
      request: packed(request),
      shown: null,
    });
  }

  /** Stores an exchange with what its own format's routes return, finished or running. @throws ApiError storage_unavailable */
  rememberShown(keyHolder: KeyHolder, exchange: ShownExchange): Promise<void> {
    const { format, state, items, answer } = exchange;
    const shown = { format, state, request: packed({ items }), shown: packed(answer) };
    if (exchange.upstream === undefined) return this.#insert(keyHolder, exchange, shown);
    const held = itemsIn(answer);
    this.#noteItems(keyHolder, held);
    const marks = Object.fromEntries([...held.keys()].map((id) => [id, itemMark]));
    return this.#insert(keyHolder, exchange, shown, marks);
  }

  /**
   * Ends a running answer.
   * @param completion its content where it has finished
   * @returns false when it does not run any more, or was deleted
   * @throws ApiError storage_unavailable
   */
  settle(
    { id, state, answer }: ShownAnswer & { readonly state: Exclude<TurnState, "running"> },
    model: string,
    completion?: CompletionBody,
    upstream?: UpstreamState,
  ): Promise<boolean> {
    const settled: SettledTurn = {
      state,
      model: keepable(model),
      ...upstreamColumns(upstream),
      completion: packed(completion ?? {}),
      shown: packed(answer),
    };
    return needsStorage(() => this.#rows.settle(id, settled));
  }

  /** Which of those answers do not run any more, whoever ended them. @throws ApiError storage_unavailable */
  stopped(ids: readonly string[]): Promise<string[]> {
    return needsStorage(() => this.#rows.stopped(ids));
  }

  async #insert(
    keyHolder: KeyHolder,
    { request, completion, resumed, upstream }: Omit<Exchange, "requestId">,
    shown: Pick<Turn, "format" | "state" | "request" | "shown">,
    metadata: Metadata = shown.format === "chat" ? (request.metadata ?? {}) : {},
  ): Promise<void> {
    const input = packed(request.messages);
    const turn: Turn = {
      // Upstreams' own, some of them.
      id: keepable(completion.id),
      parent: resumed?.id ?? null,
      keyHolder: nameOf(keyHolder),
      model: keepable(completion.model),
      createdAt: this.#clock.now(),
      metadata: JSON.stringify(metadata),
      ...upstreamColumns(upstream),
      input,
      completion: packed(completion),
      ...shown,
    };
    const alone = resumed === undefined ? input : packed([...resumed.messages, ...request.messages]);
    await needsStorage(() => this.#rows.insert(turn, alone, this.#expiry()));
  }

  /**
   * Measures an item, in bytes of JSON, that an upstream keeps of an answer of the key holder's.
   * @param answer the answer's id, where that of the item says it
   * @returns undefined where no answer of the key holder's has it @throws ApiError storage_unavailable
   */
  async itemBytes(
    keyHolder: KeyHolder,
    id: string,
    answer: string | undefined,
    format: string,
  ): Promise<number | undefined> {
    const known = this.#items.get(`${nameOf(keyHolder)} ${id}`);
    if (known !== undefined || !isPlainText(id)) return known;
    const turn = await needsStorage(() => this.#turnOfItem(nameOf(keyHolder), id, answer, format));
    if (turn === undefined || turn.shown === null) return undefined;
    this.#noteItems(keyHolder, itemsIn(turnContentOf<JsonObject>(turn.id, turn.shown)));
    return this.#items.get(`${nameOf(keyHolder)} ${id}`);
  }

  async #turnOfItem(keyHolder: string, id: string, answer: string | undefined, format: string) {
    const now = this.#clock.now();
    if (answer !== undefined) return this.#rows.find(keyHolder, answer, now);
    const metadata = JSON.stringify({ [id]: itemMark });
    return (
      await this.#rows.list({ keyHolder, format, now, model: null, metadata, after: null, limit: 1 }, "desc")
    )?.[0];
  }

  #noteItems(keyHolder: KeyHolder, items: ReadonlyMap<string, number>): void {
    for (const [id, bytes] of items) this.#items.set(`${nameOf(keyHolder)} ${id}`, bytes);
    for (const oldest of this.#items.keys()) {
      if (this.#items.size <= maxItems) break;
      this.#items.delete(oldest);
    }
  }

  /** @throws ApiError not_found, storage_unavailable */
  async get(keyHolder: KeyHolder, id: string): Promise<StoredCompletion> {
    return shown(await this.#find(keyHolder, id, "chat"));
  }

  /** @param format only answers of that format are found @throws ApiError not_found, storage_unavailable */
  async getShown(keyHolder: KeyHolder, id: string, format: string): Promise<ShownAnswer> {
    const turn = await this.#find(keyHolder, id, format);
    return { id, state: turn.state, answer: turnContentOf<JsonObject>(id, turn.shown!) };
  }

  /**
   * The input that an answer was given, the turns that it continues included, as its format lists it.
   * @param itemsOf lists the messages of a turn in another format @param unique part of the ids that it makes
   * @throws ApiError
   */
  async items(
    keyHolder: KeyHolder,
    id: string,
    format: string,
    paging: Paging,
    itemsOf: (messages: readonly Message[], unique: string) => JsonObject[],
  ): Promise<ListOf<JsonObject & { readonly id: string }>> {
    const limit = checkLimit(paging.limit);
    await this.#find(keyHolder, id, format);
    const turns = await needsStorage(() => this.#rows.shownChain(id));
    const all = turns.flatMap((turn) => {
      const isLast = turn.id === id;
      if (turn.shown !== null) {
        const { items } = turnContentOf<{ items: JsonObject[] }>(turn.id, turn.request);
        return isLast
          ? items
          : [...items, ...(turnContentOf<{ output: JsonObject[] }>(turn.id, turn.shown).output ?? [])];
      }
      const said = turnContentOf<Message[]>(turn.id, turn.input);
      return itemsOf([...said, answerOf(turnContentOf<ChatCompletion>(turn.id, turn.completion))], turn.id);
    });
    return pageAfter(all as (JsonObject & { id: string })[], paging, limit);
  }

  /** @throws ApiError invalid_value naming the parameter; storage_unavailable */
  async list(keyHolder: KeyHolder, filter: Filter): Promise<ListOf<StoredCompletion>> {
    const limit = checkLimit(filter.limit);
    const page = {
      keyHolder: nameOf(keyHolder),
      format: "chat",
      now: this.#clock.now(),
      model: filter.model ?? null,
      metadata: JSON.stringify(filter.metadata ?? {}),
      after: filter.after ?? null,
      limit: limit + 1,
    };
    const turns = await needsStorage(() => this.#rows.list(page, filter.order ?? "asc"));
    if (turns === undefined) throw unknownCursor(filter.after!);
    return conversationPageOf(turns.map(shown), limit);
  }

  /** The messages that the model was given for that completion. @throws ApiError */
  async messages(keyHolder: KeyHolder, id: string, paging: Paging): Promise<ListOf<StoredMessage>> {
    const limit = checkLimit(paging.limit);
    await this.#find(keyHolder, id, "chat");
    const turns = await needsStorage(() => this.#rows.chain(id));
    const all = turns.flatMap(({ id: turnId, input, completion }, at) => {
      const said = turnContentOf<Message[]>(turnId, input);
      return at === turns.length - 1 ? said : [...said, answerOf(turnContentOf<ChatCompletion>(turnId, completion))];
    });
    const shownMessages = all.map((message, at) => shownMessage(message, `${id}-${at}`));
    return pageAfter(shownMessages, paging, limit);
  }

  /** What a finished turn was given and what it answered, in any format; undefined where there is none. @throws ApiError storage_unavailable */
  async turn(keyHolder: KeyHolder, id: string): Promise<readonly Message[] | undefined> {
    const turn = await needsStorage(() => this.#rows.find(nameOf(keyHolder), id, this.#clock.now()));
    if (turn === undefined || turn.state !== "finished") return undefined;
    return [...turnContentOf<Message[]>(id, turn.input), answerOf(turnContentOf<ChatCompletion>(id, turn.completion))];
  }

  /** The same with the turns that it continues. */
  async saidUntil(keyHolder: KeyHolder, id: string): Promise<readonly Message[] | undefined> {
    if ((await this.turn(keyHolder, id)) === undefined) return undefined;
    const turns = await needsStorage(() => this.#rows.chain(id));
    return turns.flatMap(({ id: turnId, input, completion }) => [
      ...turnContentOf<Message[]>(turnId, input),
      answerOf(turnContentOf<ChatCompletion>(turnId, completion)),
    ]);
  }

  /** @param metadata replaces what there was. @throws ApiError not_found, storage_unavailable */
  async update(keyHolder: KeyHolder, id: string, metadata: Metadata): Promise<StoredCompletion> {
    const text = JSON.stringify(metadata);
    await this.#find(keyHolder, id, "chat");
    const known = await needsStorage(() => this.#rows.setMetadata(nameOf(keyHolder), id, text, this.#clock.now()));
    if (!known) throw notFound(id);
    return this.get(keyHolder, id);
  }

  /**
   * From now on it can neither be read nor continued. What later turns said before stays with them.
   * @returns the state that the upstream holds, so that it can be deleted there too
   * @throws ApiError not_found, storage_unavailable
   */
  async delete(keyHolder: KeyHolder, id: string, format = "chat"): Promise<UpstreamState | undefined> {
    const turn = await this.#find(keyHolder, id, format);
    const known = await needsStorage(() => this.#rows.markDeleted(nameOf(keyHolder), id, this.#clock.now()));
    if (!known) throw notFound(id);
    return upstreamOf(turn);
  }

  /** @param format undefined: any */
  async #find(keyHolder: KeyHolder, id: string, format: string | undefined, param = ""): Promise<Turn> {
    // No store is asked for what none can keep.
    const turn = isPlainText(id)
      ? await needsStorage(() => this.#rows.find(nameOf(keyHolder), id, this.#clock.now()))
      : undefined;
    if (turn === undefined || (format !== undefined && turn.format !== format)) throw notFound(id, param, format);
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

/**
 * Answers of formats that show their own metadata have the ids of what the upstream keeps of them in its place, by which they are found.
 */
const itemMark = "item";
const maxItems = 10_000;

function itemsIn({ output }: JsonObject): Map<string, number> {
  const items = Array.isArray(output) ? output.filter(isObject) : [];
  return new Map(
    items.flatMap(({ id, ...item }) =>
      typeof id === "string" && isPlainText(id) ? [[id, JSON.stringify(item).length]] : [],
    ),
  );
}

const nameOf = ({ keyId, surface }: KeyHolder) => `${keyId} ${surface}`;

const unfinished: Record<Exclude<TurnState, "finished">, (id: string) => string> = {
  running: (id) => `The response '${truncate(id)}' is still being answered; continue it once it has finished.`,
  failed: (id) => `The response '${truncate(id)}' failed, and can't be continued.`,
  cancelled: (id) => `The response '${truncate(id)}' was cancelled, and can't be continued.`,
};

const packed = (value: unknown): Uint8Array => pack(JSON.stringify(value));

const upstreamColumns = (upstream: UpstreamState | undefined) => ({
  upstreamAccount: upstream === undefined ? null : [upstream.account, upstream.member ?? []].flat().join("/"),
  upstreamId: upstream === undefined ? null : keepable(upstream.responseId),
});

function upstreamOf({ upstreamAccount, upstreamId }: Turn): UpstreamState | undefined {
  if (upstreamAccount === null || upstreamId === null) return undefined;
  // No account has a slash in its name.
  const [account = "", member] = upstreamAccount.split("/");
  return { account, responseId: upstreamId, ...(member !== undefined && { member }) };
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

function shown(turn: Turn): StoredCompletion {
  return {
    ...turnContentOf<ChatCompletion>(turn.id, turn.completion),
    ...turnContentOf<{ request_id: string }>(turn.id, turn.request),
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

const notFound = (id: string, param = "", format = "chat") =>
  ApiError.notFound(`There is no stored ${format === "chat" ? "completion" : "response"} '${truncate(id)}'.`, param);
