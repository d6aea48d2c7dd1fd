/**
 * What a mock answer looks like, told by the model's name, so that any gateway can carry it unchanged:
 * `gpt-4o-f200-i50-s8` streams 200 fragments, 50 ms apart, each with 8 characters of text after its number and time.
 */

import type { Asked, Tool } from "../helpers/client-formats.ts";

export type AnswerShape = {
  /** `-f`: fragments of a stream. */
  readonly fragments: number;
  /** `-i`: milliseconds between two of them; 0 sends them as fast as the reader takes them. */
  readonly intervalMs: number;
  /** `-s`: characters of filling in each fragment. */
  readonly fillerChars: number;
  /** `-b`: characters of a plain answer. */
  readonly plainChars: number;
  /** `-v`: the answer is the checksum of the longest text that reached the provider. */
  readonly echoesChecksum: boolean;
};

export function parseAnswerShape(model: string): AnswerShape {
  const read = (letter: string, otherwise: number) =>
    Number(new RegExp(`-${letter}(\\d+)(?=-|$)`).exec(model)?.[1] ?? otherwise);
  return {
    fragments: read("f", 20),
    intervalMs: read("i", 0),
    fillerChars: read("s", 8),
    plainChars: read("b", 400),
    echoesChecksum: /-v(?=-|$)/.test(model),
  };
}

export const promptTokens = 17;
export const cachedTokens = 5;
export const plainCompletionTokens = 42;

/** Quotes, escapes, control characters and code points of one to four bytes: what careless re-encoding breaks. */
const alphabet = Array.from('the naïve "quoted" back\\slash\tand\nline, 日本語, 😀 and many plain words of an answer ');

/** The bytes of one character of filling, as JSON, on average. */
export const bytesPerChar = (Buffer.byteLength(JSON.stringify(alphabet.join(""))) - 2) / alphabet.length;

/** A prompt of ASCII alone, as most large ones are (base64), of everything that can be, or an agent's: many turns with tools. */
export type PromptKind = "ascii" | "mixed" | "agent";

export function promptText(kind: PromptKind, chars: number): string {
  return kind === "mixed" ? filler(0, chars) : "a plain prompt, ".repeat(Math.ceil(chars / 16)).slice(0, chars);
}

const charsOfResult = 3_500;
const textOf = (text: string) => [{ kind: "text", text } as const];
const parameters = { type: "object", properties: { argument: { type: "string" } }, required: ["argument"] };

/** What is asked beside the turns: the usual, as no client says more. */
const usual = { choice: "auto", oneAtATime: false, schema: undefined, temperature: undefined, stop: [] } as const;

/**
 * A prompt of about so many characters. An agent's has a long system prompt, forty tools, and for each 4,000 characters a question, a call
 * and its result.
 */
export function promptOf(kind: PromptKind, chars: number, maxTokens?: number): Asked {
  const last = { kind: "user", parts: textOf(kind === "agent" ? filler(3, 200) : promptText(kind, chars)) } as const;
  if (kind !== "agent")
    return { ...usual, maxTokens, system: "You are a helpful assistant.", turns: [last], tools: [] };
  const turns = Array.from({ length: Math.max(1, Math.floor((chars * 0.85) / 4_000)) }, (_, at): Asked["turns"] => {
    const result = { parts: textOf(filler(at, charsOfResult)), isError: false };
    const call = { id: `call_${at}`, name: `tool_${at % 40}`, args: { argument: `src/folder/file-${at}.ts` }, result };
    return [
      { kind: "user", parts: textOf(filler(at, 120)) },
      { kind: "assistant", text: "", calls: [call] },
    ];
  });
  const tools = Array.from({ length: 40 }, (_, at): Tool => {
    return { name: `tool_${at}`, description: filler(at, Math.floor(chars / 600)), parameters };
  });
  return { ...usual, maxTokens, system: filler(1, Math.floor(chars * 0.08)), turns: [...turns.flat(), last], tools };
}

/** `chars` code points, another beginning for each `seed`. */
export function filler(seed: number, chars: number): string {
  const from = (seed * 7) % alphabet.length;
  const turned = [...alphabet.slice(from), ...alphabet.slice(0, from)];
  const rest = turned.slice(0, chars % turned.length).join("");
  return turned.join("").repeat(Math.floor(chars / turned.length)) + rest;
}

export const timeDigits = 16;
/** Stands in a fragment where the time of sending goes. */
export const noTime = "0".repeat(timeDigits);

/** `000042 0000000000000000 filling`: the number, the time of sending in µs (zeros: not told), the filling. */
export function fragmentText(index: number, shape: AnswerShape): string {
  return `${String(index).padStart(6, "0")} ${noTime} ${filler(index, shape.fillerChars)}`;
}

/** Takes the time out of a fragment's text. @returns the text as `fragmentText` gives it, and the time in µs */
export function splitFragment(text: string): { text: string; sentAt: number } {
  return {
    text: text.slice(0, 7) + noTime + text.slice(7 + timeDigits),
    sentAt: Number(text.slice(7, 7 + timeDigits)),
  };
}

/** Overwrites `width` bytes at `offset` with the digits of a whole number. */
export function writeDigits(bytes: Uint8Array, offset: number, width: number, value: number): void {
  let rest = Math.floor(value);
  for (let at = offset + width - 1; at >= offset; at--) {
    bytes[at] = 48 + (rest % 10);
    rest = Math.floor(rest / 10);
  }
}
