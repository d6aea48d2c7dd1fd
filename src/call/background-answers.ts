/**
 * Answers that are made in the background: nobody waits for them, and their events are kept so that they can be read while they
 * are made, in any process. A stored turn records what became of each. It ends once, whoever ends it; a turn that still runs while
 * no process makes its answer was left behind by one that died.
 */
import type { Conversations, KeyHolder, ShownAnswer } from "../conversations/conversations.ts";
import type { CallName } from "../idempotency/call-name.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import { separateEvents } from "../idempotency/recorded-events.ts";
import { isObject, type JsonObject, textOf } from "../lib/json/json.ts";
import type { Logger } from "../lib/process/log.ts";
import { IterableSource, type Sink } from "../lib/streams/flow.ts";
import type { Clock } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import type { ErrorFields } from "../protocols/protocol.ts";
import type { Answer, EventSource, Events, LastEvents, Producer, RecordedEvents } from "../upstream/answer.ts";

/** Interval at which the answers that other processes ended are looked for. */
const lookMs = 500;

/** The parts of an answer in the background. */
export type BackgroundCall = {
  readonly id: string;
  readonly model: string;
  /** Stores the turn. @throws ApiError storage_unavailable */
  begin(): Promise<void>;
  /** Calls the upstream. */
  readonly call: Producer;
  /** The headers that name who answers, once that is known. */
  headers(): Readonly<Record<string, string>>;
  /** The answer, failed. */
  failed(error: ErrorFields): JsonObject;
  /** The events of an answer that failed before it began. */
  failedEvents(error: ErrorFields): string[];
  /** The event with the answer's own id, where an upstream's stands in it. */
  renamed(event: string): string;
  /** The error in the last events of a stream that broke. */
  errorIn(events: readonly string[]): ErrorFields;
};

export class BackgroundAnswers {
  readonly #idempotency: Idempotency;
  readonly #conversations: Conversations;
  readonly #clock: Clock;
  readonly #log: Logger;
  /** Those that this process makes, by id. */
  readonly #running = new Map<string, CallName>();
  readonly #writes = new Set<Promise<unknown>>();
  #cancelLook: (() => void) | undefined;
  #closed = false;

  constructor(idempotency: Idempotency, conversations: Conversations, clock: Clock, log: Logger) {
    this.#idempotency = idempotency;
    this.#conversations = conversations;
    this.#clock = clock;
    this.#log = log;
  }

  /** The number of answers that this process makes. */
  get size(): number {
    return this.#running.size;
  }

  /** @throws ApiError rate_limit_exceeded where the key has as many under way here as it may */
  #checkRoom({ keyId }: KeyHolder, limit: number): void {
    let own = 0;
    for (const { scope } of this.#running.values()) if (scope.startsWith(`${keyId} `)) own += 1;
    if (own >= limit) throw ApiError.backgroundFull(limit);
  }

  /** Resolves once the turn is stored and the call is on its way. @param limit how many the key may have under way @throws ApiError storage_unavailable, overloaded, draining, rate_limit_exceeded */
  async begin(keyHolder: KeyHolder, background: BackgroundCall, limit: number): Promise<void> {
    const { id } = background;
    this.#checkRoom(keyHolder, limit);
    const name = nameOf(keyHolder, id);
    const stored = Promise.withResolvers<void>();
    const produce: Producer = async (until) => {
      try {
        await background.begin();
        stored.resolve();
      } catch (error) {
        stored.reject(error);
        throw error;
      }
      return this.#made(background, until);
    };
    this.#running.set(id, name);
    try {
      await this.#idempotency.begin({ ...name, fingerprint: id }, produce, (how) => {
        this.#running.delete(id);
        if (how === "released" || how === "lost") void this.#fail(background, lostError(this.#closed));
      });
    } catch (error) {
      this.#running.delete(id);
      throw error;
    }
    await stored.promise;
    this.#lookLater();
  }

  /** Follows the events of an answer, from its first one. @returns undefined where they are not kept (any more) */
  events(keyHolder: KeyHolder, id: string, signal: AbortSignal): Promise<Answer<RecordedEvents> | undefined> {
    return this.#idempotency.join(nameOf(keyHolder, id), signal);
  }

  /** The stored answer; one that a dead process left behind becomes a failed one. @throws ApiError not_found, storage_unavailable */
  async get(keyHolder: KeyHolder, id: string, format: string): Promise<ShownAnswer> {
    const found = await this.#conversations.getShown(keyHolder, id, format);
    if (found.state !== "running" || (await this.#idempotency.runs(nameOf(keyHolder, id)))) return found;
    // It may have ended between the two looks.
    const again = await this.#conversations.getShown(keyHolder, id, format);
    if (again.state !== "running") return again;
    const answer = { ...again.answer, status: "failed", error: codedError(lostError(true)) };
    await this.#conversations.settle({ id, state: "failed", answer }, String(answer["model" as keyof typeof answer]));
    return this.#conversations.getShown(keyHolder, id, format);
  }

  /** @returns the answer as it then stands: cancelled where it still ran. @throws ApiError not_found, storage_unavailable */
  async cancel(keyHolder: KeyHolder, id: string, format: string): Promise<ShownAnswer> {
    const found = await this.get(keyHolder, id, format);
    if (found.state !== "running") return found;
    const answer: JsonObject = { ...found.answer, status: "cancelled" };
    const isCancelled = await this.#conversations.settle({ id, state: "cancelled", answer }, String(answer["model"]));
    this.stop(keyHolder, id);
    return isCancelled ? { id, state: "cancelled", answer } : this.#conversations.getShown(keyHolder, id, format);
  }

  /** Ends the upstream call of an answer that was cancelled or deleted, where this process makes it; others see it themselves. */
  stop(keyHolder: KeyHolder, id: string): void {
    this.#idempotency.cancel(nameOf(keyHolder, id));
  }

  /** Called before the idempotency records close: what they cancel then fails for that reason. */
  closing(): void {
    this.#closed = true;
  }

  /** Waits for what is being written. */
  async close(): Promise<void> {
    this.#cancelLook?.();
    await Promise.all(this.#writes);
  }

  async #made(background: BackgroundCall, until: AbortSignal): Promise<Answer<EventSource>> {
    let error: ErrorFields;
    try {
      const answer = await background.call(until);
      if (answer.kind === "stream") {
        const headers = background.headers();
        return { kind: "stream", headers, events: this.#settled(background, answer.events) };
      }
      error = answer.error ?? { message: "The model could not be called.", code: "server_error" };
    } catch (thrown) {
      if (until.aborted) throw thrown;
      if (!(thrown instanceof ApiError)) this.#log.error("an answer in the background failed", { error: thrown });
      error = (thrown instanceof ApiError ? thrown : ApiError.internal(thrown)).fields();
    }
    await this.#fail(background, error);
    const events = new IterableSource<Events, LastEvents>([], {
      how: "finished",
      events: background.failedEvents(error),
    });
    return { kind: "stream", headers: background.headers(), events };
  }

  /** The same events. A stream that breaks is a failed answer, whose events are kept like another's. */
  #settled(background: BackgroundCall, source: EventSource): EventSource {
    const renamed = (events: Events) => separateEvents(events).map(background.renamed);
    const failing = async (sink: Sink<Events, LastEvents>, events: readonly string[]) => {
      await this.#fail(background, background.errorIn(events));
      sink.end({ how: "finished", events });
    };
    return {
      flow: (sink) =>
        source.flow({
          push: (events) => sink.push(renamed(events)),
          end: ({ how, events }) => {
            if (how === "faulted") void failing(sink, renamed(events));
            else sink.end({ how, events: renamed(events) });
          },
          fail: (error) => sink.fail(error),
        }),
      pause: () => source.pause(),
      resume: () => source.resume(),
      cancel: () => source.cancel(),
    };
  }

  /** Never rejects: what could not be written is found to have failed when it is next asked for. */
  #fail({ id, model, failed }: BackgroundCall, error: ErrorFields): Promise<unknown> {
    const writing = this.#conversations
      .settle({ id, state: "failed", answer: failed(codedError(error)) }, model)
      .catch((cause) => this.#log.error("a failed response could not be stored", { error: cause }))
      .finally(() => this.#writes.delete(writing));
    this.#writes.add(writing);
    return writing;
  }

  #lookLater(): void {
    if (this.#running.size === 0 || this.#closed) return;
    this.#cancelLook ??= this.#clock.setTimer(lookMs, () => void this.#look());
  }

  async #look(): Promise<void> {
    try {
      const ids = [...this.#running.keys()];
      for (const id of ids.length === 0 ? [] : await this.#conversations.stopped(ids)) {
        const name = this.#running.get(id);
        if (name !== undefined) this.#idempotency.cancel(name);
      }
    } catch (error) {
      this.#log.warn("cancelled responses could not be looked for", { error });
    }
    this.#cancelLook = undefined;
    this.#lookLater();
  }
}

/** No client's id has a space. */
const nameOf = ({ keyId, surface }: KeyHolder, id: string): CallName => ({
  scope: `${keyId} ${surface}`,
  requestId: `background ${id}`,
});

const lostError = (isStopped: boolean): ErrorFields => ({
  code: "server_error",
  message: isStopped
    ? "The server stopped before the response was complete. Create it again."
    : "The response could not be completed or kept. Create it again.",
});

/** @returns code and message, as a response has them */
function codedError(error: ErrorFields): { code: string; message: string } {
  const { code, message } = isObject(error) ? error : {};
  return { code: typeof code === "string" && code !== "" ? code : "server_error", message: textOf(message) ?? "" };
}
