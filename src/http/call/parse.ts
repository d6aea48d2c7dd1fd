/** Parses the body of a call in its client format, with the stored answers and the prompt that it refers to. */
import type { Caller } from "../../auth/keys.ts";
import type { SurfaceName } from "../../config/config.ts";
import type { Holder } from "../../conversations/conversations.ts";
import type { JsonObject } from "../../lib/json/json.ts";
import { truncate } from "../../lib/truncate.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { EarlierAnswers, ParsedCall, Prompt, Protocol } from "../../protocols/protocol.ts";
import type { Source } from "../../protocols/source.ts";
import { labelsOf } from "../../usage/labels.ts";
import type { RequestContext } from "../context.ts";
import { holderOf } from "../conversation.ts";
import { checkMetadata, checkPlain } from "../plain-values.ts";
import type { Services } from "../services.ts";
import type { Surface } from "./surface.ts";

/** @throws ApiError with the path of the value in the format's own body */
export async function parseCall(
  services: Services,
  context: RequestContext,
  caller: Caller,
  { name }: Surface,
  protocol: Protocol,
  source: Source,
): Promise<ParsedCall<unknown>> {
  const ids = protocol.references?.(source.parsed) ?? [];
  const earlier = ids.length === 0 ? undefined : await earlierAnswers(services, holderOf(caller, name), protocol, ids);
  const parsed = protocol.parse(source, context, earlier);
  checkPlain("model", parsed.request.model);
  const { metadata } = parsed.request;
  if (metadata != null) checkMetadata(metadata);
  context.labels = labelsOf(context.labels.client, parsed.request, services.live.config.usage.metadata);
  const prompt = protocol.prompt?.(parsed.options);
  return prompt === undefined ? parsed : withPrompt(name, parsed, prompt);
}

/** The most earlier answers that one request may refer to: each is read from the store. */
const maxReferences = 1000;

/** @returns those that are kept, and are the holder's */
async function earlierAnswers(
  { conversations }: Services,
  holder: Holder,
  { name }: Protocol,
  ids: readonly string[],
): Promise<EarlierAnswers> {
  const found = new Map<string, JsonObject>();
  for (const id of ids.slice(0, maxReferences)) {
    try {
      found.set(id, (await conversations.getShown(holder, id, name)).answer);
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error;
    }
  }
  return found;
}

/** @returns the call, which only an upstream of its format can answer where it names a template. @throws ApiError */
function withPrompt<Options>(surface: SurfaceName, call: ParsedCall<Options>, prompt: Prompt): ParsedCall<Options> {
  const { model } = call.request;
  if (surface === "gateway") {
    // The parser takes it for the model's name where there is none.
    if (model === prompt.id) throw ApiError.missingField("model");
    const message =
      "prompt: this model's provider keeps no templates. Call a persona on the orchestrator by prompt.id.";
    return { ...call, nativeOnly: call.nativeOnly ?? ApiError.unsupported("prompt", message) };
  }
  if (model !== prompt.id) {
    const names = `prompt.id names '${truncate(prompt.id)}', and model '${truncate(model)}'`;
    throw ApiError.invalidValue("prompt.id", `${names}: one of them is enough, or both must be the same persona.`);
  }
  if (prompt.version != null) {
    const message = `'${truncate(prompt.id)}' has no versions: leave prompt.version out.`;
    throw ApiError.invalidValue("prompt.version", message);
  }
  return call;
}
