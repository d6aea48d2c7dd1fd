/** Opens the state that continues the model's thoughts, which clients of other formats give back in envelopes (`seal.ts`). */
import { isObject, type JsonObject, listOf, numberOf, objectOf, originOf, textOf } from "../../lib/json/json.ts";
import type { AnswerMessage, AssistantMessage, ThinkingBlock } from "../chat/schema.ts";
import { type SealFamily, unseal } from "./seal.ts";

/** The state that stands on a message as a whole. */
export type MessageState = Pick<AnswerMessage, "thinking_blocks" | "extra_content"> & { reasoning_details?: unknown };

/** Beside the messages, as it is no member of theirs. */
const answers = new WeakMap<object, string>();

/** Notes the answer of ours that a message is. */
export function nameAnswer<T extends object>(message: T, answer: string | undefined): T {
  if (answer !== undefined) answers.set(message, answer);
  return message;
}

/** @returns the id of the answer that the message is, or was made from; undefined where nothing names it */
export function answerOf(message: object): string | undefined {
  for (let one: object | undefined = message; one !== undefined; one = originOf(one)) {
    const answer = answers.get(one);
    if (answer !== undefined) return answer;
  }
  return undefined;
}

type ExtraContent = Record<string, unknown>;

/** Collects the state of one turn. */
export class ReturnedState {
  readonly blocks: ThinkingBlock[] = [];
  /** The places of the blocks among texts and calls. Undefined: the usual ones. */
  layout: readonly unknown[] | undefined;
  readonly details: JsonObject[] = [];
  /** The message's `extra_content`. */
  readonly extra: ExtraContent = {};
  /** The `extra_content` of calls and images, by their ids. */
  readonly calls = new Map<string, ExtraContent>();
  readonly images = new Map<string, ExtraContent>();
  /** The answer of ours that the envelopes are of, by its id. */
  answer: string | undefined;
  /** Reasoning whose fruit has not come yet. */
  #pending: JsonObject[] = [];

  /**
   * An envelope that can't be opened is left out: it is of no use to anybody.
   * @returns what it holds, and who made that; undefined where it can't be opened
   */
  open(text: string): { readonly family: SealFamily; readonly content: JsonObject } | undefined {
    const { family, content } = unseal(text) ?? {};
    if (family === undefined || !isObject(content)) return undefined;
    const { blocks, layout, details, message, calls, images, answer } = content;
    this.answer ??= textOf(answer);
    this.blocks.push(...listOf(blocks).filter(isThinkingBlock));
    this.layout ??= layoutOf(layout);
    this.details.push(...listOf(details).filter(isObject));
    if (isObject(message)) this.#message(family, message);
    for (const [id, state] of statesIn(calls)) this.calls.set(id, { [family]: state });
    for (const [id, state] of statesIn(images)) this.images.set(id, { [family]: state });
    return { family, content };
  }

  /** A text stands here, or a call: reasoning leads to what follows it. */
  spoke(callId?: string): void {
    if (callId !== undefined) for (const one of this.#pending) one["call_id"] = callId;
    this.#pending = [];
  }

  /** The members of the turn's message. */
  fields(): Pick<AssistantMessage, "thinking_blocks" | "extra_content" | "reasoning_details"> {
    const extra = { ...(this.layout !== undefined && { anthropic: { layout: this.layout } }), ...this.extra };
    return {
      ...(this.blocks.length > 0 && { thinking_blocks: this.blocks }),
      ...(Object.keys(extra).length > 0 && { extra_content: extra }),
      ...(this.details.length > 0 && { reasoning_details: this.details }),
    };
  }

  /** One envelope has the reasoning of one item, or that of the whole message. */
  #message(family: SealFamily, message: JsonObject): void {
    const known = objectOf(this.extra[family]);
    const reasoning = listOf(message["reasoning"]).map((entry) => (isObject(entry) ? { ...entry } : entry));
    for (const entry of reasoning) if (isObject(entry) && entry["call_id"] === undefined) this.#pending.push(entry);
    const all = [...listOf(known?.["reasoning"]), ...reasoning];
    this.extra[family] = { ...known, ...message, ...(all.length > 0 && { reasoning: all }) };
  }
}

const statesIn = (states: unknown) => Object.entries(objectOf(states) ?? {}).filter(([, state]) => isObject(state));

function isThinkingBlock(value: unknown): value is ThinkingBlock {
  const { type, thinking, signature, data } = objectOf(value) ?? {};
  if (type === "redacted_thinking") return typeof data === "string";
  return type === "thinking" && typeof thinking === "string" && typeof signature === "string";
}

function layoutOf(value: unknown): readonly unknown[] | undefined {
  const entries = listOf(value);
  const isLayout = entries.every((one) => typeof one === "string" || numberOf(one) !== undefined);
  return isLayout && entries.length > 0 ? entries : undefined;
}
