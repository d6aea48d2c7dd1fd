/** The clients of `readers.mjs`, `readers.py`, `java` and `readers.go`, and what each has of its own. */
import type { Language } from "./reader.ts";

export const allFormats = ["chat", "responses", "messages", "gemini"] as const;
export type Format = (typeof allFormats)[number];
/** Libraries that name the ends in words of their own. */
type Words = "pydantic" | "ai" | "langchain4j" | "spring";
export type Client = {
  readonly name: string;
  readonly format: Format;
  /** Where they are not the format's. */
  readonly ends?: Words;
  /** Its errors within a stream tell of the stream's form, or shorten the words. */
  readonly hidesWords?: true;
  readonly hidesTier?: true;
  /** It reads arguments into numbers of 64 bits with a point. */
  readonly roundsIntegers?: true;
  /** It leaves an empty text out of what it sends back: a message without content, a part without a member. */
  readonly dropsEmptyText?: true;
  /** It wants the name in each fragment of a call. */
  readonly wantsNameInEachFragment?: true;
};

export const clients: Readonly<Record<Language, readonly Client[]>> = {
  javascript: [
    { name: "openai, chat", format: "chat" },
    { name: "openai, Responses", format: "responses" },
    { name: "@anthropic-ai/sdk", format: "messages", roundsIntegers: true },
    { name: "@google/genai", format: "gemini", roundsIntegers: true },
    { name: "@ai-sdk/openai, chat", format: "chat", ends: "ai", hidesTier: true, roundsIntegers: true },
    { name: "@ai-sdk/openai, Responses", format: "responses", ends: "ai", hidesTier: true, roundsIntegers: true },
    { name: "@ai-sdk/openai-compatible", format: "chat", ends: "ai", hidesTier: true, roundsIntegers: true },
    { name: "@ai-sdk/anthropic", format: "messages", ends: "ai", roundsIntegers: true },
  ],
  npm: [
    { name: "@ai-sdk/google", format: "gemini", ends: "ai", roundsIntegers: true },
    { name: "together-ai", format: "chat" },
    { name: "groq-sdk", format: "chat" },
    { name: "@openrouter/sdk", format: "chat", hidesWords: true },
    {
      ...{ name: "@mistralai/mistralai", format: "chat", hidesWords: true, hidesTier: true },
      wantsNameInEachFragment: true,
    },
  ],
  python: [
    { name: "openai, chat", format: "chat" },
    { name: "openai, Responses", format: "responses" },
    { name: "anthropic", format: "messages" },
    { name: "google-genai", format: "gemini" },
    { name: "together", format: "chat", hidesTier: true },
    { name: "groq", format: "chat" },
    { name: "openrouter", format: "chat", hidesWords: true },
    { name: "mistralai", format: "chat", hidesWords: true, hidesTier: true, wantsNameInEachFragment: true },
    { name: "pydantic-ai, chat", format: "chat", ends: "pydantic", hidesTier: true },
    { name: "pydantic-ai, responses", format: "responses", ends: "pydantic", hidesTier: true },
    // Not by Messages: with this version of Anthropic's client it can't read any answer ("Cannot instantiate typing.Union").
    { name: "pydantic-ai, gemini", format: "gemini", ends: "pydantic" },
  ],
  java: [
    { name: "openai-java, chat", format: "chat" },
    { name: "openai-java, Responses", format: "responses" },
    { name: "anthropic-java", format: "messages" },
    { name: "google-genai", format: "gemini" },
    { name: "langchain4j, chat", format: "chat", ends: "langchain4j", hidesTier: true, dropsEmptyText: true },
    { name: "langchain4j, Messages", format: "messages", ends: "langchain4j" },
    { name: "langchain4j, Gemini", format: "gemini", ends: "langchain4j", hidesWords: true },
  ],
  spring: [{ name: "spring-ai", format: "chat", ends: "spring", hidesTier: true }],
  go: [
    { name: "openai-go, chat", format: "chat", dropsEmptyText: true },
    { name: "openai-go, Responses", format: "responses" },
    { name: "anthropic-sdk-go", format: "messages" },
    { name: "genai", format: "gemini", dropsEmptyText: true, roundsIntegers: true },
  ],
};
const ends = {
  stopped: {
    ...{ chat: "stop", responses: "completed", messages: "end_turn", gemini: "STOP" },
    ...{ pydantic: "stop", ai: "stop", langchain4j: "STOP", spring: "STOP" },
  },
  called: {
    ...{ chat: "tool_calls", responses: "completed", messages: "tool_use", gemini: "STOP" },
    ...{ pydantic: "tool_call", ai: "tool-calls", langchain4j: "TOOL_EXECUTION", spring: "TOOL_CALLS" },
  },
  cut: {
    ...{ chat: "length", responses: "incomplete", messages: "max_tokens", gemini: "MAX_TOKENS" },
    ...{ pydantic: "length", ai: "length", langchain4j: "LENGTH", spring: "LENGTH" },
  },
} as const satisfies Record<string, Record<Format | Words, string>>;
export type End = keyof typeof ends;

/** @returns what a client tells of an end */
export function endOf(end: End, { format, ends: words }: Client): string | null {
  // It takes the ends of Responses and Gemini as they are, also behind a call, and names none for `incomplete`.
  if (words === "pydantic" && format === "responses" && end === "cut") return null;
  const isAsItIs = words === "pydantic" && (format === "responses" || format === "gemini");
  return ends[isAsItIs && end === "called" ? "stopped" : end][words ?? format];
}
