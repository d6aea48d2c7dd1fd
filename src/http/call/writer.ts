/** Writes a call's answer in the client's format, plain or streamed. */
import type { CompletionBody, Envelope } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { EventEncoder, NativeEncoder, ParsedCall, Protocol } from "../../protocols/protocol.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import type { RequestContext } from "../context.ts";
import { errorObjectIn } from "../error-fields.ts";
import { jsonAnswer, type StreamRules } from "../respond.ts";
import type { Services } from "../services.ts";

import type { Surface } from "./surface.ts";

export type Writer = {
  readonly protocol: Protocol;
  readonly envelope: Envelope;
  readonly whole: (answer: CompletionBody) => object;
  /** The same, as it is sent. */
  readonly completion: (answer: CompletionBody) => WholeAnswer;
  readonly encoder: () => EventEncoder;
  /** Present where the format can be passed on as it comes. */
  readonly nativeEncoder: (() => NativeEncoder) | undefined;
  /** The media type of a stream that is no event stream. */
  readonly streamType: string | undefined;
  /** Translates a path of the inner form; absent where the format has the same ones. */
  readonly ownPath: ((inner: string) => string) | undefined;
};

/** Does not take the request, and neither does `streamRules`: their closures live as long as the stream. */
export function writerFor(protocol: Protocol, { options }: ParsedCall<unknown>, envelope: Envelope): Writer {
  const whole: Writer["whole"] = (answer) => protocol.completion(answer, envelope, options);
  return {
    protocol,
    envelope,
    whole,
    completion: (answer) => jsonAnswer(whole(answer)),
    encoder: () => protocol.encoder(envelope, options),
    nativeEncoder: protocol.native && (() => protocol.native!.encoder(envelope, options)),
    streamType: protocol.streamType?.(options),
    ownPath: protocol.param && ((inner) => protocol.param!(inner, options)),
  };
}

export function streamRules(
  { live }: Services,
  surface: Surface,
  writer: Writer,
  disconnected: AbortController,
): StreamRules {
  return {
    keepAliveMs: writer.streamType === undefined ? live.config.streams.keepAliveSeconds * 1000 : 0,
    keepAlive: writer.protocol.keepAlive,
    type: writer.streamType,
    idsApart: writer.protocol.idsApart,
    lateFault(failure) {
      const error =
        failure instanceof ApiError ? surface.fault(failure) : (failure.error ?? errorObjectIn(failure.body));
      const events: string[] = [];
      writer.encoder().fault(error, events);
      return events;
    },
    onDisconnect: () => disconnected.abort(),
  };
}

export function newEnvelope(
  { clock }: Services,
  { uniqueId }: RequestContext,
  { answerIdPrefix }: Protocol,
  model: string,
): Envelope {
  let completed: number | undefined;
  return {
    id: `${answerIdPrefix}${uniqueId}`,
    created: Math.floor(clock.now() / 1000),
    model,
    completed() {
      completed ??= Math.floor(clock.now() / 1000);
      return completed;
    },
  };
}
