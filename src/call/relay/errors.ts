/** Errors of a call: how they are logged, and the places that they name. */
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { UpstreamError } from "../../upstream/answer.ts";
import type { RequestLogFields } from "../log-fields.ts";
import type { Services } from "../services.ts";
import { describeError, describeUpstreamError, errorObjectIn } from "./error-fields.ts";
import type { Writer } from "./writer.ts";

/** Names the place of errors found behind `parse` as the client knows it. */
export async function inOwnNames<T>(writer: Writer, answering: Promise<T>): Promise<T> {
  try {
    return await answering;
  } catch (error) {
    const isInner = error instanceof ApiError && error.param !== "" && !isInClientsPlace(error);
    throw isInner ? error.at(writer.ownPath(error.param)) : error;
  }
}

/** Names the place of a provider's refusals in the caller's own messages and tools, in the inner form. */
export async function inOwnPlaces<T>(ownPlace: (path: string) => string, calling: Promise<T>): Promise<T> {
  try {
    return await calling;
  } catch (error) {
    if (!(error instanceof ApiError) || isInClientsPlace(error)) throw error;
    const place = ownPlace(error.param);
    throw place === error.param ? error : error.at(place);
  }
}

export function describeFailure({ live }: Services, failure: UpstreamError | ApiError): RequestLogFields {
  return failure instanceof ApiError
    ? describeError(failure, "failure")
    : describeUpstreamError(failure, errorObjectIn(failure.body), live.config.log.content);
}

type Lists = Pick<ChatRequest, "messages" | "tools">;

const indexed = /^(messages|tools)\[(\d+)\](.*)$/s;

/**
 * @param sent holds the messages and tools of `asked`, in their order, beside others; it is not kept
 * @returns the caller's path for one of `sent`: that of the list, where the place is not the caller's; undefined where they
 *   are the same
 */
export function ownPlaces(asked: Lists, sent: Lists): ((path: string) => string) | undefined {
  return asked.messages === sent.messages && asked.tools === sent.tools ? undefined : changedPlaces(asked, sent);
}

function changedPlaces(asked: Lists, sent: Lists): ((path: string) => string) | undefined {
  const messages = indexesOf(asked.messages, sent.messages);
  const tools = indexesOf(asked.tools, sent.tools);
  if (messages === undefined && tools === undefined) return undefined;
  return (path) =>
    path.replace(indexed, (same, list: "messages" | "tools", index: string, rest: string) => {
      const own = list === "messages" ? messages : tools;
      if (own === undefined) return same;
      const at = own[Number(index)] ?? -1;
      return at < 0 ? list : `${list}[${at}]${rest}`;
    });
}

/** @returns for each of the longer list its index in the other one, -1 where it is not there; undefined where nothing is added */
function indexesOf(asked: readonly unknown[] = [], sent: readonly unknown[] = []): number[] | undefined {
  if (sent.length <= asked.length) return undefined;
  let next = 0;
  const indexes = sent.map((one) => (one === asked[next] ? next++ : -1));
  return next === asked.length ? indexes : undefined;
}

const ofClient = new WeakSet<ApiError>();

/** @returns the error, whose place is said as the client knows it and is not to be translated */
export function inClientsPlace(error: ApiError): ApiError {
  ofClient.add(error);
  return error;
}

/** Checks whether `inClientsPlace` marked the error. */
const isInClientsPlace = (error: ApiError): boolean => ofClient.has(error);
