/**
 * `POST /responses/compact`: a conversation, made short enough to go on. Upstreams of OpenAI do it themselves. For all others the model
 * is asked for a summary by the prompt here, and the compaction item holds it in an envelope that is opened when it comes back.
 * Source: https://developers.openai.com/api/docs/guides/compaction
 */
import { isObject, type JsonObject, listOf, textOf } from "../../lib/json/json.ts";
import { ApiError } from "../errors.ts";
import type { Protocol } from "../protocol.ts";
import { usageFields } from "./ending.ts";
import type { ResponsesOptions } from "./options.ts";
import { summaryItem } from "./summary.ts";
import { addedType } from "./tools.ts";

/** The name that upstreams of this format know their own route by. */
export const compactionName = "responses/compact";

/** Asked behind the conversation. docs/clients.md repeats it. */
export const compactionPrompt = `Write a summary that takes the place of this conversation. Whoever goes on with it sees the user's messages and your summary, and nothing else. Say what the user wants and has decided; what was done and found so far, with names, paths, numbers and identifiers exactly as they are; what failed, and why; and what is to be done next. Write the summary alone, and call no tools.`;

type CompactionOptions = ResponsesOptions & { readonly kept: readonly JsonObject[] };

/** Members of the body that shape the summary's answer, and are none of a compaction's. */
const ofAnswers = [
  ...["stream", "stream_options", "background", "background_options", "store", "text", "include", "max_output_tokens"],
  ...["parallel_tool_calls", "max_tool_calls"],
];

const ownTools: ReadonlySet<unknown> = new Set(["function", "custom", "namespace"]);

const ownOf = (tools: unknown): unknown[] =>
  listOf(tools).filter((tool) => isObject(tool) && ownTools.has(tool["type"]));

const itemsIn = (input: unknown): readonly unknown[] =>
  typeof input === "string" ? [{ type: "message", role: "user", content: input }] : listOf(input);

const isOfUser = (item: unknown): item is JsonObject =>
  isObject(item) && (item["type"] ?? "message") === "message" && item["role"] === "user";

/** The message with the members that typed clients want in one. */
function wholeMessage(item: JsonObject): JsonObject {
  const { content } = item;
  return {
    ...item,
    type: "message",
    content: typeof content === "string" ? [{ type: "input_text", text: content }] : content,
  };
}

/** The same request as one for an answer: the conversation, and behind it the prompt. */
function askedBody(body: JsonObject): JsonObject {
  const next: JsonObject = { ...body, store: false };
  for (const name of ofAnswers) if (name !== "store") delete next[name];
  const tools = ownOf(body["tools"]);
  delete next["tools"];
  delete next["tool_choice"];
  if (tools.length > 0) next["tools"] = tools;
  const items = itemsIn(body["input"]).map((item) =>
    isObject(item) && item["type"] === addedType ? { ...item, tools: ownOf(item["tools"]) } : item,
  );
  if (tools.length > 0 || items.some((item) => isObject(item) && item["type"] === addedType))
    next["tool_choice"] = "none";
  next["input"] = [...items, { type: "message", role: "user", content: compactionPrompt }];
  return next;
}

/** @param base the format of answers */
export function compactionOf(base: Protocol<ResponsesOptions>): Protocol<CompactionOptions> {
  const { stored: _, ...shared } = base;
  const native = base.native!;
  return {
    ...shared,
    name: compactionName,
    parse(source, client, earlier) {
      const { input } = source.parsed;
      if (input != null && typeof input !== "string" && !Array.isArray(input))
        throw ApiError.invalidValue("input", "input must be a string or a list.");
      const parsed = base.parse({ ...source, parsed: askedBody(source.parsed) }, client, earlier);
      const kept = itemsIn(input).filter(isOfUser).map(wholeMessage);
      return { ...parsed, options: { ...parsed.options, kept }, identity: [compactionName, source.parsed] };
    },
    native: {
      encoder: native.encoder,
      /** A compaction takes few members: what a persona sets of an answer is none of them. */
      patch(body, change) {
        const patched = native.patch(body, change);
        if (patched === undefined) return undefined;
        for (const name of Object.keys(patched))
          if (!Object.hasOwn(body, name) && name !== "model" && name !== "instructions" && name !== "input")
            delete patched[name];
        return patched;
      },
    },
    completion({ choices, usage }, { id, created }, { kept }) {
      const [choice] = choices;
      const summary = textOf(choice?.message.content) ?? "";
      // A summary that is cut would lose what it leaves out.
      if (summary.trim() === "" || choice?.finish_reason === "length" || choice?.finish_reason === "content_filter")
        throw ApiError.unavailable("upstream_invalid_response", "The model gave no whole summary of the conversation.");
      const own = id.slice(base.answerIdPrefix.length);
      return {
        id,
        object: "response.compaction",
        created_at: created,
        output: [...kept, summaryItem(`cmp_${own}`, summary)],
        usage: usage == null ? null : usageFields(usage),
      };
    },
  };
}
