/** The state of one completion call, from the parsed request on. */
import type { Caller } from "../auth/keys.ts";
import type { Effects } from "../idempotency/effects.ts";
import type { Source } from "../protocols/body/source.ts";
import type { ParsedCall } from "../protocols/protocol.ts";
import type { RequestContext } from "./context.ts";
import type { Writer } from "./relay/writer.ts";
import type { Services } from "./services.ts";
import type { Surface } from "./surface.ts";

/**
 * What a call was asked. It is emptied once the upstream has all of it, so that whoever waits for the answer may hold the cell: an asynchronous
 * function holds what it awaited until it settles. Who takes a part out of it keeps that no longer than until the next wait.
 */
export type Asked = {
  call: ParsedCall<unknown>;
  /** The request as it was sent. */
  source: Source;
  /** A persona answers, on whatever surface the call came. */
  readonly byPersona: boolean;
};

/** What a cell holds when it is emptied: nothing that may be read. */
export const nothingAsked = new Proxy({} as never, {
  get() {
    throw new Error("a request was read after it was sent");
  },
});

/** A call whose caller was let in. */
export type Admitted = {
  readonly services: Services;
  readonly context: RequestContext;
  readonly surface: Surface;
  readonly caller: Caller;
};

export type CallScope = Admitted & {
  readonly asked: Asked;
  readonly writer: Writer;
  /** Of a call with a service-request-id. */
  readonly effects?: Effects;
};
