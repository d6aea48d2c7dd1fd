/**
 * The gateway's routes beside completions, in OpenAI's format: embeddings, images, audio, moderations, rerank. A call goes to the
 * provider that its model names, with the model's own name there, and the answer comes back as it is.
 */
import type { Caller } from "../../auth/keys.ts";
import { admit } from "../../call/admit/admit.ts";
import type { RequestContext } from "../../call/context.ts";
import { idempotentAnswer, isIdentified, serviceRequestId } from "../../call/once.ts";
import { heldBounds } from "../../call/plan/bounds.ts";
import { findPersona } from "../../call/plan/personas.ts";
import { readJson } from "../../call/read/request-body.ts";
import { respondWhole, wholeOf } from "../../call/relay/relay.ts";
import type { Services } from "../../call/services.ts";
import type { SurfaceName } from "../../config/config.ts";
import { boundaryOf } from "../../lib/streams/multipart.ts";
import { restoreLarge, type Source } from "../../protocols/body/source.ts";
import { checkEmbeddings } from "../../protocols/embeddings.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Operation } from "../../providers/provider.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import { describeOperationRoute } from "../openapi/operations.ts";
import type { Route } from "../routes.ts";
import { embed } from "./embeddings.ts";
import { passForm } from "./forms.ts";
import { askVia, jsonRequest, type Relay, relayTo, respondVia, sendVia } from "./relay.ts";

/** Those that take a form too, with files in it. */
const forms: ReadonlySet<Operation> = new Set([
  "images/edits",
  "images/variations",
  "audio/transcriptions",
  "audio/translations",
]);

const operations: readonly Operation[] = [
  "embeddings",
  "images/generations",
  "images/edits",
  "images/variations",
  "audio/speech",
  "audio/transcriptions",
  "audio/translations",
  "moderations",
  "rerank",
];

/** On the gateway alone, but for a word about embeddings on the orchestrator. */
export function operationRoutes(surface: SurfaceName): Route[] {
  if (surface === "orchestrator") return [noEmbeddings];
  return operations.map((operation) => ({
    method: "POST",
    path: `/v1/${operation}`,
    area: "gateway",
    describe: () => describeOperationRoute(operation, forms.has(operation)),
    run: (services, context) => operate(services, context, operation),
  }));
}

/** Answers clients of both surfaces with the place where embeddings are. */
const noEmbeddings: Route = {
  method: "POST",
  path: "/v1/embeddings",
  area: "orchestrator",
  // Refused, and so not among what works.
  describe: () => ({ hide: true }),
  run: async (services, context) => {
    const caller = await admit(services, context, "orchestrator");
    const { model } = checkEmbeddings((await readJson(context, services.live.config.limits)).parsed);
    if (findPersona(services, caller, model) === undefined) throw ApiError.modelNotFound(model);
    throw ApiError.unsupported("model", "A persona has no embeddings. Ask the gateway, with <provider>/<model>.");
  },
};

async function operate(services: Services, context: RequestContext, operation: Operation): Promise<Response> {
  const caller = await admit(services, context, "gateway");
  const boundary = forms.has(operation) ? boundaryOf(context.request.headers.get("content-type")) : undefined;
  if (boundary !== undefined) return passForm(services, context, caller, operation, boundary);
  const { limits } = services.live.config;
  const source = await readJson(context, limits);
  if (isIdentified(context)) await restoreLarge(source);
  // From here on silence is the upstream's, which has deadlines of its own.
  context.setIdleTimeout(0);
  const asked = { caller, operation, source };
  const requestId = serviceRequestId(context);
  const { signal } = context.request;
  if (requestId !== undefined) {
    const { model } = source.parsed;
    const request = { model: typeof model === "string" ? model : "" };
    const identified = { services, context, caller, call: { identity: [operation, source.parsed], request }, source };
    const produce = (until: AbortSignal) => wholeAnswer(services, context, asked, until);
    return respondWhole(context, wholeOf(await idempotentAnswer(identified, requestId, signal, produce)));
  }
  if (operation === "embeddings") return respondWhole(context, await wholeAnswer(services, context, asked, signal));
  const relay = relayOf(services, context, asked);
  const answer = await sendVia(relay, jsonRequest(relay, operation, source), signal, () => context.forgetBody());
  return respondVia(relay, answer, operation);
}

type Asked = { readonly caller: Caller; readonly operation: Operation; readonly source: Source };

function wholeAnswer(
  services: Services,
  context: RequestContext,
  asked: Asked,
  signal: AbortSignal,
): Promise<WholeAnswer> {
  return context.retainWhile(async () => {
    if (asked.operation === "embeddings") return await embed(services, context, asked.caller, asked.source, signal);
    const relay = relayOf(services, context, asked);
    return await askVia(relay, jsonRequest(relay, asked.operation, asked.source), signal, asked.operation);
  });
}

/** @throws ApiError missing_field, invalid_value, unknown_provider, model_not_allowed */
function relayOf(services: Services, context: RequestContext, { caller, operation, source }: Asked): Relay {
  const { model } = source.parsed;
  if (model == null) throw ApiError.missingField("model");
  if (typeof model !== "string") throw ApiError.invalidValue("model", "model must be a string.");
  return relayTo({ services, context, caller }, model, heldBounds(services, context, caller, source, operation));
}
