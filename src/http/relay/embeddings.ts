/** Embeddings on the gateway: as they are where the upstream has OpenAI's format, and translated in batches where it has another. */
import type { Caller } from "../../auth/keys.ts";
import type { RequestContext } from "../../call/context.ts";
import { heldBounds, inputMeter } from "../../call/plan/bounds.ts";
import { bodyTextOf, jsonAnswer } from "../../call/relay/relay.ts";
import type { Services } from "../../call/services.ts";
import { objectOf, parseJson } from "../../lib/json/json.ts";
import { restoreLarge, type Source } from "../../protocols/body/source.ts";
import {
  checkEmbeddings,
  type EmbeddingsRequest,
  embeddingsAnswer,
  formatOf,
  hasOtherForm,
  hasUsage,
  reformed,
  textsOf,
  withUsage,
} from "../../protocols/embeddings.ts";
import { InvalidAnswer, readingError } from "../../protocols/errors.ts";
import type { EmbeddingsFormat } from "../../providers/provider.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import { estimateTexts } from "../../usage/tokens/estimate.ts";
import { askVia, jsonRequest, type Relay, relayTo, relayVia } from "./relay.ts";

/** @throws ApiError; ClientDisconnected when `signal` aborts */
export async function embed(
  services: Services,
  context: RequestContext,
  caller: Caller,
  source: Source,
  signal: AbortSignal,
): Promise<WholeAnswer> {
  const request = checkEmbeddings(source.parsed);
  const bounds = heldBounds(services, context, caller, source, "embeddings");
  const relay = relayTo({ services, context, caller }, request.model, bounds, inputMeter(source));
  const { embeddings } = relay.provider;
  if (embeddings !== undefined) {
    await restoreLarge(source);
    return embedInBatches(relay, embeddings, request, source, signal);
  }
  const sent = jsonRequest(relay, "embeddings", source);
  const answer = await askVia(relay, sent, signal, "embeddings");
  const { name } = relay.bound.account;
  const formed = inFormAsked(answer, request, name);
  if (answer.status >= 300 || hasUsage(Buffer.from(answer.body.buffer, answer.body.byteOffset, answer.body.length)))
    return formed;
  await restoreLarge(source);
  const parsed = objectOf(parseJson(bodyTextOf(formed)));
  if (parsed === undefined) return formed;
  const { tokens, mark } = await estimated(services, request);
  return { ...formed, headers: { ...formed.headers, ...mark }, body: JSON.stringify(withUsage(parsed, tokens)) };
}

/** The longest wait of an answer for the tokenizer; after it, the text's length decides. */
const estimateMs = 400;

/** Estimates the counts of an answer that has none. */
async function estimated({ tokenizer }: Services, { input }: EmbeddingsRequest) {
  const inputs: readonly unknown[] = typeof input === "string" ? [input] : input;
  const texts = inputs.filter((one) => typeof one === "string");
  const given = inputs.flat().length - texts.length;
  const { tokens, isReckoned } = await estimateTexts(texts, { counter: tokenizer, deadlineMs: estimateMs });
  return { tokens: given + tokens, mark: { "x-troupe-estimated": isReckoned ? "length" : "true" } };
}

/** Bytes of an answer's beginning in which its first vector is looked for. */
const maxBeginning = 4096;

/** Some upstreams know one form of vectors only. */
function inFormAsked(
  answer: WholeAnswer & { readonly body: Uint8Array },
  request: EmbeddingsRequest,
  name: string,
): WholeAnswer {
  const format = formatOf(request);
  const beginning = Buffer.from(answer.body.buffer, answer.body.byteOffset, Math.min(maxBeginning, answer.body.length));
  if (answer.status >= 300 || !hasOtherForm(beginning.toString("latin1"), format)) return answer;
  try {
    const parsed = parseJson(bodyTextOf(answer));
    return { ...answer, body: JSON.stringify(reformed(parsed, format)) };
  } catch (error) {
    throw readingError(error, name);
  }
}

/** One request after the other: they are one call to the caller, and to the upstream's rate limit. */
async function embedInBatches(
  relay: Relay,
  { batch, encode, decode }: EmbeddingsFormat,
  request: EmbeddingsRequest,
  source: Source,
  signal: AbortSignal,
): Promise<WholeAnswer> {
  const { services, context } = relay;
  const { account } = relay.bound;
  const texts = textsOf(request, account.name);
  const vectors: (readonly number[])[] = [];
  let tokens: number | undefined = 0;
  for (let from = 0; from < texts.length; from += batch) {
    const part = texts.slice(from, from + batch);
    const { model } = relay;
    const dimensions = request.dimensions ?? undefined;
    const sent = encode({ model, account, texts: part, dimensions, fields: request });
    // Each batch is an attempt of its own to those who count.
    const via =
      from === 0
        ? relay
        : relayVia(
            relay,
            relay,
            heldBounds(services, context, relay.caller, source, "embeddings"),
            // Without counts in the answers, the first one's estimate is of all texts.
            { input: { length: 0, sample: [] } },
          );
    const answer = await askVia(via, sent, signal, "embeddings");
    if (answer.status >= 300) return answer;
    try {
      const decoded = decode(jsonOf(answer.body), part.length);
      vectors.push(...decoded.vectors);
      tokens = tokens === undefined || decoded.tokens === undefined ? undefined : tokens + decoded.tokens;
    } catch (error) {
      throw readingError(error, account.name);
    }
  }
  const { tokens: counted, mark } =
    tokens === undefined ? await estimated(services, request) : { tokens, mark: undefined };
  return jsonAnswer(embeddingsAnswer(request.model, vectors, formatOf(request), counted), 200, mark);
}

/** @throws InvalidAnswer */
function jsonOf(body: Uint8Array): unknown {
  const json = parseJson(new TextDecoder().decode(body));
  if (json === undefined) throw new InvalidAnswer("something else than JSON");
  return json;
}
