/**
 * Places in what is sent to an upstream, as the caller's own request has them: a persona's words and tools, and the earlier turns
 * of a conversation, stand beside the caller's there.
 */

import type { ChatRequest } from "../protocols/chat/schema.ts";
import type { ApiError } from "../protocols/errors.ts";

type Lists = Pick<ChatRequest, "messages" | "tools">;

const indexed = /^(messages|tools)\[(\d+)\](.*)$/s;

/**
 * @param sent holds the messages and tools of `asked`, in their order, beside others; it is not kept
 * @returns the caller's path for one of `sent`: that of the list, where the place is not the caller's; undefined where they
 *   are the same
 */
export function ownPlaces(asked: Lists, sent: Lists): ((path: string) => string) | undefined {
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

/** Whether `inClientsPlace` was told of the error. */
export const isInClientsPlace = (error: ApiError): boolean => ofClient.has(error);
