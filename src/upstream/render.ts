/** Shows what a call would send: the call is made as any other is, up to the transport, which keeps the request. */

import type { HttpRequest, Transport } from "../lib/http/client.ts";
import { type CallOptions, type CallTools, callUpstream } from "./call.ts";
import { Upstream } from "./client.ts";
import type { CallObserver } from "./observer.ts";
import type { Target } from "./target.ts";

/** A request whose body is at hand, as text. */
export type RenderedRequest = Omit<HttpRequest, "body"> & { readonly body: string };

/**
 * @param media fetches what this upstream takes no URLs of, as in a call
 * @returns the request as it would go out, with `***` for each secret; undefined where this program answers itself
 * @throws ApiError for what the provider can't do
 */
export async function renderRequest(
  tools: Pick<CallTools, "media" | "clock">,
  target: Target,
  signal: AbortSignal,
): Promise<RenderedRequest | undefined> {
  if (target.provider.kind === "local") return undefined;
  const transport = new KeepingTransport();
  const masked = { ...target, credentials: target.credentials.masked() };
  const kept = { ...tools, upstream: new Upstream(tools.clock, transport) };
  try {
    await callUpstream(kept, masked, { ...withoutAnswer, signal });
  } catch (error) {
    if (transport.request === undefined) throw error;
  }
  const { body = "", ...head } = transport.request!;
  const pieces = typeof body === "string" || body instanceof Uint8Array ? [body] : (body as Iterable<string>);
  return { ...head, body: Buffer.concat([...pieces].map((piece) => Buffer.from(piece as string))).toString() };
}

/** Sends nothing. */
class KeepingTransport implements Transport {
  request: HttpRequest | undefined;

  send(request: HttpRequest): never {
    this.request = request;
    throw new Error("this request is only shown");
  }

  close(): void {}
}

const nothing = () => {};

const observer: CallObserver = {
  begin: async () => {},
  sent: nothing,
  answered: nothing,
  tierTold: nothing,
  servedBy: nothing,
  firstFragment: nothing,
  body: nothing,
  costOf: () => undefined,
  completed: async () => {},
  upstreamFailed: nothing,
  wantsText: false,
  passedText: nothing,
  faulted: nothing,
  abandoned: nothing,
  failed: nothing,
};

const unanswered = (): never => {
  throw new Error("nothing was answered");
};

const withoutAnswer: Omit<CallOptions, "signal"> = {
  form: { thinkingRequested: false, choices: 1 },
  answerId: "",
  writer: { encoder: unanswered, completion: unanswered },
  renderFault: unanswered,
  observer,
};
