/** Calls with a service-request-id: made once, joined while they run, replayed afterwards. */
import { fingerprint, fingerprintInSlices } from "../idempotency/fingerprint.ts";
import { withEndCallback } from "../lib/streams/flow.ts";
import { splitReference } from "../personas/versions/references.ts";
import { hugeBody } from "../protocols/body/body.ts";
import { parsedBytes, type Source } from "../protocols/body/source.ts";
import type { ChatRequest } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import type { ParsedCall } from "../protocols/protocol.ts";
import type { Answer, EventSource, Producer } from "../upstream/answer.ts";
import { refusedBy } from "../usage/ledger/error-note.ts";
import type { RequestContext } from "./context.ts";
import { noteAnsweredVersion, versionHeaders } from "./plan/persona-version.ts";
import { noteAnsweredVariant, variantHeaders } from "./plan/variant.ts";
import type { CallScope } from "./scope.ts";
import { upstreamHeaders } from "./send/upstream-headers.ts";
import { nextAttempt } from "./settle/settle.ts";

type CallMaker = (scope: CallScope, until: AbortSignal) => Promise<Answer<EventSource>>;

/** Makes the call, or joins or replays the one with its service-request-id. @param signal aborts it @throws ApiError */
export function once(scope: CallScope, signal: AbortSignal, make: CallMaker): Promise<Answer> {
  const requestId = serviceRequestId(scope.context);
  return requestId === undefined ? make(scope, signal) : makeIdentified(scope, requestId, signal, make);
}

function makeIdentified(scope: CallScope, requestId: string, signal: AbortSignal, make: CallMaker): Promise<Answer> {
  const { services, context, caller } = scope;
  const produce = async (until: AbortSignal) => {
    const identified = {
      ...scope,
      effects: services.idempotency.effectsOf({ scope: `${caller.keyId} ${context.area}`, requestId }),
    };
    const calling = whileRetained(context, until, () => make(identified, until));
    const made = await calling.catch((error) => {
      throw error instanceof ApiError ? error.withHeaders(upstreamHeaders(context)) : error;
    });
    const headers = { ...upstreamHeaders(context), ...versionHeaders(context), ...variantHeaders(context) };
    return { ...made, headers: { ...made.headers, ...headers } };
  };
  return idempotentAnswer(identifiedIn(scope), requestId, signal, produce);
}

/** Counts the request's body as in memory until the call ends, as it may outlive its client. @param until aborts on cancel */
export async function whileRetained(
  context: RequestContext,
  until: AbortSignal,
  call: () => Promise<Answer<EventSource>>,
): Promise<Answer<EventSource>> {
  const release = context.retain();
  until.addEventListener("abort", release, { once: true });
  try {
    const answered = await call();
    if (answered.kind === "stream") return { ...answered, events: withEndCallback(answered.events, release) };
    release();
    return answered;
  } catch (error) {
    release();
    throw error;
  }
}

/** The parts of a request that distinguish it from others of the same service-request-id. */
type IdentifiedScope = Pick<CallScope, "services" | "context" | "caller"> & {
  readonly source: Source;
  readonly call: Pick<ParsedCall<unknown>, "identity"> & { readonly request: Pick<ChatRequest, "model"> };
};

export const identifiedIn = ({ services, context, caller, asked }: CallScope): IdentifiedScope => ({
  services,
  context,
  caller,
  call: asked.call,
  source: asked.source,
});

/** Answers a request with a service-request-id: calls once, joins a running call, or replays the stored answer. */
export function idempotentAnswer(
  { services, context, caller, call, source }: IdentifiedScope,
  requestId: string,
  signal: AbortSignal,
  produce: Producer,
): Promise<Answer> {
  const { identity } = call;
  const asked = call.request.model;
  const area = context.area;
  const lastEventId = context.request.headers.get("last-event-id") ?? undefined;
  let waits = false;
  const onWait = (isOther: boolean) => {
    waits = isOther;
  };
  const named = namedBy(produce, context.id);
  const run = (print: string) =>
    services.idempotency.run({ scope: `${caller.keyId} ${area}`, requestId, fingerprint: print }, signal, named, {
      lastEventId,
      onWait,
    });
  const running =
    parsedBytes(source) < hugeBody
      ? run(fingerprint(identity, source.body))
      : fingerprintInSlices(identity, source.body).then(run);
  return running.then(
    ({ answer: recorded, replayed, joined }) => {
      const { [callHeader]: callOf, ...headers } = recorded.headers;
      const shared = { ...recorded, headers };
      if (replayed || joined) {
        noteAnsweredVersion(context, headers, splitReference(asked)?.id ?? asked);
        noteAnsweredVariant(context, headers);
        const attempt = nextAttempt(context, caller, asked);
        services.usage.record(attempt, { ended: replayed ? "replayed" : "joined", status: statusOf(shared), callOf });
      }
      if (replayed) context.headers["idempotent-replayed"] = "true";
      services.httpMetrics.idempotent.series(area, replayed ? "replayed" : joined ? "joined" : "fresh").add();
      return shared;
    },
    (error) => {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 422) services.httpMetrics.idempotent.series(area, "conflict").add();
      if (waits) {
        const callOf = error.headers[callHeader];
        services.usage.record(nextAttempt(context, caller, asked), { ...refusedBy(error), ended: "joined", callOf });
        services.httpMetrics.idempotent.series(area, "joined").add();
      }
      throw error.withoutHeader(callHeader);
    },
  );
}

/** Recorded with an answer or an error, and never sent: the id of the request that made the call. */
const callHeader = "x-troupe-call";

const namedBy =
  (produce: Producer, id: string): Producer =>
  async (until) => {
    try {
      const made = await produce(until);
      return { ...made, headers: { ...made.headers, [callHeader]: id } };
    } catch (error) {
      throw error instanceof ApiError ? error.withHeaders({ [callHeader]: id }) : error;
    }
  };

const statusOf = (answer: Answer) => (answer.kind === "whole" ? answer.status : 200);

/** The header's names, in order of precedence. */
const requestIdNames = ["service-request-id", "idempotency-key"];

export const isIdentified = ({ request }: RequestContext) => requestIdNames.some((name) => request.headers.has(name));

/** Reads the service-request-id and echoes it on the response. @throws ApiError invalid_value */
export function serviceRequestId({ request, headers }: RequestContext): string | undefined {
  let found: string | undefined;
  for (const name of requestIdNames) {
    const id = request.headers.get(name);
    if (id === null) continue;
    if (!/^[\x21-\x7e]{1,255}$/.test(id)) {
      throw ApiError.invalidValue(name, `${name} must be 1 to 255 visible ASCII characters.`);
    }
    found ??= id;
  }
  if (found !== undefined) headers["service-request-id"] = found;
  return found;
}
