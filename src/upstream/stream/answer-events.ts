/** A stream of events, whoever writes them: buffered until it is read, held back until it opens, ended once. */
import { Buffered, type Flow, type Sink } from "../../lib/streams/flow.ts";
import { laterUsage } from "../../protocols/chat/later-usage.ts";
import { billed, type Usage } from "../../protocols/chat/schema.ts";
import { ApiError, UpstreamFault } from "../../protocols/errors.ts";
import type { EventSource, Events, LastEvents, StreamEnd } from "../answer.ts";
import { ClientDisconnected } from "../client.ts";
import type { CallObserver } from "../observer.ts";

/** True if an answer whose choices all ended survives this error: a broken connection is ignored, an invalid event is not. */
export function mayBreakOff(error: unknown): boolean {
  return error instanceof ApiError && error.code !== "upstream_invalid_response";
}

export abstract class AnswerEvents implements EventSource {
  protected readonly observer: CallObserver;
  /** No more is accepted: the end was sent, or waits for the observer to store the answer. */
  protected isOver = false;
  readonly #source: Flow;
  /** Buffers one piece until a reader is attached. */
  readonly #events: Buffered<Events, LastEvents>;
  #opening: PromiseWithResolvers<void> | undefined;

  constructor(source: Flow, observer: CallObserver) {
    this.observer = observer;
    this.#source = source;
    this.#events = new Buffered(source, 1);
  }

  /** Waits for the first events, which `flow` then delivers. @throws UpstreamFault, ApiError, ClientDisconnected */
  open(): Promise<void> {
    const opening = Promise.withResolvers<void>();
    this.#opening = opening;
    this.begin();
    return opening.promise;
  }

  flow(sink: Sink<Events, LastEvents>): void {
    this.#events.flow(sink);
  }

  pause(): void {
    this.#events.pause();
  }

  resume(): void {
    this.#events.resume();
  }

  cancel(): void {
    if (!this.isOver) this.observer.abandoned(this.counted);
    this.isOver = true;
    this.#events.cancel();
  }

  /** The upstream's counts so far. */
  protected abstract get counted(): Usage | undefined;

  /** The model that answers, where it is known by now that another than the one that was asked does. */
  get servedBy(): string | undefined {
    return this.counted?.[billed]?.servedBy;
  }

  /** Lets the source flow. */
  protected abstract begin(): void;

  /** Adds the events that report a fault to the client, the format's terminal event last. */
  protected abstract report(fault: UpstreamFault | ApiError, events: string[]): void;

  protected give(events: Events): void {
    this.#events.push(events);
    this.#opened();
  }

  /** Ends a complete answer, once it is stored. @param last adds the last events to those that were not given yet; what it throws is a fault */
  protected complete(
    answer: { usage: Usage | undefined; upstreamResponseId: string | undefined; passed?: string },
    events: string[],
    last: (events: string[]) => void,
  ): void {
    this.isOver = true;
    void this.observer
      .completed(answer)
      .then(() => {
        last(events);
        this.#end("finished", events);
      })
      .catch((error) => this.break(error, events));
  }

  /** Before the first events the error rejects `open`; after them it becomes an error event. */
  protected break(error: unknown, events: string[]): void {
    this.#source.cancel();
    if (this.#opening !== undefined && events.length === 0) {
      this.isOver = true;
      this.#opening.reject(error);
      return;
    }
    if (error instanceof ClientDisconnected) {
      this.observer.abandoned(this.counted);
      this.#end("cancelled", events);
      return;
    }
    const fault = error instanceof UpstreamFault || error instanceof ApiError ? error : ApiError.internal(error);
    const counted = fault instanceof UpstreamFault ? fault.counted : undefined;
    this.observer.faulted(fault, counted === undefined ? this.counted : laterUsage(this.counted, counted));
    this.report(fault, events);
    this.#end("faulted", events);
  }

  #end(how: StreamEnd, events: readonly string[]): void {
    this.isOver = true;
    this.#events.end({ how, events });
    this.#opened();
  }

  #opened(): void {
    this.#opening?.resolve();
    this.#opening = undefined;
  }
}
