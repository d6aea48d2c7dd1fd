/** Calls of the playground: what is asked, and the answer as it comes. */
import { EventSourceParserStream } from "eventsource-parser/stream";
import { ApiFailure, apiFailure, apiUrl, ask } from "../../api.ts";

export type Json = Readonly<Record<string, unknown>>;
export type Turn = {
  readonly text: string;
  /** A data URL. */
  readonly image?: string | undefined;
};
type ToolCall = { name: string; args: string };
export type Usage = { readonly prompt_tokens?: number; readonly completion_tokens?: number; readonly cost?: number };
export type Answer = {
  state: "open" | "done" | "stopped" | "failed";
  /** What was sent. */
  readonly body: Json;
  text: string;
  thinking: string;
  tools: ToolCall[];
  images: string[];
  finish?: string;
  firstMs?: number;
  totalMs?: number;
  usage?: Usage;
  headers?: Headers;
  error?: ApiFailure;
};

type Delta = {
  readonly content?: unknown;
  readonly refusal?: unknown;
  readonly reasoning_content?: unknown;
  readonly images?: readonly { readonly image_url?: { readonly url?: unknown } }[];
  readonly tool_calls?: readonly {
    readonly index?: number;
    readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
  }[];
};
type Chunk = {
  readonly error?: unknown;
  readonly usage?: Usage | null;
  readonly choices?: readonly { readonly delta?: Delta; readonly finish_reason?: string | null }[];
};

const textOf = (value: unknown) => (typeof value === "string" ? value : "");
/** How often what came is shown. */
const everyMs = 50;
const maxImages = 20;

function take(answer: Answer, { usage, choices }: Chunk): boolean {
  if (usage) answer.usage = usage;
  const [{ delta = {}, finish_reason: finish } = {}] = choices ?? [];
  if (finish) answer.finish = finish;
  const { images = [], tool_calls: calls = [] } = delta;
  const [text, thinking] = [textOf(delta.content) + textOf(delta.refusal), textOf(delta.reasoning_content)];
  answer.text += text;
  answer.thinking += thinking;
  for (const { image_url: image } of images) {
    if (answer.images.length < maxImages) answer.images.push(textOf(image?.url));
  }
  for (const { index = 0, function: called = {} } of calls) {
    if (index >= 128) continue;
    answer.tools[index] ??= { name: "", args: "" };
    answer.tools[index].name += textOf(called.name);
    answer.tools[index].args += textOf(called.arguments);
  }
  return text !== "" || thinking !== "" || images.length > 0 || calls.length > 0;
}

/** @param show gets the answer as it is, some times a second and at its end */
export async function call(body: Json, signal: AbortSignal, show: (answer: Answer) => void): Promise<void> {
  const answer: Answer = { state: "open", body, text: "", thinking: "", tools: [], images: [] };
  const began = performance.now();
  let showing: ReturnType<typeof setTimeout> | undefined;
  const showNow = () => {
    clearTimeout(showing);
    showing = undefined;
    show({ ...answer, tools: answer.tools.filter(Boolean) });
  };
  showNow();
  try {
    const asked = { ...body, stream: true, usage: { include: true } };
    const response = await ask("POST", apiUrl("v1/playground/chat/completions"), asked, { signal });
    answer.headers = response.headers;
    const events = response.body!.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream());
    for await (const { data } of events as unknown as AsyncIterable<{ readonly data: string }>) {
      // The last event is a mark, and no JSON.
      if (!data.startsWith("{")) continue;
      const chunk = JSON.parse(data) as Chunk;
      if (chunk.error) throw apiFailure(chunk.error, 0, response.headers.get("x-request-id") ?? "");
      if (take(answer, chunk)) answer.firstMs ??= performance.now() - began;
      showing ??= setTimeout(showNow, everyMs);
    }
    answer.state = "done";
  } catch (error) {
    answer.state = signal.aborted ? "stopped" : "failed";
    if (!signal.aborted)
      answer.error = error instanceof ApiFailure ? error : new ApiFailure(0, "broken_off", String(error));
  }
  answer.totalMs = performance.now() - began;
  showNow();
}

const userMessage = ({ text, image }: Turn): Json => ({
  role: "user",
  content:
    image === undefined
      ? text
      : [
          { type: "text", text },
          { type: "image_url", image_url: { url: image } },
        ],
});

/** @param answers to the turns before the last, in their order */
export const messagesOf = (turns: readonly Turn[], answers: readonly (Answer | undefined)[]): Json[] =>
  turns.flatMap((turn, at) => {
    const text = at < turns.length - 1 ? answers[at]?.text : undefined;
    return [userMessage(turn), ...(text ? [{ role: "assistant", content: text }] : [])];
  });
