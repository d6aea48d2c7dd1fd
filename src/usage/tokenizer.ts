/** Estimates tokens where no upstream counted them. The tokenizer, 2 MB of tables, is loaded when one is first needed. */
import { nextSlice } from "../lib/cooperative-scheduling.ts";
import type { TextMeter } from "./attempt.ts";

type CountTokens = (text: string) => number;

let loading: Promise<CountTokens> | undefined;

async function load(): Promise<CountTokens> {
  const { countTokens } = await import("gpt-tokenizer/encoding/o200k_base");
  // Words that stand for control tokens are a caller's text like any other.
  const options = { disallowedSpecial: new Set<string>() };
  return (text) => countTokens(text, options);
}

function tokenizer(): Promise<CountTokens> {
  loading ??= load();
  return loading;
}

/** A piece that is counted at once: some milliseconds. */
const pieceLength = 8192;
/** Of longer texts so many pieces are counted, spread over the whole. */
const maxPieces = 16;

/** @returns about how many tokens a text has; exactly, by OpenAI's newest encoding, where it is no longer than 128 Ki characters */
export async function estimateText(text: string): Promise<number> {
  const count = await tokenizer();
  const pieces = Math.ceil(text.length / pieceLength);
  if (pieces <= 1) return count(text);
  const taken = Math.min(pieces, maxPieces);
  let tokens = 0;
  let length = 0;
  for (let at = 0; at < taken; at += 1) {
    const start = Math.floor((at * pieces) / taken) * pieceLength;
    const piece = text.slice(start, start + pieceLength);
    tokens += count(piece);
    length += piece.length;
    await nextSlice();
  }
  return Math.round((tokens * text.length) / length);
}

/** Where there is no sample to go by. */
const usualTokenLength = 4;

/** @returns about how many tokens a text has that was only measured */
export async function estimateMeter({ length, sample }: TextMeter): Promise<number> {
  if (length === 0) return 0;
  const count = await tokenizer();
  let tokens = 0;
  let sampled = 0;
  for (const text of sample) {
    tokens += count(text);
    sampled += text.length;
  }
  return sampled === 0 ? Math.ceil(length / usualTokenLength) : Math.max(1, Math.round((tokens * length) / sampled));
}
