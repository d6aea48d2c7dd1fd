/**
 * A chat completions request as Gemini's `generateContent` takes it.
 * Source: https://ai.google.dev/api/generate-content
 */
import type {
  FunctionCallingConfig,
  FunctionCallingConfigMode,
  FunctionDeclaration,
  GenerationConfig,
  SpeechConfig,
} from "@google/genai";
import { type Static, Type } from "@sinclair/typebox";
import type { GoogleRules } from "../../facts/vocabulary/gemini.ts";
import { type JsonObject, objectOf, textOf } from "../../lib/json/json.ts";
import { inverted, ownMember } from "../../lib/json/own-member.ts";
import { Open } from "../../lib/json/schemas.ts";
import type { ChatRequest, Tool, ToolChoice } from "../../protocols/chat/schema.ts";
import { toolName } from "../../protocols/chat/tools.ts";
import { ApiError } from "../../protocols/errors.ts";
import { tiers } from "../../protocols/generate-content/request.ts";
import { ownModes } from "../../protocols/generate-content/tools.ts";
import { refuseWishes } from "../anthropic/request.ts";
import type { Call } from "../provider.ts";
import { refuseType } from "../tool-types.ts";
import { conversationOf } from "./contents.ts";
import { toOpenApiSchema } from "./schema.ts";
import { thinkingConfigOf, thinkingExtras } from "./thinking.ts";

export const GoogleExtras = Type.Object({
  ...thinkingExtras,
  safety_settings: Type.Optional(Type.Array(Open({ category: Type.String(), threshold: Type.String() }))),
  cached_content: Type.Optional(Type.String({ minLength: 1, description: "cachedContents/… made beforehand." })),
  generation_config: Type.Optional(
    Open({}, { description: "Fields of generationConfig that have no other name here." }),
  ),
  continuation_token: Type.Optional(
    Type.String({ minLength: 1, description: "From extra_content.google of an answer that stopped at a limit." }),
  ),
});
type GoogleExtras = Static<typeof GoogleExtras>;

/** @throws ApiError naming what this provider can't do */
export function requestBody(call: Call, rules: GoogleRules): JsonObject {
  const { request } = call;
  refuseWishes(request);
  const { safety_settings, cached_content, continuation_token } = call.extras as GoogleExtras;
  const functionDeclarations = (request.tools ?? []).map((tool, at) => declarationOf(tool, `tools[${at}]`, rules));
  const functionCallingConfig = functionDeclarations.length === 0 ? undefined : callingConfigOf(request.tool_choice);
  const output = outputOf(request, rules, callingMode(request));
  return present({
    ...conversationOf(call, rules, output.instruction),
    tools: toolsOf(functionDeclarations, request),
    toolConfig: functionCallingConfig && { functionCallingConfig },
    safetySettings: safety_settings,
    generationConfig: generationConfigOf(call, rules, output.config),
    cachedContent: cached_content,
    continuationToken: continuation_token,
    serviceTier: ownMember(ownTiers, request.service_tier ?? ""),
  });
}

/** The mode of calling functions; undefined where there are none. */
function callingMode({ tools, tool_choice }: ChatRequest): string | undefined {
  return (tools ?? []).length > 0 ? (callingConfigOf(tool_choice)?.mode ?? "AUTO") : undefined;
}

/**
 * All of `generationConfig`, for bodies that are otherwise their caller's.
 * @param setsForm whether the form of the answer is to be among it
 * @returns undefined where that form has to be asked for in words
 */
export function changedConfig(call: Call, rules: GoogleRules, setsForm: boolean): JsonObject | undefined {
  const { config, instruction } = outputOf(call.request, rules, callingMode(call.request));
  return setsForm && instruction !== undefined ? undefined : (generationConfigOf(call, rules, config) ?? {});
}

const ownTiers = inverted(tiers);

function declarationOf(tool: Tool, path: string, rules: GoogleRules): FunctionDeclaration {
  if (tool.type === "custom")
    throw ApiError.unsupported(path, `${path}: custom tools are not supported by this provider.`);
  if (tool.type !== "function") return refuseType(tool.type, path);
  const { name, description, parameters } = tool.function;
  const declaration: FunctionDeclaration = { name, ...(description != null && { description }) };
  const schema = objectOf(parameters);
  if (schema === undefined || takesNothing(schema)) return declaration;
  if (rules.schemas === "json") return { ...declaration, parametersJsonSchema: schema };
  return { ...declaration, parameters: toOpenApiSchema(schema) };
}

/** A function without arguments has no schema: the OpenAPI form refuses an object without properties. */
function takesNothing(schema: JsonObject): boolean {
  const properties = objectOf(schema["properties"]) ?? {};
  const open = ["$ref", "anyOf", "oneOf", "allOf"].some((key) => Object.hasOwn(schema, key));
  return Object.keys(properties).length === 0 && !open && objectOf(schema["additionalProperties"]) === undefined;
}

/** All functions stand in one entry. */
function toolsOf(
  functionDeclarations: FunctionDeclaration[],
  { web_search_options }: ChatRequest,
): unknown[] | undefined {
  if (web_search_options === undefined) return functionDeclarations.length > 0 ? [{ functionDeclarations }] : undefined;
  if (functionDeclarations.length === 0) return [{ googleSearch: {} }];
  throw ApiError.unsupported(
    "web_search_options",
    "web_search_options can't be combined with tools: this provider searches by itself only where no functions are declared.",
  );
}

/** @returns undefined where the upstream's default is meant */
function callingConfigOf(choice: ToolChoice | undefined): FunctionCallingConfig | undefined {
  if (choice === undefined) return undefined;
  if (typeof choice === "string") return { mode: ownModes[choice] as FunctionCallingConfigMode };
  switch (choice.type) {
    case "function":
      return { mode: "ANY" as FunctionCallingConfigMode, allowedFunctionNames: [choice.function.name] };
    case "custom":
      throw ApiError.unsupported("tool_choice", "tool_choice: custom tools are not supported by this provider.");
    case "allowed_tools": {
      const { mode, tools } = choice.allowed_tools;
      const names = tools.flatMap((tool) => toolName(tool) ?? []);
      // AUTO takes no list of names; VALIDATED is AUTO with one.
      return {
        mode: (mode === "required" ? "ANY" : "VALIDATED") as FunctionCallingConfigMode,
        allowedFunctionNames: names,
      };
    }
    default:
      return refuseType(choice.type, "tool_choice");
  }
}

function generationConfigOf(call: Call, rules: GoogleRules, output: GenerationConfig): JsonObject | undefined {
  const { request } = call;
  const { generation_config } = call.extras as GoogleExtras;
  const config = present({
    temperature: request.temperature,
    topP: request.top_p,
    topK: (request as JsonObject)["top_k"],
    // Thoughts count among these tokens in both formats.
    maxOutputTokens: request.max_completion_tokens ?? request.max_tokens,
    candidateCount: request.n === 1 ? undefined : request.n,
    stopSequences: typeof request.stop === "string" ? [request.stop] : request.stop,
    seed: request.seed === undefined ? undefined : int32Of(request.seed),
    presencePenalty: rules.penalties ? request.presence_penalty : undefined,
    frequencyPenalty: rules.penalties ? request.frequency_penalty : undefined,
    responseLogprobs: request.logprobs || undefined,
    logprobs: request.top_logprobs,
    ...output,
    ...modalitiesOf(request),
    thinkingConfig: thinkingConfigOf(call, rules),
  });
  const merged = { ...config, ...generation_config };
  return Object.keys(merged).length === 0 ? undefined : merged;
}

/** Seeds are 32 bits here. */
function int32Of(seed: number): number {
  return Number(BigInt.asIntN(32, BigInt(seed)));
}

type Output = { readonly config: GenerationConfig; readonly instruction?: string };

/**
 * The wanted form of the answer. Older models take functions or JSON, not both, and no model takes JSON where a call is
 * forced, as the call is the answer: "Forced function calling (ANY mode) with a response mime type: 'application/json' is
 * unsupported".
 * @param calling the mode of calling functions; undefined where there are none
 */
function outputOf({ response_format: format }: ChatRequest, rules: GoogleRules, calling: string | undefined): Output {
  if (format === undefined || format.type === "text" || calling === "ANY") return { config: {} };
  const schema = format.type === "json_schema" ? objectOf(format.json_schema.schema) : undefined;
  if (calling !== undefined && !rules.json_with_tools) return { config: {}, instruction: jsonInstruction(schema) };
  const responseMimeType = "application/json";
  if (schema === undefined) return { config: { responseMimeType } };
  if (rules.schemas === "json") return { config: { responseMimeType, responseJsonSchema: schema } };
  return { config: { responseMimeType, responseSchema: toOpenApiSchema(schema) } };
}

function jsonInstruction(schema: JsonObject | undefined): string {
  const wanted = schema === undefined ? "" : ` that follows this JSON schema: ${JSON.stringify(schema)}`;
  return `Unless you call a function, answer with one valid JSON value${wanted}. Nothing else: no text around it, no code fence.`;
}

/** @throws ApiError for audio in another form than the one there is */
function modalitiesOf({ modalities, audio }: ChatRequest): GenerationConfig {
  if (modalities === undefined || modalities.every((one) => one === "text")) return {};
  const responseModalities = modalities.map((one) => one.toUpperCase()) as NonNullable<
    GenerationConfig["responseModalities"]
  >;
  if (!modalities.includes("audio")) return { responseModalities };
  const { voice, format } = (audio ?? {}) as JsonObject;
  // Speech comes as 16-bit PCM at 24 kHz: https://ai.google.dev/gemini-api/docs/speech-generation
  if (format !== "pcm16")
    throw ApiError.unsupported("audio.format", "audio.format must be 'pcm16' with this provider.");
  const speechConfig: SpeechConfig = { voiceConfig: { prebuiltVoiceConfig: present({ voiceName: textOf(voice) }) } };
  return { responseModalities, speechConfig };
}

/** Without the keys that hold nothing. */
function present<T extends object>(values: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as never;
}
