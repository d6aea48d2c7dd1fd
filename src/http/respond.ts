/** From an answer to HTTP. The only place that makes a `Response`. */

import { withTimeout } from "../lib/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type {
  Answer,
  EventAnswer,
  EventBatch,
  KeptAnswer,
  NumberedAnswer,
  StreamEnd,
  WholeAnswer,
} from "../upstream/answer.ts";
import type { RequestContext } from "./context.ts";
import type { Services } from "./services.ts";

/** Ends a request: its status and how its stream ended, where it was one. */
export type Finish = (status: number, end?: StreamEnd) => void;

export function jsonAnswer(body: unknown, status = 200, headers: Record<string, string> = {}): WholeAnswer {
  return {
    kind: "whole",
    status,
    headers: { ...headers, "content-type": "application/json; charset=utf-8" },
    body: JSON.stringify(body),
  };
}

export function textAnswer(body: string, status = 200, contentType = "text/plain; charset=utf-8"): WholeAnswer {
  return { kind: "whole", status, headers: { "content-type": contentType }, body };
}

/** Of whatever a browser shows. */
export const pageHeaders = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" };

export function errorAnswer(protocol: Protocol, error: ApiError): WholeAnswer {
  return jsonAnswer(protocol.error(error), error.status, error.headers);
}

/** Anything thrown, as an error of our own. What is unknown says nothing to the client and everything to the log. */
export function asApiError(services: Services, context: RequestContext, error: unknown): ApiError {
  if (error instanceof ApiError) {
    if (error.status >= 500) context.logFields["cause"] = error.cause ?? error.message;
    return error;
  }
  services.log.error("a request failed unexpectedly", { request_id: context.id, route: context.route, error });
  return ApiError.internal(error);
}

export function respondWhole(context: RequestContext, answer: WholeAnswer, finish: Finish): Response {
  finish(answer.status);
  return new Response(answer.body as string | Uint8Array<ArrayBuffer>, {
    status: answer.status,
    headers: { ...answer.headers, ...context.headers },
  });
}

const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

export type StreamRules = {
  /** Idle time after which `keepAlive` is sent; 0: never. */
  readonly keepAliveMs: number;
  readonly keepAlive: string;
  /** The events that tell of an answer that is no stream, when a 200 is already out. */
  readonly lateFault: (answer: WholeAnswer | ApiError) => readonly string[];
  /** Ends the call. */
  readonly abandon: () => void;
};

/**
 * Answers with a stream, or with the error that came instead of one. The 200 is held back until the first fragment is
 * there, but no longer than the keep-alive time: a proxy in between would give up on silence.
 */
export async function respondStream(
  services: Services,
  context: RequestContext,
  answering: Promise<Answer | KeptAnswer>,
  rules: StreamRules,
  finish: Finish,
): Promise<Response> {
  const early = await (rules.keepAliveMs > 0 ? withTimeout(services.clock, answering, rules.keepAliveMs) : answering);
  if (early?.kind === "whole") return respondWhole(context, early, finish);
  const headers = { ...early?.headers, ...streamHeaders, ...context.headers };
  const source = early === undefined ? new LateSource(answering) : sourceOf(early);
  return new Response(streamBody(services, context, source, rules, finish, early === undefined), { headers });
}

/** Takes the texts that go over the wire. */
interface TextReader {
  text(text: string): void;
  /** The same, as bytes already. */
  bytes(bytes: Uint8Array): void;
  end(how: StreamEnd): void;
  /** Instead of the end. */
  fail(error: unknown): void;
}

/** Gives them, once asked to, until it is told to wait. */
interface TextSource {
  flow(reader: TextReader): void;
  pause(): void;
  resume(): void;
  cancel(): void;
}

function sourceOf(answer: EventAnswer | NumberedAnswer): TextSource {
  if (answer.kind === "numbered") return new NumberedSource(answer);
  const { events } = answer;
  return {
    flow: (reader) =>
      events.flow({
        batch: (texts) => reader.text(texts.join("")),
        bytes: (bytes) => reader.bytes(bytes),
        end(how, texts) {
          if (texts.length > 0) reader.text(texts.join(""));
          reader.end(how);
        },
      }),
    pause: () => events.pause(),
    resume: () => events.resume(),
    cancel: () => events.cancel(),
  };
}

/** A kept stream's batches, asked for one by one. */
class NumberedSource implements TextSource {
  readonly #answer: NumberedAnswer;
  #reader: TextReader | undefined;
  #isPaused = false;
  #isAsking = false;

  constructor(answer: NumberedAnswer) {
    this.#answer = answer;
  }

  flow(reader: TextReader): void {
    this.#reader = reader;
    void this.#ask();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    void this.#ask();
  }

  cancel(): void {
    this.#reader = undefined;
  }

  async #ask(): Promise<void> {
    if (this.#isAsking) return;
    this.#isAsking = true;
    try {
      while (this.#reader !== undefined && !this.#isPaused) {
        const step = await this.#answer.events.next();
        if (step.done === true) {
          this.#reader?.end(step.value);
          this.#reader = undefined;
        } else this.#reader?.text(joinNumbered(step.value, this.#answer.idPrefix));
      }
    } catch (error) {
      this.#reader?.fail(error);
      this.#reader = undefined;
    }
    this.#isAsking = false;
  }
}

function joinNumbered({ firstId, data }: EventBatch, idPrefix: string): string {
  return data.map((event, at) => `id: ${idPrefix}${firstId + at}\n${event}`).join("");
}

/** An answer that is still on its way when the 200 has gone out. */
class LateSource implements TextSource {
  readonly #answering: Promise<Answer | KeptAnswer>;
  #source: TextSource | undefined;
  #isPaused = false;
  #isCancelled = false;

  constructor(answering: Promise<Answer | KeptAnswer>) {
    this.#answering = answering;
  }

  flow(reader: TextReader): void {
    this.#answering.then(
      (answer) => {
        if (answer.kind === "whole") {
          if (!this.#isCancelled) reader.fail(new LateError(answer));
          return;
        }
        this.#source = sourceOf(answer);
        if (this.#isPaused) this.#source.pause();
        if (this.#isCancelled) this.#source.cancel();
        else this.#source.flow(reader);
      },
      (error) => {
        if (!this.#isCancelled) reader.fail(error);
      },
    );
  }

  pause(): void {
    this.#isPaused = true;
    this.#source?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#source?.resume();
  }

  cancel(): void {
    this.#isCancelled = true;
    this.#source?.cancel();
  }
}

/** A whole answer where a stream has already begun. */
class LateError extends Error {
  readonly answer: WholeAnswer;

  constructor(answer: WholeAnswer) {
    super("the answer is no stream");
    this.answer = answer;
  }
}

const encoder = new TextEncoder();

/**
 * What arrives goes out in the same turn. A client that does not keep up stops the source once one piece waits for it, so
 * that a slow reader slows the upstream and little is held between.
 */
function streamBody(
  services: Services,
  context: RequestContext,
  source: TextSource,
  rules: StreamRules,
  finish: Finish,
  startsLate: boolean,
): ReadableStream<Uint8Array> {
  const { clock, metrics } = services;
  let controller!: ReadableStreamDefaultController<Uint8Array>;
  let lastSent = clock.monotonic();
  let offKeepAlive = () => {};
  let closed = false;
  /** Settles the stream's latest wish for more: until then it has no other. */
  let wishGranted = () => {};
  const close = (end: StreamEnd) => {
    closed = true;
    offKeepAlive();
    metrics.streamClosed(context.area);
    finish(200, end);
  };
  const keepAlive = (waitMs: number) => {
    offKeepAlive = clock.setTimer(waitMs, () => {
      const left = lastSent + rules.keepAliveMs - clock.monotonic();
      // A comment is for a reader who waits; one who does not read has enough.
      if (left <= 1 && (controller.desiredSize ?? 0) > 0) {
        controller.enqueue(encoder.encode(rules.keepAlive));
        lastSent = clock.monotonic();
      }
      keepAlive(left > 1 ? left : rules.keepAliveMs);
    });
  };
  const reader: TextReader = {
    text: (text) => reader.bytes(encoder.encode(text)),
    bytes(bytes) {
      if (closed) return;
      lastSent = clock.monotonic();
      controller.enqueue(bytes);
      if ((controller.desiredSize ?? 0) > 0) return;
      source.pause();
      wishGranted();
    },
    end(how) {
      if (closed) return;
      close(how);
      controller.close();
    },
    fail(error) {
      if (context.request.signal.aborted) {
        reader.end("cancelled");
        return;
      }
      const failure = error instanceof LateError ? error.answer : asApiError(services, context, error);
      reader.text(rules.lateFault(failure).join(""));
      reader.end("faulted");
    },
  };
  metrics.streamOpened(context.area);
  return new ReadableStream<Uint8Array>({
    start(own) {
      controller = own;
      if (startsLate) controller.enqueue(encoder.encode(rules.keepAlive));
      if (rules.keepAliveMs > 0) keepAlive(rules.keepAliveMs);
      source.flow(reader);
    },
    pull() {
      const { promise, resolve } = Promise.withResolvers<void>();
      wishGranted = resolve;
      source.resume();
      return promise;
    },
    cancel() {
      if (closed) return;
      close("cancelled");
      source.cancel();
      rules.abandon();
    },
  });
}
