/**
 * OpenAI's embeddings: the request, checked, and the answer, with vectors as numbers or as base64 of little-endian 32-bit floats,
 * for which OpenAI's own clients ask by default.
 * Source: https://platform.openai.com/docs/api-reference/embeddings
 */
import { type Static, Type } from "@sinclair/typebox";
import { isObject, type JsonObject, numberOf, objectOf } from "../lib/json/json.ts";
import { Nullable, Open, titled, Words } from "../lib/json/schemas.ts";
import { checked } from "./body/checked.ts";
import { ApiError, InvalidAnswer } from "./errors.ts";

const tokens = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });

export const EmbeddingsRequestBody = Open({
  model: Type.String({ minLength: 1, maxLength: 256, description: "<provider>/<model>" }),
  input: Type.Union(
    [Type.String(), Type.Array(Type.String(), { minItems: 1 }), tokens, Type.Array(tokens, { minItems: 1 })],
    {
      description: "A text, texts, or tokens of one or several texts.",
    },
  ),
  dimensions: Nullable(Type.Integer({ minimum: 1 })),
  encoding_format: Nullable(
    Words(["float", "base64"], {
      description: "base64: little-endian 32-bit floats. Default float.",
    }),
  ),
  user: Nullable(Type.String()),
});

titled({ EmbeddingsRequest: EmbeddingsRequestBody });
export type EmbeddingsRequest = Static<typeof EmbeddingsRequestBody>;

/** @throws ApiError invalid_value or missing_field */
export const checkEmbeddings = (parsed: JsonObject): EmbeddingsRequest => checked(EmbeddingsRequestBody, parsed);

/** The texts to embed, in order. @throws ApiError unsupported_parameter for tokens */
export function textsOf({ input }: EmbeddingsRequest, provider: string): string[] {
  if (typeof input === "string") return [input];
  if (input.every((one) => typeof one === "string")) return input as string[];
  throw ApiError.unsupported("input", `${provider} embeds texts: its models do not know these tokens. Send strings.`);
}

export type Format = "float" | "base64";

export const formatOf = ({ encoding_format }: EmbeddingsRequest): Format => encoding_format ?? "float";

export function embeddingsAnswer(
  model: string,
  vectors: readonly (readonly number[])[],
  format: Format,
  promptTokens: number,
): object {
  return {
    object: "list",
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: format === "base64" ? toBase64(vector) : vector,
    })),
    model,
    usage: usageOf(promptTokens),
  };
}

const usageOf = (tokens: number) => ({ prompt_tokens: tokens, total_tokens: tokens });

/**
 * True where an answer, as it came, has both of its counts. It is not parsed, as it may hold millions of numbers.
 * @param answer whose strings are names alone
 */
export function hasUsage(answer: Buffer): boolean {
  const at = answer.lastIndexOf('"usage"');
  const usage = /^"usage"\s*:\s*(\{[^}]*)/.exec(at < 0 ? "" : answer.toString("latin1", at, at + 1024))?.[1] ?? "";
  return /"prompt_tokens"\s*:\s*\d/.test(usage) && /"total_tokens"\s*:\s*\d/.test(usage);
}

/** @returns an answer with the counts that it lacks: some typed clients do without none of them */
export function withUsage({ usage, ...rest }: JsonObject, tokens: number): JsonObject {
  const { prompt_tokens, total_tokens, ...others } = objectOf(usage) ?? {};
  const known = numberOf(prompt_tokens) ?? numberOf(total_tokens);
  return {
    ...rest,
    usage: { ...others, ...usageOf(known ?? tokens), ...(numberOf(total_tokens) && { total_tokens }) },
  };
}

/** True where the beginning of an answer shows vectors in the other form than was asked for. */
export function hasOtherForm(beginning: string, format: Format): boolean {
  const first = /"embedding"\s*:\s*(["[])/.exec(beginning)?.[1];
  return first !== undefined && (first === '"') !== (format === "base64");
}

/** An answer with its vectors in the other form, all else as it is. @throws InvalidAnswer */
export function reformed(answer: unknown, format: Format): unknown {
  const data = isObject(answer) ? answer["data"] : undefined;
  if (!Array.isArray(data)) throw new InvalidAnswer("embeddings without data");
  return { ...(answer as JsonObject), data: data.map((one) => reformedOne(one, format)) };
}

function reformedOne(one: unknown, format: Format): unknown {
  if (!isObject(one)) throw new InvalidAnswer("an embedding that is no object");
  const { embedding } = one;
  if (Array.isArray(embedding) && format === "base64") return { ...one, embedding: toBase64(embedding as number[]) };
  if (typeof embedding === "string" && format === "float") return { ...one, embedding: fromBase64(embedding) };
  return one;
}

function toBase64(vector: readonly number[]): string {
  const bytes = Buffer.allocUnsafe(4 * vector.length);
  for (const [at, value] of vector.entries()) bytes.writeFloatLE(value, 4 * at);
  return bytes.toString("base64");
}

/** @throws InvalidAnswer */
function fromBase64(text: string): number[] {
  const bytes = Buffer.from(text, "base64");
  if (bytes.length === 0 || bytes.length % 4 !== 0) throw new InvalidAnswer("an embedding that is no list of floats");
  return Array.from({ length: bytes.length / 4 }, (_, at) => bytes.readFloatLE(4 * at));
}
