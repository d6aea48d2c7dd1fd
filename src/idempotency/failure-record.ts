/**
 * The record of a call that failed, for those who wait for it in other processes: they get its error, as those do who wait in its own.
 * It expired before it began, so whoever comes later finds its id free.
 */
import { ApiError, type ErrorRecord } from "../protocols/errors.ts";
import type { FinishedCall, IdempotencyRecord } from "../store/contract/store.ts";
import { pack } from "../store/packing.ts";
import type { StreamEnd, WholeAnswer } from "../upstream/answer.ts";

type Failure = {
  /** The facts of an answer that is not 2xx beside its status, headers and body. */
  readonly answered?: Pick<WholeAnswer, "error" | "provider" | "format">;
  /** An error of our own. */
  readonly thrown?: ErrorRecord;
};

/** Stands among the headers of the record, where no answer has one of this name. */
const headerName = "x-troupe-failure";
/** Before any reading of a clock. */
const expired = 0;
/** A longer error is not recorded: who waits for it calls anew. */
const maxBodyBytes = 64 * 1024;

/** @returns undefined for an answer that is too long to be recorded */
export function failedRow(failure: WholeAnswer | ApiError): FinishedCall | undefined {
  const rest = { status: failure.status, events: null, bodyFrom: null, expiresAt: expired };
  if (failure instanceof ApiError) {
    const headers = withFailure({}, { thrown: failure.record() });
    return { ...rest, headers, body: new Uint8Array(), bytes: 0 };
  }
  if (failure.body.length > maxBodyBytes) return undefined;
  const { error, provider, format } = failure;
  const body = pack(failure.body);
  const answered = { ...(error && { error }), ...(provider && { provider }), ...(format && { format }) };
  return { ...rest, headers: withFailure(failure.headers, { answered }), body, bytes: body.byteLength };
}

/**
 * @param row of all events that came
 * @param thrown what its readers get after them; undefined where the last event is the error
 */
export function brokenRow(row: FinishedCall, thrown: ApiError | undefined): FinishedCall {
  const failure = thrown === undefined ? {} : { thrown: thrown.record() };
  return { ...row, headers: withFailure(JSON.parse(row.headers), failure), expiresAt: expired };
}

/** Takes the failure out of a record's headers. @returns undefined unless the record is one of a failure */
export function takeFailure(headers: Record<string, string>): Failure | undefined {
  const { [headerName]: failure } = headers;
  delete headers[headerName];
  return failure === undefined ? undefined : (JSON.parse(failure) as Failure);
}

/** The end of a finished record's events. @throws ApiError */
export function streamEndOf({ expiresAt, headers }: Pick<IdempotencyRecord, "expiresAt" | "headers">): StreamEnd {
  if (expiresAt !== expired) return "finished";
  const thrown = takeFailure(JSON.parse(headers ?? "{}"))?.thrown;
  if (thrown !== undefined) throw ApiError.fromRecord(thrown);
  return "faulted";
}

const withFailure = (headers: Readonly<Record<string, string>>, failure: Failure): string =>
  JSON.stringify({ ...headers, [headerName]: JSON.stringify(failure) });
