/** Requests as the published clients declare them, for `places.ts`. */
import type Anthropic from "@anthropic-ai/sdk";
import type { Content, GenerateContentConfig, GenerateContentParameters } from "@google/genai";
import type OpenAI from "openai";

export type Messages = Anthropic.Messages.MessageCreateParamsNonStreaming;
export type BetaMessages = Anthropic.Beta.MessageCreateParamsNonStreaming;
export type Responses = OpenAI.Responses.ResponseCreateParamsNonStreaming;
export type Chat = OpenAI.Chat.ChatCompletionCreateParamsNonStreaming;
export type Completions = OpenAI.CompletionCreateParamsNonStreaming;
export type Images = OpenAI.ImageEditParamsNonStreaming;
/** What the client's own options become in a body. */
export type GenerateContent = Pick<GenerateContentParameters, "model"> & {
  contents: Content[];
  systemInstruction: Content;
} & Pick<GenerateContentConfig, "tools" | "toolConfig" | "safetySettings" | "cachedContent" | "labels"> & {
    generationConfig: Omit<
      GenerateContentConfig,
      | "httpOptions"
      | "abortSignal"
      | "systemInstruction"
      | "tools"
      | "toolConfig"
      | "safetySettings"
      | "cachedContent"
      | "labels"
    >;
  };
