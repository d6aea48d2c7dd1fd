/**
 * `generateContent`, the format of Gemini's clients. The model and the method stand in the path.
 * Source: https://ai.google.dev/api/generate-content
 */
import { type JsonObject, listOf, objectOf } from "../../lib/json/json.ts";
import { eachTurn, OmittableTexts } from "../body/omittable-texts.ts";
import { callerKey } from "../credentials.ts";
import { NativeOnly } from "../native-only.ts";
import type { ClientRequest, ParsedCall, Protocol } from "../protocol.ts";
import { addressOf } from "./address.ts";
import type { Shown } from "./candidate.ts";
import { textWrappedIn } from "./conversation.ts";
import { apiErrorBody, fieldsBody } from "./errors.ts";
import { nativeEncoder, patchCount, patchGenerateContent } from "./native.ts";
import { type Places, placeHere } from "./places.ts";
import { checkGenerateContent, countedPrompt, innerRequest } from "./request.ts";
import { generateContentBody } from "./response.ts";
import { eventFraming, type Framing, GenerateContentEncoder, ListFraming } from "./stream.ts";

type GenerateContentOptions = Shown & {
  /** A stream is one JSON list, and no event stream. */
  readonly list: boolean;
  readonly places: Places;
};

const listType = "application/json; charset=utf-8";

/** @param body of a prompt, whatever is asked of it */
function parsed(
  body: JsonObject,
  identity: JsonObject,
  client: ClientRequest,
  streams = false,
): ParsedCall<GenerateContentOptions> {
  const { model, method } = addressOf(client.path);
  const list = streams && client.query.get("alt") !== "sse";
  const nativeOnly = new NativeOnly();
  const checked = checkGenerateContent(body, nativeOnly);
  const { request, places, names } = innerRequest(checked, model, streams, nativeOnly);
  const thoughts = checked.generationConfig?.thinkingConfig?.includeThoughts === true;
  return {
    request,
    identity: ["generate-content", method, model, identity, list],
    options: { thoughts, names, places, list },
    nativeOnly: nativeOnly.refusal,
    nativeTools: nativeOnly.toolRefusal,
    hosted: nativeOnly.hosted,
  };
}

const framingOf = (list: boolean): Framing => (list ? new ListFraming() : eventFraming);

const partsIn = (content: unknown) => objectOf(content)?.["parts"];
const declaredIn = (tool: unknown) =>
  objectOf(tool)?.["functionDeclarations"] ?? objectOf(tool)?.["function_declarations"];

/** @returns the text of a result that holds nothing else; others are written as JSON where they are translated */
function wrappedResult(part: unknown): unknown {
  const given = objectOf(objectOf(part)?.["functionResponse"] ?? objectOf(part)?.["function_response"]);
  const response = objectOf(given?.["response"]);
  return response && textWrappedIn(response);
}

export const generateContent: Protocol<GenerateContentOptions> = {
  name: "generate-content",
  answerIdPrefix: "gen_",
  // Google's own clients for Python and Go read lines, and take a comment, or any other field than `data`, for a damaged answer:
  // https://github.com/googleapis/python-genai/blob/main/google/genai/_api_client.py (_iter_response_stream). Two empty lines are
  // borne by all, one is not.
  keepAlive: "\n\n",
  readsLines: true,
  credentials: ({ request, query }) => callerKey(request.headers) ?? (query.get("key") || undefined),
  omittableTexts(body) {
    const omittable = new OmittableTexts();
    const { contents, tools } = body;
    omittable.said(partsIn(body["systemInstruction"] ?? body["system_instruction"]));
    eachTurn(contents, ({ role, parts }, isLast) => {
      if (role === "model") {
        if (!isLast) omittable.answered(parts);
        return;
      }
      omittable.said(parts);
      for (const part of listOf(parts)) omittable.result(wrappedResult(part));
    });
    for (const tool of listOf(tools))
      for (const declared of listOf(declaredIn(tool))) omittable.said(objectOf(declared)?.["description"]);
    return omittable;
  },
  parse: ({ parsed: body }, client) =>
    parsed(body, body, client, addressOf(client.path).method === "streamGenerateContent"),
  native: {
    patch: patchGenerateContent,
    encoder: (_envelope, { list }) => nativeEncoder(framingOf(list), list),
    endsWithStream: true,
  },
  streamType: ({ list }) => (list ? listType : undefined),
  param: (inner, { places }) => placeHere(inner, places),
  completion: generateContentBody,
  encoder: (envelope, options) => new GenerateContentEncoder(envelope, options, framingOf(options.list)),
  error: apiErrorBody,
  upstreamError: (error, status) => fieldsBody(error, status),
};

/** The same for prompts that are counted and not answered: https://ai.google.dev/api/tokens */
export const generateContentCount: Protocol<GenerateContentOptions> = {
  ...generateContent,
  parse: ({ parsed: body }, client) => parsed(countedPrompt(body), body, client),
  native: { ...generateContent.native!, patch: patchCount },
};
