/**
 * How a call failed, in its record, for those who wait for it in other processes: they get its error, as those do who wait in its own.
 * Such a record expired before it began, so whoever comes later finds its id free.
 */
import { ApiError, type ToldError } from "../protocols/errors.ts";
import { pack } from "../store/packing.ts";
import type { FinishedCall, IdempotencyRecord } from "../store/store.ts";
import type { StreamEnd, WholeAnswer } from "../upstream/answer.ts";

type Told = {
  /** Of an answer that is not 2xx, what stands beside its status, headers and body. */
  readonly answered?: Pick<WholeAnswer, "error" | "provider" | "format">;
  /** An error of our own. */
  readonly thrown?: ToldError;
};

/** Stands among the headers of the record, where no answer has one of this name. */
const toldName = "x-troupe-failure";
/** Before any time that a clock tells. */
const neverKept = 0;
/** A longer error is not told: who waits for it calls anew. */
const maxBodyBytes = 64 * 1024;

/** @returns undefined for an answer that is too long to be told */
export function failedRow(failure: WholeAnswer | ApiError): FinishedCall | undefined {
  const rest = { status: failure.status, events: null, bodyFrom: null, expiresAt: neverKept };
  if (failure instanceof ApiError) {
    const headers = withTold({}, { thrown: failure.told() });
    return { ...rest, headers, body: new Uint8Array(), bytes: 0 };
  }
  if (failure.body.length > maxBodyBytes) return undefined;
  const { error, provider, format } = failure;
  const body = pack(failure.body);
  const answered = { ...(error && { error }), ...(provider && { provider }), ...(format && { format }) };
  const headers = withTold(failure.headers, { answered });
  return { ...rest, headers, body, bytes: body.byteLength };
}

/**
 * @param row of all events that came
 * @param thrown what its readers get after them; undefined where the last event tells the error
 */
export function brokenRow(row: FinishedCall, thrown: ApiError | undefined): FinishedCall {
  const told = thrown === undefined ? {} : { thrown: thrown.told() };
  return { ...row, headers: withTold(JSON.parse(row.headers) as Record<string, string>, told), expiresAt: neverKept };
}

/** @param headers of a record, as an object @returns undefined unless it is one of a failure, which the headers then tell no more */
export function takeTold(headers: Record<string, string>): Told | undefined {
  const { [toldName]: told } = headers;
  delete headers[toldName];
  return told === undefined ? undefined : (JSON.parse(told) as Told);
}

/** How the events of a finished record end. @throws ApiError */
export function endOf({ expiresAt, headers }: Pick<IdempotencyRecord, "expiresAt" | "headers">): StreamEnd {
  if (expiresAt !== neverKept) return "finished";
  const thrown = takeTold(JSON.parse(headers ?? "{}") as Record<string, string>)?.thrown;
  if (thrown !== undefined) throw ApiError.again(thrown);
  return "faulted";
}

const withTold = (headers: Readonly<Record<string, string>>, told: Told): string =>
  JSON.stringify({ ...headers, [toldName]: JSON.stringify(told) });
