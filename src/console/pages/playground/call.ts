/** Calls of the playground: what is asked, and the answer as it comes. */
import { EventSourceParserStream } from "eventsource-parser/stream";
import { ApiFailure, apiFailure, apiUrl, ask } from "../../api.ts";

export type Json = Readonly<Record<string, unknown>>;
export type Turn = {
  readonly text: string;
  /** A data URL. */
  readonly image?: string | undefined;
  /** In place of a question what tools gave that were called: of each column, by the calls' ids. */
  readonly results?: readonly (Readonly<Record<string, string>> | undefined)[];
};
/** @property more whatever a provider wants back with the call */
export type ToolCall = { id: string; name: string; args: string; more?: Json };
export type Usage = { readonly prompt_tokens?: number; readonly completion_tokens?: number; readonly cost?: number };
export type Answer = {
  state: "open" | "done" | "stopped" | "failed";
  /** What was sent. */
  readonly body: Json;
  text: string;
  thinking: string;
  tools: ToolCall[];
  images: string[];
  /** State of thoughts, which goes back unchanged with the answer. */
  thoughts: Json;
  /** Of the answer, such as the calls of tools that the server made. */
  metadata: Readonly<Record<string, string>>;
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
    readonly id?: unknown;
    readonly extra_content?: Json;
    readonly function?: { readonly name?: unknown; readonly arguments?: unknown };
  }[];
};
type Chunk = {
  readonly error?: unknown;
  readonly usage?: Usage | null;
  readonly metadata?: Answer["metadata"];
  readonly choices?: readonly { readonly delta?: Delta; readonly finish_reason?: string | null }[];
};

const textOf = (value: unknown) => (typeof value === "string" ? value : "");
/** How often what came is shown. */
const everyMs = 50;
const maxImages = 20;
/** Fields of a message in which thoughts come, and go back. */
const thoughtFields = ["thinking_blocks", "reasoning_details", "extra_content"];

/** What pieces of one field come to. */
const joined = (known: unknown, piece: unknown): unknown =>
  Array.isArray(known) && Array.isArray(piece) ? [...known, ...piece] : { ...(known as Json), ...(piece as Json) };

function take(answer: Answer, { usage, choices, metadata }: Chunk): boolean {
  if (usage) answer.usage = usage;
  if (metadata) answer.metadata = { ...answer.metadata, ...metadata };
  const [{ delta = {}, finish_reason: finish } = {}] = choices ?? [];
  if (finish) answer.finish = finish;
  const { images = [], tool_calls: calls = [] } = delta;
  const [text, thinking] = [textOf(delta.content) + textOf(delta.refusal), textOf(delta.reasoning_content)];
  answer.text += text;
  answer.thinking += thinking;
  for (const { image_url: image } of images) {
    if (answer.images.length < maxImages) answer.images.push(textOf(image?.url));
  }
  for (const [name, piece] of Object.entries(delta)) {
    if (thoughtFields.includes(name) && typeof piece === "object" && piece !== null)
      answer.thoughts = {
        ...answer.thoughts,
        [name]: Object.hasOwn(answer.thoughts, name) ? joined(answer.thoughts[name], piece) : piece,
      };
  }
  for (const { index = 0, id, extra_content: more, function: called = {} } of calls) {
    if (index >= 128) continue;
    answer.tools[index] ??= { id: "", name: "", args: "" };
    answer.tools[index].id ||= textOf(id);
    if (more) answer.tools[index].more = { extra_content: more };
    answer.tools[index].name += textOf(called.name);
    answer.tools[index].args += textOf(called.arguments);
  }
  return text !== "" || thinking !== "" || images.length > 0 || calls.length > 0;
}

/** @param show gets the answer as it is, some times a second and at its end */
export async function call(body: Json, signal: AbortSignal, show: (answer: Answer) => void): Promise<void> {
  const answer: Answer = {
    ...{ state: "open", body, text: "", thinking: "", tools: [], images: [], thoughts: {}, metadata: {} },
  };
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

const assistantMessage = ({ text, tools, thoughts }: Answer): Json => ({
  ...{ role: "assistant", content: text || null, ...thoughts },
  tool_calls: tools.map(({ id, name, args, more }) => ({
    ...{ id, type: "function", function: { name, arguments: args } },
    ...more,
  })),
});

/** An answer in a conversation, and which column gave it. */
type Given = { readonly answer: Answer; readonly column: number } | undefined;

/** @param given to each turn. What another column's tools gave is passed over. */
export function messagesOf(turns: readonly Turn[], given: readonly Given[]): Json[] {
  const messages: Json[] = [];
  let last: Given;
  for (const [at, turn] of turns.entries()) {
    const results = turn.results?.[last?.column ?? 0];
    if (turn.results === undefined) {
      // Calls of tools that nobody answered would be refused.
      if (last?.answer.text) messages.push({ role: "assistant", content: last.answer.text });
      messages.push(userMessage(turn));
    } else if (last === undefined || results === undefined || last.answer.tools.length === 0) continue;
    else {
      const { answer } = last;
      const gave = answer.tools.map(({ id }) => ({ role: "tool", tool_call_id: id, content: results[id] ?? "" }));
      messages.push(assistantMessage(answer), ...gave);
    }
    last = given[at];
  }
  return messages;
}
