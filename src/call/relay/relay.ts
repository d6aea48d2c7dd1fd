/** From an answer to HTTP. The only place that makes a `Response`. */

import { KeyError } from "../../auth/key-lookup.ts";
import { KeySpecError } from "../../auth/key-spec.ts";
import type { Sink } from "../../lib/streams/flow.ts";
import { snakeCase } from "../../lib/text/snake-case.ts";
import { withTimeout } from "../../lib/time/clock.ts";
import { IdleTimer } from "../../lib/time/idle-timer.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { Protocol } from "../../protocols/protocol.ts";
import { asUnavailable } from "../../store/require-storage.ts";
import type {
  Answer,
  EventSource,
  Events,
  LastEvents,
  RecordedEvents,
  StreamAnswer,
  StreamEnd,
  WholeAnswer,
} from "../../upstream/answer.ts";
import type { RequestContext } from "../context.ts";
import { withoutUpstream } from "../send/upstream-headers.ts";
import type { Services } from "../services.ts";

export function jsonAnswer(body: unknown, status = 200, headers?: Readonly<Record<string, string>>): WholeAnswer {
  return {
    kind: "whole",
    status,
    headers: headers === undefined ? jsonType : { ...headers, ...jsonType },
    body: JSON.stringify(body),
  };
}

export const jsonType = { "content-type": "application/json; charset=utf-8" };

export const bodyTextOf = ({ body }: Pick<WholeAnswer, "body">): string =>
  typeof body === "string" ? body : new TextDecoder().decode(body);

export function textAnswer(body: string, status = 200, contentType = "text/plain; charset=utf-8"): WholeAnswer {
  return { kind: "whole", status, headers: { "content-type": contentType }, body };
}

/** Checks whether a request has what a tag stands for. It may come back as a weak one, and with others: https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2 */
export const namesTag = (asked: Headers, tag: string): boolean => asked.get("if-none-match")?.includes(tag) === true;

/** Headers of whatever a browser shows. */
export const pageHeaders = { "x-content-type-options": "nosniff", "referrer-policy": "no-referrer" };

export function errorAnswer(protocol: Protocol, error: ApiError, requestId: string): WholeAnswer {
  return jsonAnswer(protocol.error(error, requestId), error.status, error.headers);
}

export function wholeOf(answered: Answer): WholeAnswer {
  if (answered.kind === "whole") return answered;
  throw new Error("a stream in place of a plain answer");
}

/** What the rooms below throw, as callers are told it. */
function known(error: unknown): unknown {
  if (error instanceof KeySpecError) return ApiError.invalidValue(snakeCase(error.part), error.message);
  if (error instanceof KeyError) return ApiError.invalidValue("id", error.message);
  return asUnavailable(error);
}

/** Anything thrown, as an error of our own. What is unknown says nothing to the client and everything to the log. */
export function asApiError(services: Services, context: RequestContext, thrown: unknown): ApiError {
  const error = known(thrown);
  if (error instanceof ApiError) {
    if (error.status >= 500) context.logFields["cause"] = error.cause ?? error.message;
    return error;
  }
  services.log.error("a request failed unexpectedly", { request_id: context.id, route: context.route, error });
  return ApiError.internal(error);
}

/** @param headers that it has beside the answer's */
export function respondWhole(context: RequestContext, answer: WholeAnswer, headers = context.headers): Response {
  context.finish(answer.status);
  // Nothing reads the request's headers after this: a copy of them costs as much as the rest.
  for (const name in answer.headers) headers[name] ??= answer.headers[name]!;
  return new Response(answer.body as string | Uint8Array<ArrayBuffer>, { status: answer.status, headers });
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
  /** The media type of what is no event stream, and has no ids. */
  readonly type?: string | undefined;
  /** There are ids only where the caller asks for them, as events of their own. */
  readonly readsLines?: boolean | undefined;
  /** The events of an answer that is no stream, when a 200 is already out. */
  readonly lateFault: (answer: WholeAnswer | ApiError) => readonly string[];
  /** Ends the call. */
  readonly onDisconnect: () => void;
};

/**
 * Answers with a stream, or with the error that came instead of one. The 200 is held back until the first fragment is
 * there, but no longer than the keep-alive time: a proxy in between would give up on silence.
 */
export async function respondStream(
  services: Services,
  context: RequestContext,
  answering: Promise<Answer>,
  rules: StreamRules,
): Promise<Response> {
  const early = await (rules.keepAliveMs > 0 ? withTimeout(services.clock, answering, rules.keepAliveMs) : answering);
  if (early?.kind === "whole") return respondWhole(context, early);
  const type = rules.type === undefined ? undefined : { "content-type": rules.type };
  const own = early === undefined ? withoutUpstream(context) : context.headers;
  const headers = { ...early?.headers, ...streamHeaders, ...type, ...own };
  const body = new StreamBody(services, context, rules);
  const response = new Response(new ReadableStream(body), { headers });
  if (early === undefined) body.answerLate(answering);
  else body.answer(early);
  return response;
}

const utf8 = new TextEncoder();
/**
 * Between an error's event and the end of its connection: what a client's runtime has not given to its program by then is lost with the
 * connection (`fetch` of Node.js and Bun alike). One that has read the event leaves by itself.
 */
const brokenOffMs = 250;
const nextTurn = () => new Promise<void>((resolve) => void setImmediate(resolve));

/** @param event of a kept stream, with its id in the first line */
const withoutId = (event: string) => event.slice(event.indexOf("\n") + 1);

/** Asks for ids in a format whose clients can't bear them by themselves. */
const eventIdsHeader = "x-troupe-event-ids";

/** The id in an event of its own, behind the one that it names: who has read it has read that. */
function withIdBehind(event: string): string {
  const end = event.indexOf("\n") + 1;
  return `${event.slice(end)}${event.slice(0, end)}\n`;
}

/**
 * The body of a streamed answer. What arrives goes out in the same turn. A client that does not keep up stops the source once
 * one piece waits for it, so that a slow reader slows the upstream and little is held between. A kept stream is asked for its
 * next events only when the client wants more.
 */
class StreamBody implements Sink<Events, LastEvents> {
  readonly #services: Services;
  readonly #context: RequestContext;
  readonly #rules: StreamRules;
  readonly #keepAlive: IdleTimer;
  #controller!: ReadableStreamDefaultController<Uint8Array>;
  #source: EventSource | undefined;
  #recorded: RecordedEvents | undefined;
  #isAsking = false;
  #isClosed = false;
  /** Settles the client's latest wish for more: until then it has no other. */
  #wish: (() => void) | undefined;
  /** Called by the next wish behind the last event. */
  #onWish: (() => void) | undefined;
  #hasLeft = false;

  constructor(services: Services, context: RequestContext, rules: StreamRules) {
    this.#services = services;
    this.#context = context;
    this.#rules = rules;
    this.#keepAlive = new IdleTimer(services.clock, rules.keepAliveMs, () => {
      // A comment is for a client that waits; one that does not read has enough.
      if (this.#wantsMore) this.#controller.enqueue(utf8.encode(this.#rules.keepAlive));
    });
  }

  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    this.#controller = controller;
    this.#services.httpMetrics.streams.series(this.#context.area).add();
    this.#keepAlive.start();
  }

  /** Gives an answer that came before its response. */
  answer({ events }: StreamAnswer): void {
    if (Symbol.asyncIterator in events) this.#recorded = events;
    else this.#source = events;
    if (this.#isClosed) this.#source?.cancel();
    else this.#source?.flow(this);
    void this.#ask();
  }

  /** Gives an answer, or what comes instead of it, that comes after its response has begun. */
  answerLate(answering: Promise<Answer>): void {
    this.#controller.enqueue(utf8.encode(this.#rules.keepAlive));
    answering.then(
      (answer) => (answer.kind === "stream" ? this.answer(answer) : this.#fail(answer)),
      (error) => this.fail(error),
    );
  }

  pull(): Promise<void> | undefined {
    if (this.#isClosed) {
      this.#onWish?.();
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wish = resolve;
    this.#source?.resume();
    void this.#ask();
    return promise;
  }

  cancel(): void {
    this.#hasLeft = true;
    this.#onWish?.();
    if (this.#isClosed) return;
    this.#close("cancelled");
    this.#source?.cancel();
    this.#rules.onDisconnect();
  }

  push(events: Events): void {
    if (this.#isClosed) return;
    this.#keepAlive.touch();
    this.#controller.enqueue(events instanceof Uint8Array ? events : utf8.encode(events.join("")));
    if (this.#wantsMore) return;
    this.#source?.pause();
    this.#wish?.();
    this.#wish = undefined;
  }

  end({ how, events }: LastEvents): void {
    if (this.#isClosed) return;
    if (how === "faulted" && this.#context.hasConnection) {
      void this.#breakOff(events.join(""));
      return;
    }
    if (events.length > 0) this.push(events);
    this.#close(how);
    this.#controller.close();
  }

  fail(error: unknown): void {
    if (this.#context.request.signal.aborted) this.end({ how: "cancelled", events: [] });
    else this.#fail(asApiError(this.#services, this.#context, error));
  }

  #fail(failure: WholeAnswer | ApiError): void {
    this.end({ how: "faulted", events: this.#rules.lateFault(failure) });
  }

  /**
   * Ends a broken stream by its connection, not by the last chunk of a whole body: some clients take an answer that ends so for a whole one,
   * whatever it says (sashirestela/simple-openai in chat, Rust's `llm` in Responses). Waits until the client has taken all that was said.
   * @param last ends in an empty line, or is empty
   */
  async #breakOff(last: string): Promise<void> {
    const end = last === "" ? "\n\n" : last.slice(-1);
    if (last !== "") this.#controller.enqueue(utf8.encode(last.slice(0, -1)));
    this.#close("faulted");
    // What is given goes out at the end of the turn; then a piece that stays here tells that the client does not read.
    await nextTurn();
    try {
      this.#controller.enqueue(utf8.encode(end));
      if (!this.#wantsMore) await this.#wished();
    } catch {
      // The client has left.
      return;
    }
    this.#services.clock.setTimer(brokenOffMs, () => void this.#endConnection());
  }

  async #endConnection(): Promise<void> {
    if (!this.#hasLeft && !(await this.#context.endConnection())) this.#controller.error();
  }

  /** Waits until the client wants more. */
  #wished(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#wish?.();
    this.#onWish = resolve;
    return promise;
  }

  get #wantsMore(): boolean {
    return (this.#controller.desiredSize ?? 0) > 0;
  }

  async #ask(): Promise<void> {
    if (this.#recorded === undefined || this.#isAsking) return;
    this.#isAsking = true;
    try {
      while (this.#wish !== undefined && !this.#isClosed) {
        const { done, value } = await this.#recorded.next();
        if (done === true) this.end({ how: value, events: [] });
        else this.push(this.#placed(value));
      }
    } catch (error) {
      this.fail(error);
    }
    this.#isAsking = false;
  }

  get #wantsIds(): boolean {
    const { headers } = this.#context.request;
    return headers.has("last-event-id") || headers.get(eventIdsHeader) === "true";
  }

  /** Kept events with their ids where this format's clients take them. */
  #placed(events: readonly string[]): readonly string[] {
    const { type, readsLines } = this.#rules;
    if (type === undefined && readsLines !== true) return events;
    return events.map(type === undefined && this.#wantsIds ? withIdBehind : withoutId);
  }

  #close(end: StreamEnd): void {
    this.#isClosed = true;
    this.#keepAlive.stop();
    this.#services.httpMetrics.streams.series(this.#context.area).add(-1);
    this.#context.finish(200, end);
  }
}
