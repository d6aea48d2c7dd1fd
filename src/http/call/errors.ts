/** Errors of a call: how they are logged, and the places that they name. */
import { ApiError } from "../../protocols/errors.ts";
import type { UpstreamError } from "../../upstream/answer.ts";
import { describeError, describeUpstreamError, errorObjectIn } from "../error-fields.ts";
import { isInClientsPlace, type ownPlaces } from "../own-places.ts";
import type { Services } from "../services.ts";
import type { Writer } from "./writer.ts";

/** What is refused behind `parse` names the place as the client knows it. */
export function inOwnNames<T>({ ownPath }: Writer, answering: Promise<T>): Promise<T> {
  if (ownPath === undefined) return answering;
  return answering.catch((error) => {
    const isInner = error instanceof ApiError && error.param !== "" && !isInClientsPlace(error);
    throw isInner ? error.at(ownPath(error.param)) : error;
  });
}

/** What a provider refuses names the place in the caller's own messages and tools, in the inner form. */
export function inOwnPlaces<T>(ownPlace: ReturnType<typeof ownPlaces>, calling: Promise<T>): Promise<T> {
  if (ownPlace === undefined) return calling;
  return calling.catch((error) => {
    if (!(error instanceof ApiError) || isInClientsPlace(error)) throw error;
    const place = ownPlace(error.param);
    throw place === error.param ? error : error.at(place);
  });
}

export function describeFailure({ live }: Services, failure: UpstreamError | ApiError): Record<string, unknown> {
  return failure instanceof ApiError
    ? describeError(failure, "failure")
    : describeUpstreamError(failure, errorObjectIn(failure.body), live.config.log.content);
}
