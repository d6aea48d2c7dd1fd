/**
 * Estimates how many tokens a text or a prompt is, where no upstream counts: for the routes that count tokens, and for calls whose
 * answer told no usage. It counts by the tokenizer of OpenAI's newer models, which other families' differ from by a tenth or two.
 */
import { nextSlice } from "../lib/cooperative-scheduling.ts";
import type { ChatRequest } from "../protocols/chat/schema.ts";
import type { TextMeter } from "./attempt.ts";

type Counter = (text: string) => number;

let loading: Promise<Counter> | undefined;

/** Its ranks take tens of megabytes and a good part of a second to read: they are read for the first estimate. */
function tokenizer(): Promise<Counter> {
  loading ??= import("gpt-tokenizer/encoding/o200k_base").then(({ countTokens }) => {
    // A caller's text is a text, whatever it spells.
    const plain = { disallowedSpecial: new Set<string>() };
    return (text) => countTokens(text, plain);
  });
  return loading;
}

/** Characters at once: the tokenizer takes as long as the square of a word that never ends. */
const sliceLength = 2048;
/** Characters that are counted; what is more is taken to be like them. */
const maxCounted = 64 * 1024;

/** @returns the tokens of all texts together, counted up to some length and reckoned beyond */
export async function estimateTexts(texts: readonly string[]): Promise<number> {
  let length = 0;
  for (const text of texts) length += text.length;
  if (length === 0) return 0;
  const count = await tokenizer();
  const share = Math.min(1, maxCounted / length);
  let counted = 0;
  let tokens = 0;
  for (const text of texts) {
    const end = Math.ceil(text.length * share);
    for (let at = 0; at < end && counted < maxCounted; at += sliceLength) {
      const slice = text.slice(at, Math.min(end, at + sliceLength));
      tokens += count(slice);
      const before = counted;
      counted += slice.length;
      if (Math.floor(before / sliceLength) !== Math.floor(counted / sliceLength)) await nextSlice();
    }
  }
  return Math.round((tokens * length) / counted);
}

/** @returns the tokens of a text that was not kept, by its sample */
export async function estimateMeter({ length, sample }: TextMeter): Promise<number> {
  const kept = sample.reduce((sum, text) => sum + text.length, 0);
  return kept === 0 ? Math.ceil(length / 4) : Math.round(((await estimateTexts(sample)) * length) / kept);
}

/** What a turn and a tool take beside their texts. */
const perMessage = 4;
const perTool = 8;
/** An image of usual size: https://platform.claude.com/docs/en/build-with-claude/vision#calculate-image-costs */
const perImage = 1500;
/** Of a file's base64: a page of a PDF has some 50 KB, and takes up to 3000 tokens. */
const fileCharactersPerToken = 25;

/** @returns the tokens that a request's prompt is, media reckoned by their kind */
export async function estimatePrompt({ messages, tools = [] }: ChatRequest): Promise<number> {
  const texts: string[] = [];
  let others = messages.length * perMessage + tools.length * perTool;
  for (const message of messages) {
    const { content } = message;
    if (typeof content === "string") texts.push(content);
    else for (const part of content ?? []) others += countPart(part as Record<string, unknown>, texts);
    if (message.role === "assistant") for (const call of message.tool_calls ?? []) texts.push(JSON.stringify(call));
  }
  for (const tool of tools) texts.push(JSON.stringify(tool));
  return others + (await estimateTexts(texts));
}

/** @param texts takes the part's text @returns the tokens of what is no text */
function countPart(part: Record<string, unknown>, texts: string[]): number {
  if (typeof part["text"] === "string") texts.push(part["text"]);
  switch (part["type"]) {
    case "image_url":
      return perImage;
    case "file": {
      const data = (part["file"] as { file_data?: unknown }).file_data;
      return typeof data === "string" ? Math.ceil(data.length / fileCharactersPerToken) : perImage;
    }
    case "input_audio": {
      const { data } = part["input_audio"] as { data: string };
      return Math.ceil(data.length / fileCharactersPerToken);
    }
    default:
      return 0;
  }
}
