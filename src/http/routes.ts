/** Every route as data: what is mounted, described and counted comes from these tables. */
import type { WholeAnswer } from "../upstream/answer.ts";
import type { Area, RequestContext } from "./context.ts";
import type { Finish } from "./respond.ts";
import type { Services } from "./services.ts";

export type Method = "GET" | "POST" | "DELETE";

export type Route = {
  readonly method: Method;
  /** Below the surface's base, in Elysia's form. */
  readonly path: string;
  readonly area: Area;
  /** What the API's description says of it. */
  readonly detail: Record<string, unknown>;
  /** Answers whole, or, where the answer may be a stream, makes the response itself and calls `finish` at its end. */
  readonly run: (
    services: Services,
    context: RequestContext,
    finish: Finish,
  ) => WholeAnswer | Promise<WholeAnswer> | Promise<Response>;
};

/** The part of the path behind the route's fixed one, with `%2F` and the like undone. */
export function restOfPath(context: RequestContext, marker: string): string {
  const { path } = context;
  const rest = path.slice(path.indexOf(marker) + marker.length);
  try {
    return decodeURIComponent(rest);
  } catch {
    return rest;
  }
}
