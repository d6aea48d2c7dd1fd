/**
 * Gemini on Vertex AI: the requests and answers of the Gemini API but for what `facts.ts` says, at other addresses. Labels of a call are
 * known here alone.
 * Source: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference
 */
import { following, rowsOf } from "../../facts/facts.ts";
import { isObject, listOf, numberOf, objectOf } from "../../lib/json/json.ts";
import { InvalidAnswer } from "../../protocols/errors.ts";
import { decodeAnswer, GoogleStreamDecoder } from "../google/answer.ts";
import { optionOf, vectorIn } from "../google/embeddings.ts";
import { remoteMedia } from "../google/media.ts";
import { native as googleNative } from "../google/native.ts";
import { requestBody } from "../google/request.ts";
import { googleRules, modelRules } from "../google/rules.ts";
import { wantsThoughts } from "../google/thinking.ts";
import { nameForm } from "../google/tool-names.ts";
import type {
  Call,
  EmbeddingsCall,
  EmbeddingsFormat,
  NativeBody,
  NativeRoute,
  TokenCounter,
  UpstreamRequest,
} from "../provider.ts";
import { withToolNames } from "../tool-names.ts";
import { methodUrl } from "./address.ts";
import { countedMembers, headerTiers, tierHeader } from "./facts.ts";
import type { Family } from "./families.ts";
import { fitted } from "./fit.ts";

const urlOf = ({ account, model }: Call, method: string) => methodUrl(account, "google", model, method);

const answerUrl = (call: Call) =>
  urlOf(call, call.request.stream === true ? "streamGenerateContent?alt=sse" : "generateContent");

/** Source: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/count-tokens */
const counterOf = (body: NativeBody, call: Call): TokenCounter => ({
  request: { url: urlOf(call, "countTokens"), body },
  tokensIn: (answer) => numberOf(objectOf(answer)?.["totalTokens"]),
});

const vertexRows = rowsOf("generate-content", "vertex");
const rows = following(() => [...vertexRows, ...modelRules]);
const rulesOf = (call: Call) => googleRules(call, rows);

const answerRequest = (call: Call, body: NativeBody): UpstreamRequest => {
  const { service_tier: tier = "" } = call.request;
  return { url: answerUrl(call), ...(headerTiers.has(tier) && { headers: { [tierHeader]: tier } }), body };
};

const native: NativeRoute = {
  ...googleNative,
  encode: (body, call) => answerRequest(call, body),
  fit: fitted,
  counter: counterOf,
  needsSignatures: (call) => rulesOf(call).signatures !== "none",
};

const own: Family = {
  format: "generate-content",
  wantsThoughts,
  remoteMedia,
  encode(call) {
    const { labels } = call.extras;
    const body = fitted(requestBody(call, rulesOf(call)));
    return answerRequest(call, JSON.stringify(labels === undefined ? body : { ...body, labels }));
  },
  decode: decodeAnswer,
  streamDecoder: (call) => new GoogleStreamDecoder(call),
  counter(call) {
    if (remoteMedia(call).length > 0) return undefined;
    const fields = Object.entries(requestBody(call, rulesOf(call))).filter(([name]) => countedMembers.includes(name));
    return counterOf(JSON.stringify(Object.fromEntries(fields)), call);
  },
  native: (format) => (format === "generate-content" ? native : undefined),
};

export const gemini = withToolNames(own, nameForm);

/** Newer models are asked by `embedContent`: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/model-reference/text-embeddings-api */
const asksByContent = (model: string): boolean => /^gemini-embedding-(?!001)/.test(model);

/**
 * One text in each request, as Gemini's models take no more.
 * Source: https://docs.cloud.google.com/vertex-ai/generative-ai/docs/embeddings/get-text-embeddings
 */
export const embeddings: EmbeddingsFormat = {
  batch: 1,
  encode({ account, model: given, texts, dimensions, fields }: EmbeddingsCall) {
    const model = given.replace(/^google\//, "");
    const options = { ...optionOf(fields, "task_type", "taskType"), ...optionOf(fields, "title", "title") };
    const size = dimensions === undefined ? {} : { outputDimensionality: dimensions };
    if (asksByContent(model)) {
      const config = { ...options, ...size };
      const body = {
        content: { parts: texts.map((text) => ({ text })) },
        ...(Object.keys(config).length > 0 && { embedContentConfig: config }),
      };
      return { url: methodUrl(account, "google", model, "embedContent"), body: JSON.stringify(body) };
    }
    const { taskType, ...rest } = options;
    const shared = { ...(taskType !== undefined && { task_type: taskType }), ...rest };
    const body = {
      instances: texts.map((content) => ({ content, ...shared })),
      ...(dimensions !== undefined && { parameters: size }),
    };
    return { url: methodUrl(account, "google", model, "predict"), body: JSON.stringify(body) };
  },
  decode(body, count) {
    const answer = objectOf(body);
    const one = objectOf(answer?.["embedding"]);
    const found = one === undefined ? listOf(answer?.["predictions"]).map(embeddingIn) : [one];
    const vectors = found.map(vectorIn);
    if (vectors.length !== count) throw new InvalidAnswer(`${vectors.length} embeddings of ${count} texts`);
    const counts = [
      objectOf(answer?.["usageMetadata"])?.["promptTokenCount"],
      ...found.map((embedding) => objectOf(embedding?.["statistics"])?.["token_count"]),
    ].flatMap((tokens) => numberOf(tokens) ?? []);
    return { vectors, ...(counts.length > 0 && { tokens: counts.reduce((sum, tokens) => sum + tokens, 0) }) };
  },
};

const embeddingIn = (prediction: unknown) => (isObject(prediction) ? objectOf(prediction["embeddings"]) : undefined);
