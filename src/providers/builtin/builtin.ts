/**
 * The models of a first run: compiled in, offline, the same answer for the same conversation.
 * `echo` repeats the caller's last text, `eliza` is a small chat partner, which answers in JSON where that is asked for. `probe` says what of
 * the request arrived, in pieces with pauses.
 */
import { Type } from "@sinclair/typebox";
import type { ChatRequest, ChunkBody, CompletionBody, FinishReason, Usage } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Call, LocalProvider } from "../provider.ts";
import { replyAsEliza } from "./eliza.ts";
import { inResponseFormat } from "./json-answer.ts";
import { inPieces, pausesIn } from "./probe.ts";

/** Takes all the caller's texts, oldest first, the number of the choice, and the request; returns what to say. */
type Speaker = (userTexts: readonly string[], choice: number, request: ChatRequest) => string;

const speakers: Readonly<Record<string, Speaker>> = {
  echo: (userTexts) => userTexts.at(-1) ?? "",
  eliza: (userTexts, choice, request) => inResponseFormat(replyAsEliza(userTexts, choice), request),
};

const probe = "probe";

/** A token of these models: a word or one other sign, with the white space before it. They share one count. */
const token = /\s*(?:[\p{L}\p{M}\p{N}'’]+|[^\s\p{L}\p{M}\p{N}'’])|\s+$/gu;

/** Longer texts are cut into pieces of a fixed length, each of which counts as a token: words of 20 MB would hold up all others. */
const maxTokenized = 64 * 1024;
const piece = /[\s\S]{1,4096}/gu;

export const builtin: LocalProvider = {
  kind: "local",
  name: "builtin",
  extras: Type.Object({}),
  models: [...Object.keys(speakers), probe],
  probe,
  pauses: ({ request }) => pausesIn(userTexts(request).at(-1) ?? ""),
  answer(call): CompletionBody {
    const replies = repliesTo(call);
    return {
      choices: replies.map(({ fragments, finish_reason }, index) => ({
        index,
        message: { role: "assistant", content: fragments.join("") },
        finish_reason,
      })),
      usage: usageOf(call.request, replies),
    };
  },
  *stream(call): Generator<ChunkBody> {
    const replies = repliesTo(call);
    for (const [index, { fragments, finish_reason }] of replies.entries()) {
      for (const content of fragments) yield { choices: [{ index, delta: { content }, finish_reason: null }] };
      yield { choices: [{ index, delta: {}, finish_reason }] };
    }
    yield { choices: [], usage: usageOf(call.request, replies) };
  },
};

type Reply = { fragments: string[]; finish_reason: FinishReason };

const userTexts = ({ messages }: ChatRequest): string[] =>
  messages.filter(({ role }) => role === "user").map(({ content }) => textOf(content));

function repliesTo({ model, request, arrived = {} }: Call): Reply[] {
  const texts = userTexts(request);
  if (model === probe)
    return [{ fragments: inPieces(JSON.stringify({ arrived }), pausesIn(texts.at(-1) ?? "")), finish_reason: "stop" }];
  const speak = Object.hasOwn(speakers, model) ? speakers[model] : undefined;
  if (speak === undefined) throw ApiError.modelNotFound(`builtin/${model}`);
  return Array.from({ length: request.n ?? 1 }, (_, choice) => limited(speak(texts, choice, request), request));
}

function limited(text: string, request: ChatRequest): Reply {
  const max = request.max_completion_tokens ?? request.max_tokens ?? Number.POSITIVE_INFINITY;
  const fragments = tokensOf(beforeStop(text, request.stop));
  return fragments.length > max
    ? { fragments: fragments.slice(0, max), finish_reason: "length" }
    : { fragments, finish_reason: "stop" };
}

function beforeStop(text: string, stop: ChatRequest["stop"]): string {
  const stops = typeof stop === "string" ? [stop] : (stop ?? []);
  const places = stops.filter((sequence) => sequence !== "").map((sequence) => text.indexOf(sequence));
  return text.slice(0, Math.min(text.length, ...places.filter((at) => at >= 0)));
}

function usageOf(request: ChatRequest, replies: readonly Reply[]): Usage {
  const prompt_tokens = request.messages.reduce((sum, { content }) => sum + tokensOf(textOf(content)).length, 0);
  const completion_tokens = replies.reduce((sum, { fragments }) => sum + fragments.length, 0);
  return { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens };
}

function tokensOf(text: string): string[] {
  return text.match(text.length > maxTokenized ? piece : token) ?? [];
}

function textOf(content: ChatRequest["messages"][number]["content"]): string {
  if (content == null || typeof content === "string") return content ?? "";
  return content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
}
