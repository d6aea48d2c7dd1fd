/** From an answer to HTTP. The only place that makes a `Response`. */
import { formatSseEvent, keepAliveComment } from "../lib/sse.ts";
import type {
  Answer,
  EventAnswer,
  EventBatch,
  KeptAnswer,
  NumberedAnswer,
  StreamEnd,
  WholeAnswer,
} from "../services/answer.ts";
import type { Services } from "../services/services.ts";
import { ApiError } from "../wire/errors.ts";
import type { Exchange } from "./exchange.ts";

/** What closes an exchange: its status and how its stream ended, where it was one. */
export type Finish = (status: number, end?: StreamEnd) => void;

export function jsonAnswer(body: unknown, status = 200, headers: Record<string, string> = {}): WholeAnswer {
  return {
    kind: "whole",
    status,
    headers: { "content-type": "application/json; charset=utf-8", ...headers },
    body: JSON.stringify(body),
  };
}

export function textAnswer(body: string, status = 200, contentType = "text/plain; charset=utf-8"): WholeAnswer {
  return { kind: "whole", status, headers: { "content-type": contentType }, body };
}

export function errorAnswer(error: ApiError): WholeAnswer {
  return jsonAnswer(error.body(), error.status, error.headers);
}

/** Anything thrown, as an error of our own. What is unknown says nothing to the client and everything to the log. */
export function asApiError(services: Services, exchange: Exchange, error: unknown): ApiError {
  if (error instanceof ApiError) {
    if (error.status >= 500) exchange.note["cause"] = error.cause ?? error.message;
    return error;
  }
  services.log.error("a request failed unexpectedly", { request_id: exchange.id, route: exchange.route, error });
  return ApiError.internal(error);
}

export function respondWhole(exchange: Exchange, answer: WholeAnswer, finish: Finish): Response {
  finish(answer.status);
  return new Response(answer.body as string | Uint8Array<ArrayBuffer>, {
    status: answer.status,
    headers: { ...answer.headers, ...exchange.headers },
  });
}

const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

export type StreamRules = {
  /** Silence after which a comment is sent; 0 is off. */
  readonly keepAliveMs: number;
  /** The texts (JSON, then `[DONE]`) that tell of an answer that is no stream, when a 200 is already out. */
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
  exchange: Exchange,
  answering: Promise<Answer | KeptAnswer>,
  rules: StreamRules,
  finish: Finish,
): Promise<Response> {
  const early = await settledWithin(services, answering, rules.keepAliveMs);
  if (early?.kind === "whole") return respondWhole(exchange, early, finish);
  const headers = { ...early?.headers, ...streamHeaders, ...exchange.headers };
  const source = early === undefined ? lateSource(answering) : sourceOf(early);
  return new Response(streamBody(services, exchange, source, rules, finish, early === undefined), { headers });
}

/** undefined when the time is over first. */
async function settledWithin<T>(services: Services, promise: Promise<T>, ms: number): Promise<T | undefined> {
  if (ms <= 0) return promise;
  let off = () => {};
  const over = new Promise<undefined>((resolve) => {
    off = services.clock.after(ms, () => resolve(undefined));
  });
  try {
    return await Promise.race([promise, over]);
  } finally {
    off();
  }
}

type Batch = readonly string[] | EventBatch;
/** A stream's batches, and how they go over the wire. */
type Source = { next(): Promise<IteratorResult<Batch, StreamEnd>>; textOf(batch: Batch): string };

function sourceOf(answer: EventAnswer | NumberedAnswer): Source {
  return {
    next: () => answer.events.next(),
    textOf: (batch) =>
      "firstId" in batch ? joinNumbered(batch, (answer as NumberedAnswer).idPrefix) : joinEvents(batch),
  };
}

function joinNumbered({ firstId, data }: EventBatch, idPrefix: string): string {
  return data.map((one, at) => formatSseEvent(one, `${idPrefix}${firstId + at}`)).join("");
}

function joinEvents(data: readonly string[]): string {
  let text = "";
  for (const one of data) text += `data: ${one}\n\n`;
  return text;
}

/** An answer that is still on its way when the 200 has gone out. */
function lateSource(answering: Promise<Answer | KeptAnswer>): Source {
  let source: Source | undefined;
  return {
    next: async () => {
      if (source === undefined) {
        const answer = await answering;
        if (answer.kind === "whole") throw new LateError(answer);
        source = sourceOf(answer);
      }
      return source.next();
    },
    textOf: (batch) => source!.textOf(batch),
  };
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

/** One read of the source for each pull of the client: a slow reader slows the upstream, and little is held between. */
function streamBody(
  services: Services,
  exchange: Exchange,
  source: Source,
  rules: StreamRules,
  finish: Finish,
  startsLate: boolean,
): ReadableStream<Uint8Array> {
  const { clock, metrics } = services;
  let lastSent = clock.monotonic();
  let offKeepAlive = () => {};
  let closed = false;
  const close = (end: StreamEnd) => {
    if (closed) return;
    closed = true;
    offKeepAlive();
    metrics.streamClosed(exchange.area);
    finish(200, end);
  };
  const keepAlive = (controller: ReadableStreamDefaultController<Uint8Array>, waitMs: number) => {
    offKeepAlive = clock.after(waitMs, () => {
      const left = lastSent + rules.keepAliveMs - clock.monotonic();
      // A comment is for a reader who waits; one who does not read has enough.
      if (left <= 1 && (controller.desiredSize ?? 0) > 0) {
        controller.enqueue(encoder.encode(keepAliveComment));
        lastSent = clock.monotonic();
      }
      keepAlive(controller, left > 1 ? left : rules.keepAliveMs);
    });
  };
  const send = (controller: ReadableStreamDefaultController<Uint8Array>, text: string) => {
    lastSent = clock.monotonic();
    controller.enqueue(encoder.encode(text));
  };
  const end = (controller: ReadableStreamDefaultController<Uint8Array>, how: StreamEnd) => {
    close(how);
    controller.close();
  };
  const fail = (controller: ReadableStreamDefaultController<Uint8Array>, error: unknown) => {
    if (exchange.request.signal.aborted) return end(controller, "cancelled");
    const failure = error instanceof LateError ? error.answer : asApiError(services, exchange, error);
    send(controller, joinEvents(rules.lateFault(failure)));
    end(controller, "faulted");
  };
  metrics.streamOpened(exchange.area);
  return new ReadableStream<Uint8Array>({
    start(controller) {
      if (startsLate) controller.enqueue(encoder.encode(keepAliveComment));
      if (rules.keepAliveMs > 0) keepAlive(controller, rules.keepAliveMs);
    },
    async pull(controller) {
      try {
        const step = await source.next();
        if (closed) return;
        if (step.done === true) end(controller, step.value);
        else send(controller, source.textOf(step.value));
      } catch (error) {
        if (!closed) fail(controller, error);
      }
    },
    cancel() {
      rules.abandon();
      close("cancelled");
    },
  });
}
