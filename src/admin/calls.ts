/** The admin API's routes of single calls: the ledger's lines, one request's attempts, and a live tail. */
import { Type } from "@sinclair/typebox";
import { type Call, CallAttempts, CallPage, ending, type OpenCall, OpenCalls } from "../api/calls.ts";
import { respondStream } from "../call/relay/relay.ts";
import type { Services } from "../call/services.ts";
import { Id, queryOf } from "../http/openapi/describe.ts";
import { filterOf, ledgerQuery, ownQuery } from "../http/usage.ts";
import { isoTime } from "../lib/time/clock.ts";
import { hourMs } from "../lib/time/duration.ts";
import { attemptsOf } from "../operate/calls.ts";
import { ApiError } from "../protocols/errors.ts";
import { type LedgerFilter, type LedgerLine, type LedgerPlace, placeBefore } from "../store/contract/usage.ts";
import type { RecordedEvents } from "../upstream/answer.ts";
import { openCalls } from "../usage/ledger/open-calls.ts";
import { type KeyNames, lineJson } from "../usage/ledger/report.ts";
import type { AdminPlugin } from "./act.ts";
import { endWithSignIn } from "./held-open.ts";
import { adminOperation, page, pageParameters } from "./pages.ts";

const idFrom = ({ at, requestId, attempt }: LedgerPlace) => `${at}.${requestId}.${attempt}`;

/** @throws ApiError invalid_value */
function placeFrom(id: string, name: string): LedgerPlace {
  const [, at, requestId, attempt] = /^(\d{1,15})\.(req_[0-9a-z]{1,64})\.(\d{1,6})$/.exec(id) ?? [];
  if (attempt === undefined) throw ApiError.invalidValue(name, `${name} must be the id of a call.`);
  return { at: Number(at), requestId: requestId!, attempt: Number(attempt) };
}

const callJson = (line: LedgerLine, names: KeyNames): Call => ({
  object: "call",
  id: idFrom(line),
  ...lineJson(line, names),
});

/** A call that has no end yet, without the fields that an end gives it. */
function openCallJson(line: LedgerLine, names: KeyNames, now: number): OpenCall {
  const known = Object.entries(lineJson(line, names)).filter(([name]) => !endFields.has(name));
  const begun = Object.fromEntries(known) as Omit<OpenCall, "object" | "age_ms">;
  return { object: "call.open", ...begun, age_ms: Math.max(0, now - line.at) };
}

/** Known once a call has ended. */
const endFields: ReadonlySet<string> = new Set(Object.keys(ending));

const pollMs = 1_000;
/** The time that the tail looks back for calls that have ended: it leaves out those that took longer, or that more others began after. */
const tailMs = hourMs;
const maxLooked = 20_000;
/** Before the last look, as a line is written some time after its call's end. */
const writtenMs = 5_000;
/** Calls of one look, and ids that are known to be sent. */
const maxTold = 2_000;
const maxSent = 20_000;

/** More calls ended since the last look than one look takes, as behind a reader that stood still. */
const gap = `event: gap\ndata: ${JSON.stringify({ object: "call.gap", message: "More calls have ended than are told here." })}\n\n`;

/**
 * One event for each call that ends from now on, or that ended after the one named by `from`. Asks only when there is room; what a
 * slow reader leaves unread is not held, and asked for later.
 * @param most calls of one look
 */
async function* tail(
  services: Services,
  filter: Omit<LedgerFilter, "since" | "until">,
  { from, most }: { readonly from: LedgerPlace | undefined; readonly most: number },
  signal: AbortSignal,
): RecordedEvents {
  const { clock, ledger, store } = services;
  const names = await services.keys.names();
  const sent = new Set<string>();
  let endedSince = clock.now() - writtenMs;
  const look = async (since: number, ends: { readonly endedSince?: number }, limit: number) => {
    const next = clock.now() - writtenMs - ledger.lagSeconds * 1_000;
    const page = { ...filter, ...ends, since, until: clock.now() + tailMs, limit, signal };
    const { lines } = await store.ledger.search(page, maxLooked);
    endedSince = next;
    const areMore = lines.length === limit && !sent.has(idFrom(lines.at(-1)!));
    const fresh = lines.filter((line) => !sent.has(idFrom(line))).toReversed();
    for (const line of fresh) sent.add(idFrom(line));
    for (const id of sent) {
      if (sent.size <= maxSent) break;
      sent.delete(id);
    }
    const events = fresh.map(
      (line) => `id: ${idFrom(line)}\nevent: call\ndata: ${JSON.stringify(callJson(line, names))}\n\n`,
    );
    return areMore ? [gap, ...events] : events;
  };
  if (from === undefined) {
    // The first look only learns what has been.
    await look(clock.now() - tailMs, { endedSince }, maxTold);
    yield [": here\n\n"];
  } else {
    const first = await look(from.at, {}, maxTold);
    const behind = first.findIndex((event) => event.startsWith(`id: ${idFrom(from)}\n`));
    yield [": here\n\n", ...first.slice(behind + 1)];
  }
  while (!signal.aborted && !services.draining) {
    await pause(services, signal);
    const events = await look(clock.now() - tailMs, { endedSince }, most);
    if (events.length > 0) yield events;
  }
  return "finished";
}

/** Until the next look, or the client's end. */
function pause({ clock }: Services, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      cancelTimer();
      signal.removeEventListener("abort", end);
      resolve();
    };
    const cancelTimer = clock.setTimer(pollMs, end);
    signal.addEventListener("abort", end);
  });
}

/**
 * The lines of all attempts to answer a request, the first first.
 * @throws ApiError not_found, storage_unavailable
 */
export async function attemptLines(
  { store, ledger }: Services,
  requestId: string,
  signal: AbortSignal,
): Promise<readonly LedgerLine[]> {
  // Who asks by an answer's id may have it since a moment.
  await ledger.flush();
  const found = await attemptsOf(store.ledger, requestId, signal);
  if (found.length === 0)
    throw ApiError.notFound("There is no call of that request id, or it is not written yet.", "id");
  return found;
}

export const callRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/calls",
      async ({ services, request, query: { after, limit, ...chosen } }) => {
        const { lines, reached } = await services.store.ledger.search({
          ...filterOf(services, chosen, 400),
          limit: limit + 1,
          signal: request.signal,
          ...(after !== undefined && { before: placeFrom(after, "after") }),
        });
        const names = await services.keys.names();
        const found = page(
          lines.map((line) => callJson(line, names)),
          limit,
          ({ id }) => id,
        );
        // One more than the page would be looked for again.
        if (reached === undefined || found.has_more) return { ...found, searched_since: null };
        return { ...found, has_more: true, last_id: idFrom(placeBefore(reached)), searched_since: isoTime(reached) };
      },
      adminOperation({
        operationId: "adminListCalls",
        summary: "Calls as the ledger has them, a page at a time, the newest first",
        description:
          "Filters by what is a call's own, as min_total_ms, look at 200,000 calls at a time: where those fill no page, it ends early with has_more and searched_since, and after=<last_id> looks further back.",
        query: queryOf({ ...ledgerQuery(), ...ownQuery(), ...pageParameters(100, 20) }),
        response: CallPage,
        errors: [400],
      }),
    )
    .get(
      "/v1/calls/stream",
      ({ services, context, request, query: { limit: most, ...query } }) => {
        const { since: _, until: __, ...filter } = filterOf(services, query, 1);
        const last = request.headers.get("last-event-id");
        const from = last === null ? undefined : placeFrom(last, "last-event-id");
        const left = new AbortController();
        request.signal.addEventListener("abort", () => left.abort(), { once: true });
        context.setIdleTimeout(0);
        endWithSignIn(services, context, left);
        context.headers["cache-control"] = "no-store, no-transform";
        const { keepAliveSeconds } = services.live.config.streams;
        const answer = {
          kind: "stream" as const,
          headers: {},
          events: tail(services, filter, { from, most }, left.signal),
        };
        const rules = {
          keepAliveMs: keepAliveSeconds * 1000,
          keepAlive: ": keep-alive\n\n",
          lateFault: (failure: unknown) => {
            const error = failure instanceof ApiError ? failure : ApiError.internal(failure);
            return [`event: error\ndata: ${JSON.stringify({ error: error.fields() })}\n\n`];
          },
          onDisconnect: () => left.abort(),
        };
        return respondStream(services, context, Promise.resolve(answer), rules);
      },
      adminOperation({
        operationId: "adminTailCalls",
        summary: "Calls as they end: an event stream, resumed by Last-Event-ID",
        query: queryOf({
          ...ledgerQuery("since", "until"),
          ...ownQuery(),
          limit: Type.Integer({
            ...{ minimum: 1, maximum: maxTold, default: maxTold },
            description: "The most calls of one second: of more the latest come, after an event gap.",
          }),
        }),
        parameters: [
          {
            name: "Last-Event-ID",
            in: "header",
            schema: { type: "string" },
            description: "The id of the last call that arrived.",
          },
        ],
        media: "text/event-stream",
        errors: [400],
      }),
    )
    .get(
      "/v1/calls/open",
      async ({ services, query: { limit, ...chosen } }) => {
        const { where = {}, own = [] } = filterOf(services, chosen, 1);
        const { workers, ledger, clock } = services;
        const asked = { where, own, limit };
        const all = await workers?.ask("calls", asked);
        const { lines, total } = all ?? openCalls(ledger.begun, asked, clock.now());
        const names = await services.keys.names();
        const now = clock.now();
        const calls = lines.map((line) => openCallJson(line, names, now));
        const counted = workers && { workers: all?.workers ?? null, answered: all?.answered ?? 1 };
        return { object: "list" as const, data: calls, has_more: total > limit, total, workers: counted ?? null };
      },
      adminOperation({
        operationId: "adminListOpenCalls",
        summary: "Calls under way in the server that answers, all of its workers together, the oldest first",
        description: "Chosen by what is known before their end; min_total_ms is for how long they have been under way.",
        query: queryOf({
          ...ledgerQuery("since", "until", ...endFields),
          ...ownQuery("min_total_ms", "min_attempt"),
          limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
        }),
        response: OpenCalls,
        errors: [400],
      }),
    )
    .get(
      "/v1/calls/:id",
      async ({ services, request, params: { id: requestId } }) => {
        const found = await attemptLines(services, requestId, request.signal);
        const names = await services.keys.names();
        const attempts = found.map((line) => callJson(line, names));
        return { object: "call.attempts" as const, request_id: requestId, attempts };
      },
      adminOperation({
        operationId: "adminGetCall",
        summary: "All attempts to answer one request, by its x-request-id",
        params: Id,
        response: CallAttempts,
        errors: [404],
      }),
    );
