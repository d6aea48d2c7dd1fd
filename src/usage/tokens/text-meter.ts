/** Measures text that is not kept: counts its characters, and keeps a few of its fragments. */
import { words } from "../../lib/text/words.ts";
import { charactersLeftOut, parsedCharacters, type Source, wholeText } from "../../protocols/body/source.ts";
import type { ChatRequest, CompletionBody, Delta } from "../../protocols/chat/schema.ts";
import type { TextMeter } from "../attempt.ts";

/** The most characters kept of one fragment, so that a stream's meter holds some kilobytes at most. */
const maxFragment = 200;
/** The most characters kept of a request, as its text is there at once. */
const maxRequestSample = 1000;
/** Factor by which the text grows before the next fragment is kept. So most fragments cost an addition. */
const growth = 1.5;

export class OutputMeter implements TextMeter {
  length = 0;
  readonly sample: string[] = [];
  #next = 0;

  /** @param size in characters @param text gives what was added, or its beginning; called for few of them */
  add(size: number, text: () => string): void {
    this.length += size;
    if (this.length < this.#next) return;
    this.#next = this.length * growth;
    this.sample.push(copyOf(text(), maxFragment));
  }

  addDelta(delta: Delta): void {
    for (const name in delta) {
      const value = delta[name];
      if (typeof value === "string") {
        if (name !== "role" && value !== "") this.add(value.length, () => value);
      } else if (name === "tool_calls" && Array.isArray(value)) {
        for (const call of value as NonNullable<Delta["tool_calls"]>) {
          const text = call.function?.arguments ?? call.custom?.input ?? "";
          if (text !== "") this.add(text.length, () => text);
        }
      }
    }
  }
}

/** The text of an answer that is there at once. */
export function answerMeter({ choices }: CompletionBody): TextMeter {
  const meter = new OutputMeter();
  for (const { message } of choices) meter.addDelta(message as Delta);
  return meter;
}

/**
 * Characters of a request's texts; those of images and files do not count.
 * @param source the whole request: what its messages leave of it are its tools, which are not written out for this
 */
export function requestMeter({ messages, tools }: ChatRequest, source: Source): TextMeter {
  const meter = new InputMeter();
  if (source.large !== undefined) meter.divided = source;
  for (const message of messages) measure(message as MeasuredMessage, meter);
  const written = meter.length + meter.others + messages.length * messageOverhead;
  if (tools !== undefined) meter.length += Math.max(0, parsedCharacters(source) - written);
  if (source.large !== undefined) for (const tool of tools ?? []) addDescription(tool, source, meter);
  meter.length += meter.leftOut;
  return meter.end();
}

/** Its other words are among the bytes that the messages leave. */
function addDescription(tool: NonNullable<ChatRequest["tools"]>[number], source: Source, into: InputMeter): void {
  const { description } = tool.type === "function" ? tool.function : {};
  if (typeof description === "string") into.leftOut += charactersLeftOut(source, description);
}

/** Text that is there at once: its length, and the beginning of the last one. */
class InputMeter implements TextMeter {
  length = 0;
  /** Characters that are no words. */
  others = 0;
  last = "";
  /** Characters that placeholders stand for. */
  leftOut = 0;
  /** What the text is of, where a part of it may be left out. */
  divided: Source | undefined;

  get sample(): readonly string[] {
    return this.last === "" ? [] : [this.last];
  }

  /** Keeps no more than a sample of it. */
  end(): this {
    const last = this.divided === undefined ? this.last : wholeText(this.divided, this.last, 6 * maxRequestSample);
    this.last = copyOf(last, maxRequestSample);
    return this;
  }
}

/** Bytes that JSON takes around a message's text. */
const messageOverhead = 30;

type MeasuredMessage = { readonly content?: unknown; readonly tool_calls?: unknown };

function measure({ content, tool_calls }: MeasuredMessage, into: InputMeter): void {
  if (typeof content === "string") addText(content, into);
  else if (Array.isArray(content)) for (const part of content) measurePart(part as Record<string, unknown>, into);
  if (!Array.isArray(tool_calls)) return;
  for (const call of tool_calls as { function?: { arguments?: string } }[]) {
    addText(call.function?.arguments ?? "", into);
  }
}

function measurePart(part: Record<string, unknown>, into: InputMeter): void {
  if (typeof part["text"] === "string") addText(part["text"], into);
  else for (const name in part) into.others += longestOf(part[name]);
}

/** The length of what a part holds by value: an image's URL, a recording's or a file's data. */
function longestOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (typeof value !== "object" || value === null) return 0;
  return Math.max(0, ...Object.values(value).map((one) => (typeof one === "string" ? one.length : 0)));
}

function addText(text: string, into: InputMeter): void {
  into.length += text.length;
  if (into.divided !== undefined) into.leftOut += charactersLeftOut(into.divided, text);
  if (text !== "") into.last = text;
}

/** A slice would keep the whole text in memory. */
function copyOf(text: string, max: number): string {
  return text.length <= max ? text : Buffer.from(text.slice(0, max)).toString();
}

/** Names of members that hold media, addresses or sealed data, and no words. */
const wordless: ReadonlySet<string> = new Set([
  ...words(`
    model data url image_url file_data file_uri fileUri b64_json signature thoughtSignature encrypted_content
    id type role mimeType mime_type media_type
  `),
]);

/** Characters of all texts of a JSON body that is passed on, whatever its format; numbers stand for tokens, as embeddings take them. */
export function bodyMeter(body: unknown): TextMeter {
  const texts = new InputMeter();
  const measure = (value: unknown, key: string, depth = 0) => {
    if (depth > maxDepth) return;
    if (typeof value === "string") {
      if (!wordless.has(key) && !value.startsWith("data:")) addText(value, texts);
    } else if (Array.isArray(value))
      for (const one of value) measure(one, typeof one === "number" ? "" : key, depth + 1);
    else if (typeof value === "object" && value !== null)
      for (const name in value) measure((value as never)[name], name, depth + 1);
    else if (typeof value === "number" && key === "") texts.others += charactersPerToken;
  };
  measure(body, "body");
  texts.length += texts.others;
  return texts.end();
}

const charactersPerToken = 4;
/** No request has words further in. */
const maxDepth = 64;
