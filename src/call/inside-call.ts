/** A call of a model that this server makes itself for somebody whom it let in. */
import type { Caller } from "../auth/keys.ts";
import type { KeySurface } from "../config/surfaces.ts";
import type { Services } from "./services.ts";
import type { Surface } from "./surface.ts";

export type InsideCall = {
  readonly surface: Surface;
  /** The path by which metrics and log know it. */
  readonly path: string;
  readonly caller: Caller;
  /** What its key must have been given. */
  readonly permission: KeySurface;
  /** The body of a chat completion, as JSON. */
  readonly body: string;
  /** By which the ledger names the client. */
  readonly client: string;
  readonly signal: AbortSignal;
  /** Other services than the host's, such as other personas. */
  readonly services?: Services;
};
