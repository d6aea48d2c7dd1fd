/** The answers of the formats that clients speak, as the load generator reads them; test/helpers/client-formats.ts writes the requests. */
import type { FormatName } from "../helpers/client-formats.ts";
import { cachedTokens, promptTokens } from "./answer-shape.ts";

/** What an event of a stream says. */
export type EventSeen = {
  readonly text?: string | undefined;
  /** Nothing may follow. */
  readonly isLast?: boolean;
  /** The answer ended as it should. */
  readonly isFinished?: boolean;
  readonly fault?: string | undefined;
  /** What must be the same in every event. */
  readonly names?: string;
  readonly usage?: ChatUsage | null;
};

export type ChatUsage = {
  prompt_tokens?: number;
  completion_tokens?: number;
  total_tokens?: number;
  prompt_tokens_details?: { cached_tokens?: number };
};

// biome-ignore lint/suspicious/noExplicitAny: foreign JSON, looked at field by field
type Foreign = any;

type Format = {
  /** @param name of the event, where it has one */
  event(name: string | undefined, data: string): EventSeen;
  /** The text of a plain answer, and what is wrong with its counts. */
  plain(body: Foreign, completionTokens: number): { text: unknown; fault?: string | undefined };
};

export function usageFault(usage: ChatUsage | null | undefined, completionTokens: number): string | undefined {
  const found = [
    usage?.prompt_tokens,
    usage?.completion_tokens,
    usage?.total_tokens,
    usage?.prompt_tokens_details?.cached_tokens,
  ];
  const wanted = [promptTokens, completionTokens, promptTokens + completionTokens, cachedTokens];
  return found.join() === wanted.join() ? undefined : `wrong usage: ${found} instead of ${wanted}`;
}

/** A reason to end other than the usual one is a fault. */
const ending = (reason: unknown, usual: string, word: string): EventSeen =>
  reason == null ? {} : reason === usual ? { isFinished: true } : { fault: `broken: ${word} ${reason}` };

const chat: Format = {
  event(name, data) {
    if (name !== undefined) return { fault: `broken: an event called ${name}` };
    if (data === "[DONE]") return { isLast: true };
    const chunk: Foreign = JSON.parse(data);
    if (chunk.error !== undefined) return { fault: `broken: ${JSON.stringify(chunk.error)}` };
    const names = `${chunk.object} ${chunk.id} ${chunk.created} ${chunk.model}`;
    const [choice] = chunk.choices;
    const seen = { names, usage: chunk.usage };
    return choice === undefined
      ? seen
      : { ...seen, text: choice.delta.content ?? undefined, ...ending(choice.finish_reason, "stop", "finish_reason") };
  },
  plain: ({ choices, usage }, completionTokens) => ({
    text: choices[0]?.message?.content,
    fault: usageFault(usage, completionTokens),
  }),
};

const messages: Format = {
  event(name, data) {
    const { type, delta }: Foreign = JSON.parse(data);
    if (type !== name) return { fault: `broken: event: ${name} holds a ${type}` };
    return {
      ...(delta?.type === "text_delta" ? { text: delta.text } : {}),
      isLast: type === "message_stop",
      ...ending(delta?.stop_reason, "end_turn", "stop_reason"),
    };
  },
  plain: ({ content }) => ({ text: content[0]?.text }),
};

const responses: Format = {
  event(name, data) {
    const { type, delta, response }: Foreign = JSON.parse(data);
    if (type !== name) return { fault: `broken: event: ${name} holds a ${type}` };
    if (type === "response.output_text.delta") return { text: delta };
    if (type === "response.completed") return { isLast: true, ...ending(response.status, "completed", "status") };
    return type === "error" || type === "response.failed" ? { fault: `broken: ${data}` } : {};
  },
  plain: ({ output, status }) => ({
    text: output.find(({ type }: Foreign) => type === "message")?.content[0]?.text,
    fault: status === "completed" ? undefined : `broken: status ${status}`,
  }),
};

const generateContent: Format = {
  event(name, data) {
    if (name !== undefined) return { fault: `broken: an event called ${name}` };
    const { candidates, error }: Foreign = JSON.parse(data);
    if (error !== undefined) return { fault: `broken: ${data}` };
    const [candidate] = candidates ?? [];
    const text = candidate?.content?.parts?.map((part: Foreign) => part.text ?? "").join("");
    // There is no event of its own for the end.
    return { text, isLast: false, ...ending(candidate?.finishReason, "STOP", "finishReason") };
  },
  plain: ({ candidates }) => ({ text: candidates[0]?.content?.parts[0]?.text }),
};

export const answerFormats: Record<FormatName, Format> = {
  chat,
  messages,
  responses,
  "generate-content": generateContent,
};

/** Formats whose streams end by an event that says so. */
export const hasLastEvent = (format: FormatName) => format !== "generate-content";
