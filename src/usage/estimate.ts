/** How many tokens a request may be, where nobody counts them: by its text, as most models' tokenizers cut it. */
import type { ChatRequest, Message } from "../protocols/chat/schema.ts";

/** Characters of a token in text that is mostly ASCII. Source: https://help.openai.com/en/articles/4936856 */
const asciiPerToken = 4;
/** Characters of a token in other scripts: about one for Chinese and Japanese, two for Cyrillic and Greek. */
const otherPerToken = 1.5;
/** What stands around each message. */
const messageTokens = 4;
/** Of an image of common size. Source: https://platform.openai.com/docs/guides/images-vision#calculating-costs */
const imageTokens = 765;

/** @param request with all its messages */
export function estimatedTokens({ messages, tools, response_format }: ChatRequest): number {
  const declared = [tools, response_format].map((one) => (one === undefined ? 0 : tokensIn(JSON.stringify(one))));
  const said = messages.map((message) => messageTokens + tokensOf(message));
  return Math.ceil([...declared, ...said].reduce((sum, tokens) => sum + tokens, 0));
}

function tokensOf(message: Message): number {
  const { content, tool_calls } = message as { content?: unknown; tool_calls?: unknown };
  const calls = tool_calls === undefined ? 0 : tokensIn(JSON.stringify(tool_calls));
  if (typeof content === "string") return calls + tokensIn(content);
  if (!Array.isArray(content)) return calls;
  return content.reduce<number>((sum, part) => sum + tokensOfPart(part as Record<string, unknown>), calls);
}

/** What else a part holds is no text: an image, a recording, a file. */
function tokensOfPart({ text }: Record<string, unknown>): number {
  return typeof text === "string" ? tokensIn(text) : imageTokens;
}

function tokensIn(text: string): number {
  const others = text.length - Buffer.byteLength(text.replace(/[^\x00-\x7f]/g, ""));
  return (text.length - others) / asciiPerToken + others / otherPerToken;
}
