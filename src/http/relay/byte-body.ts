/** Answers with an upstream's bytes as they come. */

import type { RequestContext } from "../../call/context.ts";
import type { Services } from "../../call/services.ts";
import type { JsonProof } from "../../lib/json/proof.ts";
import type { Sink } from "../../lib/streams/flow.ts";
import { ApiError } from "../../protocols/errors.ts";
import { UsageFinder } from "../../upstream/answer-usage.ts";
import type { UpstreamAnswer } from "../../upstream/client.ts";
import type { CallObserver } from "../../upstream/observer.ts";

/** The beginning of an answer that was read ahead. */
export type Ahead = {
  readonly parts: readonly Buffer[];
  /** True where it is all of it, which came to a proven end. */
  readonly isWhole: boolean;
  /** Lets what follows flow. */
  readonly rest: (sink: Sink<Buffer>) => void;
};

/** Reads an answer until it ends, or is longer than so many bytes. @throws what it fails with */
export function readAhead(answer: UpstreamAnswer, max: number): Promise<Ahead> {
  const { promise, resolve, reject } = Promise.withResolvers<Ahead>();
  const parts: Buffer[] = [];
  let size = 0;
  let sink: Sink<Buffer> | undefined;
  const rest = (next: Sink<Buffer>) => {
    sink = next;
    answer.resume();
  };
  answer.flow({
    push(bytes) {
      if (sink !== undefined) {
        sink.push(bytes);
        return;
      }
      parts.push(bytes);
      size += bytes.length;
      if (size <= max) return;
      answer.pause();
      resolve({ parts, isWhole: false, rest });
    },
    end() {
      if (sink !== undefined) sink.end();
      else if (answer.isProven) resolve({ parts, isWhole: true, rest });
      else reject(brokenOff(answer));
    },
    fail(error) {
      if (sink !== undefined) sink.fail(error);
      else reject(error);
    },
  });
  return promise;
}

const brokenOff = ({ name }: UpstreamAnswer) =>
  ApiError.upstreamUnreachable(`${name} broke the connection, or ended it without a word.`);

/** @param name the upstream's */
export const notWhole = (name: string) =>
  ApiError.unavailable("upstream_invalid_response", `${name} sent JSON that is cut or empty, or none.`);

/** Finds the counts of an answer, and its texts where these can stand for them. */
export function finderFor({ headers }: UpstreamAnswer, observer: CallObserver): UsageFinder {
  const onText = observer.wantsText ? (text: string) => observer.passedText(text) : undefined;
  return new UsageFinder(headers.get("content-type"), onText);
}

type Passing = { readonly services: Services; readonly context: RequestContext; readonly observer: CallObserver };

/** The evidence that an answer is whole. */
type Proven = { readonly ahead: Ahead; readonly proof: JsonProof };

/**
 * Answers with the bytes as they come, whatever the status. A slow reader slows the upstream; one that leaves ends it.
 * @param proven where the answer's beginning was read ahead: what is not whole at its end breaks the connection
 */
export function respondBytes(
  { services, context, observer }: Passing,
  answer: UpstreamAnswer,
  headers: Record<string, string>,
  proven?: Proven,
): Response {
  const isBodiless = answer.status === 204 || answer.status === 304 || context.request.method === "HEAD";
  if (isBodiless) {
    answer.drain();
    void observer.completed({ usage: undefined, upstreamResponseId: undefined });
    context.finish(answer.status);
    return new Response(null, { status: answer.status, headers: { ...headers, ...context.headers } });
  }
  context.logFields["stream"] = true;
  const arrived = answer.arrived();
  if (arrived !== undefined) return respondArrived(context, observer, answer, headers, arrived);
  const body = new ByteBody(services, context, observer, answer, proven);
  return new Response(new ReadableStream(body), {
    status: answer.status,
    headers: { ...headers, ...context.headers },
  });
}

/** Answers with a body that came with its head: one piece, without the machinery of a stream. */
function respondArrived(
  context: RequestContext,
  observer: CallObserver,
  answer: UpstreamAnswer,
  headers: Record<string, string>,
  body: Buffer,
): Response {
  observer.firstFragment();
  const usage = finderFor(answer, observer);
  usage.push(body);
  if (answer.status < 400)
    void observer.completed({ usage: usage.found(), model: usage.model, upstreamResponseId: undefined });
  context.finish(answer.status, "finished");
  return new Response(body as Uint8Array<ArrayBuffer>, {
    status: answer.status,
    headers: Object.assign(headers, context.headers),
  });
}

/** The body of an answer that is passed on. */
class ByteBody implements Sink<Buffer> {
  readonly #services: Services;
  readonly #context: RequestContext;
  readonly #observer: CallObserver;
  readonly #source: UpstreamAnswer;
  readonly #status: number;
  readonly #usage: UsageFinder;
  readonly #proven: Proven | undefined;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #isBegun = false;
  #isClosed = false;
  /** Settles the client's latest wish for more. */
  #wish: (() => void) | undefined;

  constructor(
    services: Services,
    context: RequestContext,
    observer: CallObserver,
    answer: UpstreamAnswer,
    proven: Proven | undefined,
  ) {
    this.#services = services;
    this.#context = context;
    this.#observer = observer;
    this.#source = answer;
    this.#status = answer.status;
    this.#usage = finderFor(answer, observer);
    this.#proven = proven;
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.#services.httpMetrics.streams.series(this.#context.area).add();
    if (this.#proven === undefined) this.#source.flow(this);
    else {
      for (const part of this.#proven.ahead.parts) this.push(part);
      this.#proven.ahead.rest(this);
    }
  }

  pull(): Promise<void> | undefined {
    if (this.#isClosed) return undefined;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wish = resolve;
    this.#source.resume();
    return promise;
  }

  cancel(): void {
    if (this.#isClosed) return;
    this.#observer.abandoned(this.#usage.found());
    this.#source.cancel();
    this.#close("cancelled");
  }

  push(bytes: Buffer): void {
    if (this.#isClosed) return;
    if (!this.#isBegun) this.#observer.firstFragment();
    this.#isBegun = true;
    this.#usage.push(bytes);
    this.#proven?.proof.push(bytes);
    this.#controller.enqueue(bytes);
    if ((this.#controller.desiredSize ?? 0) > 0) return;
    this.#source.pause();
    this.#grant();
  }

  end(): void {
    if (this.#isClosed) return;
    if (!this.#source.isProven) {
      this.fail(brokenOff(this.#source));
      return;
    }
    if (this.#proven?.proof.isWhole === false) {
      this.fail(notWhole(this.#source.name));
      return;
    }
    if (this.#status < 400) {
      const [usage, model] = [this.#usage.found(), this.#usage.model];
      void this.#observer.completed({ usage, model, upstreamResponseId: undefined });
    }
    this.#close("finished");
    this.#controller.close();
  }

  /** Nothing can be said behind the bytes that went out, but that they are not all: the connection breaks. */
  fail(error: unknown): void {
    if (this.#isClosed) return;
    const isGone = this.#context.request.signal.aborted;
    if (isGone) this.#observer.abandoned(this.#usage.found());
    else this.#observer.faulted(error instanceof ApiError ? error : ApiError.internal(error), this.#usage.found());
    this.#close(isGone ? "cancelled" : "faulted");
    this.#controller.error(error);
  }

  #close(end: "finished" | "faulted" | "cancelled"): void {
    this.#isClosed = true;
    this.#grant();
    this.#services.httpMetrics.streams.series(this.#context.area).add(-1);
    this.#context.finish(this.#status, end);
  }

  #grant(): void {
    this.#wish?.();
    this.#wish = undefined;
  }
}
