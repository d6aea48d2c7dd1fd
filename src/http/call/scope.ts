/** The state of one completion call, from the parsed request on. */
import type { Caller } from "../../auth/keys.ts";
import type { Effects } from "../../idempotency/effects.ts";
import type { ParsedCall } from "../../protocols/protocol.ts";
import type { Source } from "../../protocols/source.ts";
import type { RequestContext } from "../context.ts";
import type { Services } from "../services.ts";
import type { Surface } from "./surface.ts";
import type { Writer } from "./writer.ts";

/** Holds the request, so nothing that lives as long as a stream may hold it: pass the parts that are needed. */
export type CallScope = {
  readonly services: Services;
  readonly context: RequestContext;
  readonly surface: Surface;
  readonly caller: Caller;
  readonly call: ParsedCall<unknown>;
  /** The request as it was sent. */
  readonly source: Source;
  readonly writer: Writer;
  /** Of a call with a service-request-id. */
  readonly effects?: Effects;
};
