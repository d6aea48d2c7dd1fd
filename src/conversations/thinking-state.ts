/**
 * Thinking state for clients that strip what they don't know: signatures and encrypted reasoning of answers with tool
 * calls are kept for a while under the tool call's id, which always comes back, and put back on the echoed message. State that
 * came too late for the place that a format has for it is kept under the answer's id, where an envelope names it.
 */

import { derive, isObject, type JsonObject, objectOf } from "../lib/json/json.ts";
import { ownMember } from "../lib/json/own-member.ts";
import type { Clock } from "../lib/time/clock.ts";
import type { AnswerMessage, AssistantMessage, ChatRequest, Message } from "../protocols/chat/schema.ts";
import { answerOf } from "../protocols/state/returned-state.ts";

/** Long enough for a tool to run and its result to come back. */
const retentionMs = 60 * 60 * 1000;
/** Together they bound the memory: the oldest entries go first. */
const maxEntries = 10_000;
const maxCharacters = 64 * 1024 * 1024;

const stateFields = ["thinking_blocks", "extra_content", "reasoning_content", "reasoning_details"] as const;

export type State = {
  readonly fields: Partial<Record<(typeof stateFields)[number], unknown>>;
  /** `extra_content` of the calls themselves, by call id. */
  readonly calls: Readonly<Record<string, Record<string, unknown>>>;
};
/** A store of states. Expired ones are not found. */
export interface States {
  /** True where it is certainly empty. */
  readonly isEmpty: boolean;
  get(key: string): State | undefined;
  put(keys: readonly string[], state: State, expiresAt: number): void;
}

export class ReplayMemory {
  readonly #clock: Clock;
  readonly #states: States;

  constructor(clock: Clock, states: States = new HeldStates(clock)) {
    this.#clock = clock;
    this.#states = states;
  }

  /**
   * @param scope the API key and the upstream model: state is never shared across either
   * @param answer the id by which what the client gets names the answer; undefined where it does not
   */
  remember(scope: string, messages: readonly AnswerMessage[], answer?: string): void {
    for (const message of messages) {
      const ids = (message.tool_calls ?? []).map(({ id }) => id);
      if (answer !== undefined) ids.push(answer);
      const state = ids.length === 0 ? undefined : stateOf(message);
      if (state === undefined) continue;
      const keys = ids.map((id) => `${scope}\n${id}`);
      this.#states.put(keys, state, this.#clock.now() + retentionMs);
    }
  }

  /** True if nothing is known, so that nothing can be restored. */
  get isEmpty(): boolean {
    return this.#states.isEmpty;
  }

  /** @returns the request itself when nothing was missing, or nothing is known */
  restore(scope: string, request: ChatRequest): ChatRequest {
    let changed = false;
    const messages = request.messages.map((message): Message => {
      if (message.role !== "assistant") return message;
      const id = message.tool_calls?.[0]?.id ?? answerOf(message);
      const state = id === undefined ? undefined : this.#states.get(`${scope}\n${id}`);
      if (state === undefined) return message;
      changed = true;
      return withState(message, state);
    });
    return changed ? { ...request, messages } : request;
  }
}

type Entry = { readonly state: State; readonly size: number; readonly expiresAt: number };

/** In this process' memory. */
class HeldStates implements States {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();
  #size = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isEmpty(): boolean {
    return this.#entries.size === 0;
  }

  get(key: string): State | undefined {
    const entry = this.#entries.get(key);
    return entry === undefined || entry.expiresAt <= this.#clock.now() ? undefined : entry.state;
  }

  put(keys: readonly string[], state: State, expiresAt: number): void {
    const size = JSON.stringify(state).length;
    for (const key of keys) {
      this.#drop(key);
      this.#entries.set(key, { state, size, expiresAt });
      this.#size += size;
    }
    for (const [oldest, { expiresAt }] of this.#entries) {
      const full = this.#entries.size > maxEntries || this.#size > maxCharacters;
      if (!full && expiresAt > this.#clock.now()) break;
      this.#drop(oldest);
    }
  }

  #drop(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#size -= entry.size;
    this.#entries.delete(key);
  }
}

function stateOf(message: AnswerMessage): State | undefined {
  const fields: Record<string, unknown> = {};
  for (const name of stateFields) if (message[name] !== undefined) fields[name] = message[name];
  const calls: Record<string, Record<string, unknown>> = {};
  for (const call of message.tool_calls ?? []) {
    if (call.type === "function" && call.extra_content !== undefined) calls[call.id] = call.extra_content;
  }
  return Object.keys(fields).length + Object.keys(calls).length === 0 ? undefined : { fields, calls };
}

/** Fills in what the client dropped, or never got; what it sent stands. */
function withState(message: AssistantMessage, state: State): Message {
  const tool_calls = message.tool_calls?.map((call) => {
    const extra = ownMember(state.calls, call.id);
    return extra === undefined ? call : { extra_content: extra, ...call };
  });
  const missing: JsonObject = {};
  for (const [name, value] of Object.entries(state.fields)) {
    const sent = message[name as keyof AssistantMessage];
    if (sent == null) missing[name] = value;
    else if (name === "extra_content") missing[name] = joined(objectOf(value)!, sent as JsonObject);
  }
  return derive(message, { ...message, ...missing, ...(tool_calls && { tool_calls }) } as Message);
}

/** Each maker's state with what the message has of it already. */
function joined(kept: JsonObject, sent: JsonObject): JsonObject {
  const all: JsonObject = { ...sent };
  for (const [maker, state] of Object.entries(kept)) {
    const given = sent[maker];
    all[maker] = isObject(state) && isObject(given) ? { ...state, ...given } : (given ?? state);
  }
  return all;
}
