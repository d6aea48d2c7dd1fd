/** What the official clients of each format make of one answer: its words, its calls, and how it ended. */
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI from "openai";

/** `calls` are names with their arguments as they were written, or as the client read them. */
export type Made = { readonly text: string; readonly calls: unknown[]; readonly end: unknown };
type Gateway = { readonly url: string; readonly key: string };
/** What is asked: "hi", with a tool, where nothing else is said. */
export type Question = { readonly prompt?: string; readonly hasTool?: boolean };
const city = { type: "string" as const };
const parameters = { type: "object" as const, properties: { city }, required: ["city"] };
const tool = { name: "weather", parameters };

export const readers = {
  async chat(
    { url, key }: Gateway,
    model: string,
    stream: boolean,
    { prompt = "hi", hasTool = true }: Question = {},
  ): Promise<Made> {
    const client = new OpenAI({ baseURL: `${url}/gateway/v1`, apiKey: key, maxRetries: 0 });
    const asked = {
      model,
      messages: [{ role: "user" as const, content: prompt }],
      ...(hasTool && { tools: [{ type: "function" as const, function: tool }] }),
    };
    const called = (calls: readonly { function?: { name?: string; arguments?: string } }[] | undefined) =>
      (calls ?? []).map((call) => [call.function?.name, call.function?.arguments]);
    if (!stream) {
      const { message, finish_reason } = (await client.chat.completions.create(asked)).choices[0]!;
      return { text: message.content ?? "", calls: called(message.tool_calls as never), end: finish_reason };
    }
    // As the plainest loop reads it: up to the first end, and nothing may stand behind that.
    let [text, end, behind] = ["", undefined as unknown, 0];
    const calls: [string, string][] = [];
    for await (const { choices } of await client.chat.completions.create({ ...asked, stream: true })) {
      const { delta, finish_reason } = choices[0]!;
      if (end !== undefined) behind += 1;
      text += delta.content ?? "";
      for (const one of delta.tool_calls ?? []) {
        calls[one.index] ??= [one.function!.name!, ""];
        calls[one.index]![1] += one.function?.arguments ?? "";
      }
      end = finish_reason ?? end;
    }
    return { text, calls, end: behind === 0 ? end : `${end}, and ${behind} behind it` };
  },

  async responses(
    { url, key }: Gateway,
    model: string,
    stream: boolean,
    { prompt = "hi", hasTool = true }: Question = {},
  ): Promise<Made> {
    const client = new OpenAI({ baseURL: `${url}/gateway/v1`, apiKey: key, maxRetries: 0 });
    const tools = [{ type: "function" as const, ...tool, strict: false }];
    const asked = { model, input: prompt, store: false, ...(hasTool && { tools }) };
    const made = stream ? await client.responses.stream(asked).finalResponse() : await client.responses.create(asked);
    const calls = made.output.flatMap((item) => (item.type === "function_call" ? [[item.name, item.arguments]] : []));
    return { text: made.output_text, calls, end: made.status };
  },

  async messages(
    { url, key }: Gateway,
    model: string,
    stream: boolean,
    { prompt = "hi", hasTool = true }: Question = {},
  ): Promise<Made> {
    const client = new Anthropic({ baseURL: `${url}/gateway`, apiKey: key, maxRetries: 0 });
    const tools = [{ name: tool.name, input_schema: tool.parameters }];
    const asked = {
      model,
      max_tokens: 99,
      messages: [{ role: "user" as const, content: prompt }],
      ...(hasTool && { tools }),
    };
    // A call that was cut off is no JSON, which the client's own helper refuses.
    let [text, end] = ["", undefined as unknown];
    const calls: [string, string][] = [];
    if (!stream) {
      const made = await client.messages.create(asked);
      const said = made.content.flatMap((block) => (block.type === "text" ? [block.text] : []));
      const used = made.content.flatMap((block) =>
        block.type === "tool_use" ? [[block.name, JSON.stringify(block.input)]] : [],
      );
      return { text: said.join(""), calls: used, end: made.stop_reason };
    }
    for await (const event of await client.messages.create({ ...asked, stream: true })) {
      if (event.type === "content_block_start" && event.content_block.type === "tool_use")
        calls.push([event.content_block.name, ""]);
      if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
      if (event.type === "content_block_delta" && event.delta.type === "input_json_delta")
        calls.at(-1)![1] += event.delta.partial_json;
      if (event.type === "message_delta") end = event.delta.stop_reason;
    }
    return { text, calls, end };
  },

  async gemini(
    { url, key }: Gateway,
    model: string,
    stream: boolean,
    { prompt = "hi", hasTool = true }: Question = {},
  ): Promise<Made> {
    const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: `${url}/gateway` } });
    const config = { tools: [{ functionDeclarations: [{ name: tool.name, parametersJsonSchema: tool.parameters }] }] };
    const asked = { model, contents: prompt, ...(hasTool && { config }) };
    const events = stream
      ? await client.models.generateContentStream(asked)
      : [await client.models.generateContent(asked)];
    let [text, end] = ["", undefined as unknown];
    const calls: unknown[] = [];
    for await (const { candidates } of events) {
      for (const part of candidates?.[0]?.content?.parts ?? []) {
        text += part.text ?? "";
        if (part.functionCall) calls.push([part.functionCall.name, JSON.stringify(part.functionCall.args)]);
      }
      end = candidates?.[0]?.finishReason ?? end;
    }
    return { text, calls, end };
  },
};
export type Format = keyof typeof readers;
export const formats = Object.keys(readers) as Format[];
