/** `generationConfig` as fields of the inner form. */
import { isObject, type JsonObject } from "../../lib/json/json.ts";
import type { ResponseFormat } from "../chat/schema.ts";
import { ApiError } from "../errors.ts";
import type { NativeOnly } from "../native-only.ts";
import { answerFormat, effortOf } from "../translated-fields.ts";
import { toJsonSchema } from "./json-schema.ts";
import type { GenerationConfig } from "./schema.ts";

/** Fields that have the same meaning under another name. */
export const configNames: Readonly<Record<string, string>> = {
  temperature: "temperature",
  topP: "top_p",
  topK: "top_k",
  maxOutputTokens: "max_completion_tokens",
  candidateCount: "n",
  seed: "seed",
  presencePenalty: "presence_penalty",
  frequencyPenalty: "frequency_penalty",
  responseLogprobs: "logprobs",
  logprobs: "top_logprobs",
};
const translated: ReadonlySet<string> = new Set([
  ...["stopSequences", "responseMimeType", "responseSchema", "responseJsonSchema", "responseModalities"],
  ...["thinkingConfig", "speechConfig"],
]);

/** The path of an inner field in this format; undefined: it is none of these. */
export const generationPath = (inner: string): string | undefined => pathsByField.get(inner);

const pathsByField: ReadonlyMap<string, string> = new Map([
  ...Object.entries(configNames).map(([own, inner]) => [inner, `generationConfig.${own}`] as const),
  ["max_tokens", "generationConfig.maxOutputTokens"],
  ["stop", "generationConfig.stopSequences"],
  ["response_format", "generationConfig.responseJsonSchema"],
  ["modalities", "generationConfig.responseModalities"],
  ["audio", "generationConfig.speechConfig"],
  ["reasoning_effort", "generationConfig.thinkingConfig"],
  ["thinking_budget", "generationConfig.thinkingConfig.thinkingBudget"],
  ["include_thoughts", "generationConfig.thinkingConfig.includeThoughts"],
  ["generation_config", "generationConfig"],
  ["safety_settings", "safetySettings"],
  ["service_tier", "serviceTier"],
]);

/** Zero of these is what a field that is not set holds: https://protobuf.dev/programming-guides/proto3/#default */
const unsetAtZero: ReadonlySet<string> = new Set(["maxOutputTokens", "candidateCount"]);

/** Passes on to Google's models, as it came, all that has no name in the inner form; others leave it out. */
export function generationFields(config: GenerationConfig, nativeOnly: NativeOnly): JsonObject {
  const fields: JsonObject = {};
  const rest: JsonObject = {};
  for (const [name, value] of Object.entries(config)) {
    if (value == null || (value === 0 && unsetAtZero.has(name))) continue;
    if (Object.hasOwn(configNames, name)) fields[configNames[name]!] = value;
    else if (!translated.has(name)) rest[name] = value;
  }
  if (fields["logprobs"] === false) delete fields["logprobs"];
  const { stopSequences, thinkingConfig } = config;
  return {
    ...fields,
    ...(stopSequences != null && stopSequences.length > 0 && { stop: stopSequences }),
    ...responseFormat(config, nativeOnly),
    ...modalitiesOf(config),
    ...thinkingFields(thinkingConfig ?? {}, nativeOnly),
    ...(Object.keys(rest).length > 0 && { generation_config: rest }),
  };
}

function responseFormat(config: GenerationConfig, nativeOnly: NativeOnly): { response_format?: ResponseFormat } {
  const { responseMimeType: type, responseJsonSchema, responseSchema } = config;
  if (type == null || type === "" || type === "text/plain") return {};
  if (type !== "application/json") {
    const path = "generationConfig.responseMimeType";
    nativeOnly.part(path, "answers of another type than text/plain and application/json are made by Google alone.");
    return {};
  }
  const schema = responseJsonSchema ?? (responseSchema == null ? undefined : toJsonSchema(responseSchema));
  if (schema === undefined) return { response_format: { type: "json_object" } };
  return { response_format: answerFormat(schema as JsonObject) };
}

/** Speech is 16-bit PCM in this format: https://ai.google.dev/gemini-api/docs/speech-generation */
function modalitiesOf(config: GenerationConfig): JsonObject {
  const modalities = (config.responseModalities ?? []).map((one) => one.toLowerCase());
  if (modalities.every((one) => one === "text" || one === "modality_unspecified")) return {};
  if (!modalities.includes("audio")) return { modalities };
  const voice = voiceIn((config as JsonObject)["speechConfig"]);
  return { modalities, audio: { format: "pcm16", ...(voice !== undefined && { voice }) } };
}

function voiceIn(speech: unknown): unknown {
  let found: unknown = speech;
  for (const name of ["voiceConfig", "prebuiltVoiceConfig", "voiceName"])
    found = isObject(found) ? found[name] : undefined;
  return found;
}

type ThinkingConfig = NonNullable<GenerationConfig["thinkingConfig"]>;

/** Leaves out all that is absent. */
function thinkingFields(
  { includeThoughts, thinkingBudget: budget, thinkingLevel: level }: ThinkingConfig,
  nativeOnly: NativeOnly,
): JsonObject {
  const isLevel = level != null && level !== "" && level !== "THINKING_LEVEL_UNSPECIFIED";
  if (isLevel && budget != null) {
    const message = "generationConfig.thinkingConfig: thinkingBudget and thinkingLevel can't be set together.";
    nativeOnly.refuse(ApiError.invalidValue("generationConfig.thinkingConfig", message));
  }
  const effort = isLevel ? level.toLowerCase() : budget == null ? undefined : effortOf(budget);
  return {
    ...(includeThoughts != null && { include_thoughts: includeThoughts }),
    // Others below are no budget of ours: Google alone judges them.
    ...(budget != null && budget >= -1 && { thinking_budget: budget }),
    ...(effort !== undefined && { reasoning_effort: effort }),
  };
}
