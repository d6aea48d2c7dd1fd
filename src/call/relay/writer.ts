/** Writes a call's answer in the client's format, plain or streamed. */
import type { Clock } from "../../lib/time/clock.ts";
import type { CompletionBody, Envelope } from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { EventEncoder, NativeEncoder, Protocol } from "../../protocols/protocol.ts";
import type { WholeAnswer } from "../../upstream/answer.ts";
import type { AnswerWriter } from "../../upstream/call.ts";
import type { TextMeter } from "../../usage/attempt.ts";
import { extrapolateMeter } from "../../usage/tokens/estimate.ts";
import type { RequestContext } from "../context.ts";
import type { Services } from "../services.ts";
import type { Surface } from "../surface.ts";
import { errorObjectIn } from "./error-fields.ts";
import { jsonAnswer, type StreamRules } from "./relay.ts";

/** Does not take the request: it lives as long as the stream. */
export class Writer implements AnswerWriter {
  readonly protocol: Protocol;
  readonly envelope: CallEnvelope;
  /** The media type of a stream that is no event stream. */
  readonly streamType: string | undefined;
  readonly #options: unknown;

  constructor(protocol: Protocol, options: unknown, envelope: CallEnvelope) {
    this.protocol = protocol;
    this.envelope = envelope;
    this.streamType = protocol.streamType?.(options);
    this.#options = options;
  }

  whole(answer: CompletionBody): object {
    return this.protocol.completion(answer, this.envelope, this.#options);
  }

  /** The same, as it is sent. */
  completion(answer: CompletionBody): WholeAnswer {
    return jsonAnswer(this.whole(answer));
  }

  encoder(): EventEncoder {
    return this.protocol.encoder(this.envelope, this.#options);
  }

  /** For formats that can be passed on as they come. */
  nativeEncoder(): NativeEncoder {
    return this.protocol.native!.encoder(this.envelope, this.#options);
  }

  /** Translates a path of the inner form, where the format's are others. */
  ownPath(inner: string): string {
    return this.protocol.param?.(inner, this.#options) ?? inner;
  }
}

/** @param leaving aborted when the client disconnects */
export function streamRules(
  { live }: Services,
  surface: Surface,
  writer: Writer,
  leaving: AbortController,
): StreamRules {
  return {
    keepAliveMs: writer.streamType === undefined ? live.config.streams.keepAliveSeconds * 1000 : 0,
    keepAlive: writer.protocol.keepAlive,
    type: writer.streamType,
    readsLines: writer.protocol.readsLines,
    lateFault(failure) {
      const error =
        failure instanceof ApiError ? surface.fault(failure) : (failure.error ?? errorObjectIn(failure.body));
      const events: string[] = [];
      writer.encoder().fault(error, events);
      return events;
    },
    onDisconnect: () => leaving.abort(),
  };
}

export class CallEnvelope implements Envelope {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  /** The text of the request that was sent last. */
  input: TextMeter | undefined;
  readonly #clock: Clock;
  #completed: number | undefined;

  constructor({ clock }: Services, { uniqueId }: RequestContext, { answerIdPrefix }: Protocol, model: string) {
    this.#clock = clock;
    this.id = `${answerIdPrefix}${uniqueId}`;
    this.created = Math.floor(clock.now() / 1000);
    this.model = model;
  }

  completed(): number {
    this.#completed ??= Math.floor(this.#clock.now() / 1000);
    return this.#completed;
  }

  promptTokens(): number {
    return this.input === undefined ? 0 : extrapolateMeter(this.input).tokens;
  }
}
