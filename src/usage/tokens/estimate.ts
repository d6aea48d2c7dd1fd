/**
 * Estimates how many tokens a text or a prompt is, where no upstream counts: for the routes that count tokens, and for calls whose
 * answer had no usage. It counts by the tokenizer of OpenAI's newer models, which other families' differ from by a tenth or two.
 */
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import type { TextMeter } from "../attempt.ts";
import type { TextCounter } from "./tokenizer.ts";

/** `isReckoned`: by the texts' length alone, as the tokenizer had no time for them. */
export type Estimate = { readonly tokens: number; readonly isReckoned: boolean };

/** Means of an estimate: the counter, and how long its count is worth waiting for. */
export type Estimating = { readonly counter: TextCounter; readonly deadlineMs: number };

const nothing: Estimate = { tokens: 0, isReckoned: false };

/** Characters at once: the tokenizer takes as long as the square of a word that never ends. */
const sliceLength = 2048;
/** Characters that are counted; what is more is taken to be like them. */
const maxCounted = 64 * 1024;

/** UTF-8 has about as many bytes for a token: some more in English, fewer in most other languages. */
const bytesPerToken = 4;

/** @returns the tokens of all texts together, counted up to some length and estimated beyond */
export async function estimateTexts(texts: readonly string[], how: Estimating): Promise<Estimate> {
  let length = 0;
  for (const text of texts) length += text.length;
  if (length === 0) return nothing;
  const sample = sampleOf(texts, Math.min(1, maxCounted / length));
  const sampled = charactersIn(sample);
  const counted = await how.counter.count(sample, how.deadlineMs);
  const tokens = counted ?? bytesIn(sample) / bytesPerToken;
  return { tokens: Math.max(1, Math.round((tokens * length) / sampled)), isReckoned: counted === undefined };
}

/** The same share of each text's beginning, in slices, so that each text counts for what it is. */
function sampleOf(texts: readonly string[], share: number): string[] {
  const slices: string[] = [];
  let taken = 0;
  for (const text of texts) {
    const end = Math.ceil(text.length * share);
    for (let at = 0; at < end && taken < maxCounted; at += sliceLength) {
      const slice = text.slice(at, Math.min(end, at + sliceLength));
      taken += slice.length;
      slices.push(slice);
    }
  }
  return slices;
}

const charactersIn = (texts: readonly string[]) => texts.reduce((sum, text) => sum + text.length, 0);
const bytesIn = (texts: readonly string[]) => texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0);

/** @returns the tokens of a text that was not kept, by its sample */
export async function estimateMeter({ length, sample }: TextMeter, how: Estimating): Promise<Estimate> {
  if (length === 0) return nothing;
  const kept = charactersIn(sample);
  if (kept === 0) return extrapolateMeter({ length, sample });
  const { tokens, isReckoned } = await estimateTexts(sample, how);
  return { tokens: Math.max(1, Math.round((tokens * length) / kept)), isReckoned };
}

/** @returns the same by the text's length alone, at once */
export function extrapolateMeter({ length, sample }: TextMeter): Estimate {
  if (length === 0) return nothing;
  const kept = charactersIn(sample);
  const bytes = kept === 0 ? length : (bytesIn(sample) * length) / kept;
  return { tokens: Math.ceil(bytes / bytesPerToken), isReckoned: true };
}

/** Tokens that a message and a tool take beside their texts. */
const perMessage = 4;
const perTool = 8;
/** An image of usual size: https://platform.claude.com/docs/en/build-with-claude/vision#calculate-image-costs */
const perImage = 1500;
/** Characters of a file's base64 per token: a page of a PDF has some 50 KB, and takes up to 3000 tokens. */
const fileCharactersPerToken = 25;

/** @returns the tokens that a request's prompt is, media estimated by their kind */
export async function estimatePrompt({ messages, tools = [] }: ChatRequest, how: Estimating): Promise<Estimate> {
  const texts: string[] = [];
  let others = messages.length * perMessage + tools.length * perTool;
  for (const message of messages) {
    const { content } = message;
    if (typeof content === "string") texts.push(content);
    else for (const part of content ?? []) others += countPart(part as Record<string, unknown>, texts);
    if (message.role === "assistant") for (const call of message.tool_calls ?? []) texts.push(JSON.stringify(call));
  }
  for (const tool of tools) texts.push(JSON.stringify(tool));
  const { tokens, isReckoned } = await estimateTexts(texts, how);
  return { tokens: others + tokens, isReckoned };
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
