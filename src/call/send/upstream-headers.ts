/** Names who answered a call in the headers of its answer: the account, the model there, and the attempts that it took. */
import type { RequestContext } from "../context.ts";

/** An answer says nothing of these where no upstream was asked, or where the persona hides it. */
export const upstreamHeaderNames = [
  "x-troupe-provider",
  "x-troupe-upstream-model",
  "x-troupe-upstream-format",
  "x-troupe-attempts",
] as const;

/** Values of headers are ASCII; models may have other names. */
export const isAscii = /^[\x20-\x7e]*$/;
export const encodedName = (text: string): string =>
  text.replace(/[^\x20-\x7e]+/g, (others) => encodeURIComponent(others.toWellFormed()));

/** Kept with an answer, for those who join or replay it. */
export function upstreamHeaders({ headers }: RequestContext): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of upstreamHeaderNames) {
    const value = headers[name];
    if (value !== undefined) found[name] = value;
  }
  return found;
}

/** The headers of a response that begins before it is known who answers the call. */
export function withoutUpstream({ headers }: RequestContext): Record<string, string> {
  const rest = { ...headers };
  for (const name of upstreamHeaderNames) delete rest[name];
  return rest;
}
