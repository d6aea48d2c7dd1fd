/** The type of a route: what is mounted, described in OpenAPI and counted in metrics comes from tables of it. */

import type { Area, RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import type { ServedSurface } from "../config/config.ts";
import { truncate } from "../lib/text/truncate.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type { WholeAnswer } from "../upstream/answer.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** An operation in OpenAPI's form; with `hide: true` none. */
export type Description = Readonly<Record<string, unknown>>;

export type Route = {
  readonly method: Method;
  /** Below the surface's base, in Elysia's form. */
  readonly path: string;
  readonly area: Area;
  /** The format of its bodies, errors and credentials. Absent: it has none, and its errors are those of chat completions. */
  readonly protocol?: Protocol;
  /** Other formats, for clients that send a header of theirs. */
  readonly variants?: readonly { readonly header: string; readonly protocol: Protocol }[];
  /** Writes its OpenAPI operation, which is most of a description and read by few. */
  readonly describe: () => Description;
  /** The operations of a path that ends in `*`, each by what stands behind the path's last colon. */
  readonly endings?: () => Readonly<Record<string, Description>>;
  /** Returns a whole answer; a route that may stream makes the Response itself and calls `context.finish()` at its end. */
  readonly run: (services: Services, context: RequestContext) => Promise<WholeAnswer | Response>;
};

/** The gateway is mounted at `/gateway` where it shares a listener with the orchestrator; the admin API always stands apart. */
export function basePath(surface: ServedSurface, surfaces: readonly ServedSurface[]): string {
  if (surface === "admin") return "/admin";
  return surface === "gateway" && surfaces.includes("orchestrator") ? "/gateway" : "";
}

/** Checks whether a path may be anybody's, in which a name of ours is only a guess: what such a route does not know is not there, be it another method. */
export const isGuess = (path: string): boolean => path.includes("/:namespace/");

export const nothingAt = ({ request, path }: RequestContext): ApiError =>
  ApiError.notFound(`There is nothing at ${request.method} ${truncate(path)}.`);
