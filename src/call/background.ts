/** Calls that are answered in the background: stored and started here, read and followed later. */
import { type JsonObject, parseJson } from "../lib/json/json.ts";
import { restoreLarge } from "../protocols/body/source.ts";
import { ApiError } from "../protocols/errors.ts";
import type { StoredForm } from "../protocols/protocol.ts";
import type { WholeAnswer } from "../upstream/answer.ts";
import type { BackgroundCall } from "./background-answers.ts";
import { idempotentAnswer, identifiedIn, serviceRequestId, whileRetained } from "./once.ts";
import { keyHolderOf } from "./plan/conversation.ts";
import { planCall } from "./plan/plan.ts";
import { inOwnNames } from "./relay/errors.ts";
import { bodyTextOf, jsonAnswer, respondStream, respondWhole, wholeOf } from "./relay/relay.ts";
import { followEvents } from "./relay/stored-events.ts";
import { streamRules } from "./relay/writer.ts";
import type { CallScope } from "./scope.ts";
import { nativeCall, refuseNativeOnly } from "./send/native.ts";
import { sendCall } from "./send/send.ts";
import { upstreamHeaders, withoutUpstream } from "./send/upstream-headers.ts";
import type { Services } from "./services.ts";

/**
 * Begins the call, or finds what an earlier one with its service-request-id began, and answers with that as it stands then, or follows its events.
 * @param leaving of a streamed call: ends the following when the client leaves @throws ApiError
 */
export async function answerInBackground(
  scope: CallScope,
  stored: StoredForm<unknown>,
  leaving: AbortController | undefined,
): Promise<Response> {
  const { services, context, surface, caller, writer } = scope;
  const begun = await inOwnNames(writer, begin(scope, stored));
  if (leaving === undefined) return respondWhole(context, begun, withoutUpstream(context));
  const { id } = parseJson(bodyTextOf(begun)) as { id: string };
  const keyHolder = keyHolderOf(caller, surface.name);
  const following = followEvents(services, { keyHolder, id, format: writer.protocol.name }, leaving.signal);
  return respondStream(services, context, following, streamRules(services, surface, writer, leaving));
}

/** @returns the answer as it stands */
async function begin(scope: CallScope, stored: StoredForm<unknown>): Promise<WholeAnswer> {
  const start = async () => jsonAnswer(await storeAndStart(scope, stored));
  const { context } = scope;
  const requestId = serviceRequestId(context);
  if (requestId === undefined) return start();
  return wholeOf(await idempotentAnswer(identifiedIn(scope), requestId, context.request.signal, start));
}

/** Plans the call, stores its turn and starts it. @returns the answer as it stands. @throws ApiError before anything is called */
async function storeAndStart(scope: CallScope, stored: StoredForm<unknown>): Promise<JsonObject> {
  const { services, context, surface, caller, asked, writer } = scope;
  const { call, source } = asked;
  checkRoomForBackground(services);
  // Its events are kept whether they are asked for or not.
  const request = { ...call.request, stream: true, stream_options: { include_usage: true } };
  const streamed: CallScope = { ...scope, asked: { ...asked, call: { ...call, request } } };
  const planned = await planCall(streamed);
  if (!planned.plan.store)
    throw ApiError.invalidValue("store", "background needs store: true, as its answer is read later.");
  const { envelope, protocol } = writer;
  const { conversation, plan, tools } = planned;
  for (const target of plan.targets) {
    if (nativeCall(streamed, planned, target) === undefined)
      refuseNativeOnly(tools === undefined ? call : { ...call, nativeTools: tools.nativeTools }, target);
  }
  await restoreLarge(source, [source.parsed, conversation.whole]);
  context.logFields["background"] = true;
  const pending = stored.pending("queued", envelope, call.options);
  const made: BackgroundCall = {
    id: envelope.id,
    model: envelope.model,
    begin: () => conversation.begin(envelope, pending),
    call: (until) => whileRetained(context, until, () => sendCall(streamed, planned, until)),
    headers: () => upstreamHeaders(context),
    failed: (error) => stored.pending("failed", envelope, call.options, error),
    failedEvents(error) {
      const events: string[] = [];
      const encoder = protocol.encoder(envelope, call.options);
      encoder.push({ choices: [] }, events);
      encoder.fault(error, events);
      return events;
    },
    errorIn: stored.errorIn,
    renamed: (event) => stored.renamed(event, envelope.id),
  };
  const { backgroundResponses } = services.live.config.limits;
  await services.background.begin(keyHolderOf(caller, surface.name), made, backgroundResponses);
  return pending;
}

/** @throws ApiError overloaded */
function checkRoomForBackground({ background, running, live }: Services): void {
  if (background.size + running <= live.config.limits.concurrentRequests) return;
  throw ApiError.unavailable("overloaded", "Too many responses are made in the background. Retry in a moment.", {
    retryAfterSeconds: 1,
  });
}
