/** The type of a route: what is mounted, described in OpenAPI and counted in metrics comes from tables of it. */
import { truncate } from "../lib/truncate.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type { WholeAnswer } from "../upstream/answer.ts";
import type { Area, RequestContext } from "./context.ts";
import type { Finish } from "./respond.ts";
import type { Services } from "./services.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export type Route = {
  readonly method: Method;
  /** Below the surface's base, in Elysia's form. */
  readonly path: string;
  readonly area: Area;
  /** The format of its bodies, errors and credentials. Absent: it has none, and its errors are those of chat completions. */
  readonly protocol?: Protocol;
  /** Other formats, for clients that send a header of theirs. */
  readonly variants?: readonly { readonly header: string; readonly protocol: Protocol }[];
  /** Its OpenAPI operation. */
  readonly detail: Record<string, unknown>;
  /** What it does not know is not there, be it another method: its path may be anybody's. */
  readonly isGuess?: true;
  /** Of a path that ends in `*`: the operations that it stands for, each by what stands behind the path's last colon. */
  readonly endings?: Readonly<Record<string, Record<string, unknown>>>;
  /** Returns a whole answer; a route that may stream makes the Response itself and calls `finish` at its end. */
  readonly run: (
    services: Services,
    context: RequestContext,
    finish: Finish,
  ) => WholeAnswer | Promise<WholeAnswer | Response>;
};

export const nothingAt = ({ request, path }: RequestContext): ApiError =>
  ApiError.notFound(`There is nothing at ${request.method} ${truncate(path)}.`);

/** The part of the path after `marker`, percent-decoded. */
export function restOfPath(context: RequestContext, marker: string): string {
  const { path } = context;
  const rest = path.slice(path.indexOf(marker) + marker.length);
  try {
    return decodeURIComponent(rest);
  } catch {
    return rest;
  }
}
