/** The formats that clients speak: what they send for a prompt, and what they read of an answer. */
import { cachedTokens, promptTokens } from "./answer-shape.ts";

export type Turn = {
  readonly question: string;
  readonly tool: string;
  readonly argument: string;
  readonly result: string;
};
export type Prompt = {
  readonly system: string;
  /** What an agent has done before: a question, its call of a tool, and the tool's result. */
  readonly turns: readonly Turn[];
  /** The tools that it may call. */
  readonly tools: readonly { readonly name: string; readonly description: string }[];
  readonly user: string;
};

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
  /** Below the surface's base, e.g. `/v1/messages`. */
  path(model: string, streamed: boolean): string;
  body(model: string, prompt: Prompt, streamed: boolean): Record<string, unknown>;
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

const parameters = { type: "object", properties: { argument: { type: "string" } }, required: ["argument"] } as const;
const argumentsOf = ({ argument }: Turn) => ({ argument });
/** Nothing where there is nothing: most calls have no tools. */
const listed = <Key extends string>(key: Key, values: readonly unknown[]) =>
  values.length > 0 ? { [key]: values } : {};

const chat: Format = {
  path: () => "/v1/chat/completions",
  body: (model, { system, turns, tools, user }, streamed) => ({
    model,
    messages: [
      { role: "system", content: system },
      ...turns.flatMap((turn, at) => [
        { role: "user", content: turn.question },
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: `call_${at}`,
              type: "function",
              function: { name: turn.tool, arguments: JSON.stringify(argumentsOf(turn)) },
            },
          ],
        },
        { role: "tool", tool_call_id: `call_${at}`, content: turn.result },
      ]),
      { role: "user", content: user },
    ],
    ...listed(
      "tools",
      tools.map((tool) => ({ type: "function", function: { ...tool, parameters } })),
    ),
    ...(streamed ? { stream: true } : {}),
  }),
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
  path: () => "/v1/messages",
  body: (model, { system, turns, tools, user }, streamed) => ({
    model,
    max_tokens: 4096,
    system,
    messages: [
      ...turns.flatMap((turn, at) => [
        { role: "user", content: [{ type: "text", text: turn.question }] },
        {
          role: "assistant",
          content: [{ type: "tool_use", id: `toolu_${at}`, name: turn.tool, input: argumentsOf(turn) }],
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: `toolu_${at}`, content: turn.result }] },
      ]),
      { role: "user", content: user },
    ],
    ...listed(
      "tools",
      tools.map((tool) => ({ ...tool, input_schema: parameters })),
    ),
    ...(streamed ? { stream: true } : {}),
  }),
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
  path: () => "/v1/responses",
  body: (model, { system, turns, tools, user }, streamed) => ({
    model,
    instructions: system,
    input: [
      ...turns.flatMap((turn, at) => [
        { role: "user", content: [{ type: "input_text", text: turn.question }] },
        {
          type: "function_call",
          call_id: `call_${at}`,
          name: turn.tool,
          arguments: JSON.stringify(argumentsOf(turn)),
        },
        { type: "function_call_output", call_id: `call_${at}`, output: turn.result },
      ]),
      { role: "user", content: user },
    ],
    ...listed(
      "tools",
      tools.map((tool) => ({ type: "function", ...tool, parameters, strict: false })),
    ),
    store: false,
    ...(streamed ? { stream: true } : {}),
  }),
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
  path: (model, streamed) =>
    `/v1beta/models/${model}:${streamed ? "streamGenerateContent?alt=sse" : "generateContent"}`,
  body: (_, { system, turns, tools, user }) => ({
    systemInstruction: { parts: [{ text: system }] },
    contents: [
      ...turns.flatMap((turn) => [
        { role: "user", parts: [{ text: turn.question }] },
        { role: "model", parts: [{ functionCall: { name: turn.tool, args: argumentsOf(turn) } }] },
        { role: "user", parts: [{ functionResponse: { name: turn.tool, response: { result: turn.result } } }] },
      ]),
      { role: "user", parts: [{ text: user }] },
    ],
    ...listed(
      "tools",
      tools.length > 0 ? [{ functionDeclarations: tools.map((tool) => ({ ...tool, parameters })) }] : [],
    ),
  }),
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

export const clientFormats = { chat, messages, responses, "generate-content": generateContent } satisfies Record<
  string,
  Format
>;
export type ClientFormat = keyof typeof clientFormats;

/** Formats whose streams end by an event that says so. */
export const hasLastEvent = (format: ClientFormat) => format !== "generate-content";
