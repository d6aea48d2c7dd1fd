/**
 * A stand-in for bedrock-runtime.<region>.amazonaws.com that is as strict as the real one: it checks the key or the signature, refuses
 * what Converse refuses, with the same status and words, and else answers what the test says.
 * Sources: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html, its types, and the messages in the
 * issues of the public SDKs.
 */
import { createHash, createHmac } from "node:crypto";
import type { ConverseRequest } from "@aws-sdk/client-bedrock-runtime";
import { SignatureV4 } from "@smithy/signature-v4";
import { eventMessage, exceptionMessage } from "../aws-event-stream.ts";
import { jsonResponse, type RecordedRequest, type UpstreamHandler } from "../upstream-server.ts";

type Json = Record<string, unknown>;
type Block = Record<string, Json & { [name: string]: unknown }> & { text?: string };
export type ConverseBody = Omit<ConverseRequest, "modelId" | "messages"> & {
  messages: { role: string; content: Block[] }[];
};

export const bedrockKey = "bedrock-api-key-test";
export const awsRequestId = "8a0c6f4e-0d8b-4f0a-9f0e-000000000001";
export const awsVariables = {
  AWS_ACCESS_KEY_ID: "AKIDEXAMPLE",
  AWS_SECRET_ACCESS_KEY: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
  AWS_SESSION_TOKEN: "session-token",
};

export type Answering = (call: { body: ConverseBody; model: string; isStream: boolean }) => Response;

/** @param region in whose name requests must be signed */
export function strictBedrock(answer: Answering, region: string): UpstreamHandler {
  return async (request) => {
    const fault = await authFault(request, region);
    if (fault !== undefined) return errorResponse(403, ...fault);
    const [, model = "", method] = /^\/model\/([^/]+)\/(converse|converse-stream)$/.exec(request.path) ?? [];
    if (method === undefined) return errorResponse(404, "UnknownOperationException", "");
    const invalid = validationFault(request.json as ConverseBody, decodeURIComponent(model));
    if (invalid !== undefined) return errorResponse(400, "ValidationException", invalid);
    return answer({
      body: request.json as ConverseBody,
      model: decodeURIComponent(model),
      isStream: method === "converse-stream",
    });
  };
}

export const errorResponse = (status: number, type: string, message: string): Response =>
  jsonResponse({ message }, status, { "x-amzn-errortype": type, "x-amzn-requestid": awsRequestId });

export const converseAnswer = (content: readonly Json[], stopReason = "end_turn"): Response =>
  jsonResponse(
    {
      metrics: { latencyMs: 42 },
      output: { message: { content, role: "assistant" } },
      stopReason,
      usage: { inputTokens: 11, outputTokens: 7, totalTokens: 18, cacheReadInputTokens: 0, cacheWriteInputTokens: 0 },
    },
    200,
    { "x-amzn-requestid": awsRequestId },
  );

export type StreamEvent = readonly [type: string, body: unknown];

/** @param exception ends the stream */
export function converseStream(
  events: readonly StreamEvent[],
  exception?: readonly [type: string, body: string],
): Response {
  const bytes = Buffer.concat([
    ...events.map(([type, body]) => eventMessage(type, JSON.stringify(body))),
    ...(exception === undefined ? [] : [exceptionMessage(...exception)]),
  ]);
  return new Response(bytes, {
    headers: { "content-type": "application/vnd.amazon.eventstream", "x-amzn-requestid": awsRequestId },
  });
}

export const textEvents = (text: string, stopReason = "end_turn"): StreamEvent[] => [
  ["messageStart", { role: "assistant" }],
  ...[...text.matchAll(/.{1,4}/gs)].map(
    ([part]): StreamEvent => ["contentBlockDelta", { contentBlockIndex: 0, delta: { text: part } }],
  ),
  ["contentBlockStop", { contentBlockIndex: 0 }],
  ["messageStop", { stopReason }],
  ["metadata", { usage: { inputTokens: 11, outputTokens: 7, totalTokens: 18 }, metrics: { latencyMs: 42 } }],
];

async function authFault(request: RecordedRequest, region: string): Promise<[string, string] | undefined> {
  const said = request.headers.get("authorization") ?? "";
  if (said === `Bearer ${bedrockKey}`) return undefined;
  if (!said.startsWith("AWS4-HMAC-SHA256 ")) {
    return ["AccessDeniedException", "Authentication failed: Please make sure your API Key is valid."];
  }
  return (await isSigned(request, region, said))
    ? undefined
    : ["InvalidSignatureException", "The request signature we calculated does not match the signature you provided."];
}

/** Signs the request anew, by AWS's own library. */
async function isSigned(request: RecordedRequest, region: string, said: string): Promise<boolean> {
  const names = /SignedHeaders=([^,]+)/.exec(said)?.[1]?.split(";") ?? [];
  const at = request.headers.get("x-amz-date") ?? "";
  const signer = new SignatureV4({
    service: "bedrock",
    region,
    sha256: Sha256,
    credentials: { accessKeyId: awsVariables.AWS_ACCESS_KEY_ID, secretAccessKey: awsVariables.AWS_SECRET_ACCESS_KEY },
  });
  const date = new Date(at.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"));
  const { headers } = await signer.sign(
    {
      method: request.method,
      protocol: "http:",
      hostname: "127.0.0.1",
      path: request.path,
      headers: Object.fromEntries(names.map((name) => [name, request.headers.get(name) ?? ""])),
      body: request.text,
    },
    { signingDate: date, signableHeaders: new Set(names), unsignableHeaders: new Set(["x-amz-content-sha256"]) },
  );
  const hasToken = request.headers.get("x-amz-security-token") === awsVariables.AWS_SESSION_TOKEN;
  return hasToken && names.includes("host") && signatureIn(headers["authorization"] ?? "") === signatureIn(said);
}

const signatureIn = (header: string) => /Signature=([0-9a-f]{64})/.exec(header)?.[1];

class Sha256 {
  readonly #hash;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#hash = secret === undefined ? createHash("sha256") : createHmac("sha256", secret as Uint8Array);
  }

  update(data: Uint8Array | string): void {
    this.#hash.update(data);
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }
}

/** https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html */
const caches = /anthropic\.claude|amazon\.nova/;
const forces = /anthropic\.claude|amazon\.nova|mistral\.mistral-large/;

function validationFault(body: ConverseBody, model: string): string | undefined {
  const { messages, system = [], toolConfig, inferenceConfig: { maxTokens, temperature, topP } = {} } = body;
  if (!Array.isArray(messages) || messages.length === 0)
    return "A conversation must start with a user message. Try again with a conversation that starts with a user message.";
  if (messages[0]!.role !== "user")
    return "A conversation must start with a user message. Try again with a conversation that starts with a user message.";
  if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && maxTokens > 0))
    return "1 validation error detected: Value at 'inferenceConfig.maxTokens' failed to satisfy constraint: Member must have value greater than or equal to 1";
  for (const [name, value] of Object.entries({ temperature, topP })) {
    if (value !== undefined && !(value >= 0 && value <= 1))
      return `1 validation error detected: Value at 'inferenceConfig.${name}' failed to satisfy constraint: Member must have value less than or equal to 1`;
  }
  const names = new Set<unknown>();
  let called: string[] = [];
  for (const [at, { role, content }] of messages.entries()) {
    if (at > 0 && messages[at - 1]!.role === role)
      return "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.";
    const results = idsOf(content, "toolResult");
    if (called.some((id) => !results.includes(id)))
      return `Expected toolResult blocks at messages.${at}.content for the following Ids: ${called.join(", ")}`;
    if (results.some((id) => !called.includes(id)))
      return `The number of toolResult blocks at messages.${at}.content exceeds the number of toolUse blocks of previous turn.`;
    called = idsOf(content, "toolUse");
    if ([...called, ...results].some((id) => !/^[a-zA-Z0-9_-]{1,64}$/.test(id)))
      return "1 validation error detected: Value at 'toolUseId' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+";
    for (const [index, block] of content.entries()) {
      if (Object.keys(block).length !== 1)
        return `The content field in the Message object at messages.${at} has an invalid union.`;
      if (typeof block.text === "string" && block.text.trim() === "")
        return `The text field in the ContentBlock object at messages.${at}.content.${index} is blank. Add text to the text field, and try again.`;
      const name = block["document"]?.["name"];
      if (name !== undefined && (names.has(name) || !/^(?!.*\s\s)[a-zA-Z0-9\s()[\]-]{1,200}$/.test(String(name))))
        return "The document file name can only contain alphanumeric characters, whitespace characters, hyphens, parentheses, and square brackets.";
      names.add(name);
      if (block["cachePoint"] !== undefined && !caches.test(model))
        return "You invoked an unsupported model or your request did not allow prompt caching. See the documentation for more information.";
      if ((block["toolUse"] ?? block["toolResult"]) !== undefined && toolConfig === undefined)
        return "The toolConfig field must be defined when using toolUse and toolResult content blocks.";
    }
  }
  if (called.length > 0)
    return `Expected toolResult blocks at messages.${messages.length}.content for the following Ids: ${called.join(", ")}`;
  if (system.some((block) => "text" in block && block.text?.trim() === ""))
    return "The text field in the SystemContentBlock object at system.0 is blank.";
  const { toolChoice } = toolConfig ?? {};
  if (toolChoice !== undefined && !("auto" in toolChoice) && !forces.test(model))
    return "This model doesn't support the toolConfig.toolChoice.any field. Remove toolConfig.toolChoice.any and try again.";
  return undefined;
}

const idsOf = (content: readonly Block[], name: string): string[] =>
  content.flatMap((block) => (block[name] === undefined ? [] : [String(block[name]["toolUseId"])]));
