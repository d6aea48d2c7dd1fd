/** Reads idempotency records. Damage in a finished call's record discards it, which releases the id. */

import type { Logger } from "../lib/process/log.ts";
import type { Clock } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import { located, rowWords, StorageError } from "../store/contract/storage-error.ts";
import type { CallId, IdempotencyRecord, RunRepository } from "../store/contract/store.ts";
import { damagedContent, unpackAside } from "../store/packing.ts";
import { asUnavailable, needsStorage } from "../store/require-storage.ts";
import type { WholeAnswer } from "../upstream/answer.ts";
import { takeFailure } from "./failure-record.ts";
import { splitEvents, storedEvents } from "./recorded-events.ts";

type StoredRecordsOptions = {
  readonly rows: RunRepository;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  /** Marks the running calls of dead processes as interrupted. @throws StorageError */
  readonly interruptAbandoned: () => Promise<void>;
  /** Removes a record. Never rejects. */
  readonly discard: (call: IdempotencyRecord) => Promise<void>;
};

/** Interval at which a reader polls the store for events of another process. */
const pollMs = 50;

export class StoredRecords {
  readonly #options: StoredRecordsOptions;
  readonly #rows: RunRepository;

  constructor(options: StoredRecordsOptions) {
    this.#options = options;
    this.#rows = options.rows;
  }

  /** Gets the record unless its call was interrupted or released. @throws ApiError storage_unavailable */
  find(id: CallId): Promise<IdempotencyRecord | undefined> {
    return needsStorage(async () => {
      const call = await this.#rows.get(id);
      if (call?.heldBy === "gone") await this.#options.interruptAbandoned();
      return call?.heldBy === "gone" || call?.state === "interrupted" ? undefined : call;
    });
  }

  /** Asks the lease owner to write events as they come. @throws ApiError storage_unavailable */
  watch(id: CallId): Promise<void> {
    return needsStorage(() => this.#rows.watch(id));
  }

  /** Waits for the next poll. */
  pause(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const end = () => {
        cancel();
        signal.removeEventListener("abort", end);
        resolve();
      };
      const cancel = this.#options.clock.setTimer(pollMs, end);
      signal.addEventListener("abort", end);
    });
  }

  /** @throws ApiError storage_unavailable when they are not valid headers */
  headersOf(call: IdempotencyRecord, headers = call.headers): Promise<Record<string, string>> {
    return this.#read(call, () => {
      try {
        const found = JSON.parse(headers ?? "") as Record<string, string>;
        new Headers(found);
        return found;
      } catch (error) {
        throw damagedContent(error);
      }
    });
  }

  /** The answer of a finished call that is no stream. @throws ApiError storage_unavailable, and what the call threw */
  async wholeAnswer(call: IdempotencyRecord): Promise<WholeAnswer> {
    const headers = await this.headersOf(call);
    const failure = takeFailure(headers);
    if (failure?.thrown !== undefined) throw ApiError.fromRecord(failure.thrown);
    return this.#read(call, async () => {
      const body = await this.#wholeBody(call);
      const { status } = call;
      // Only 2xx answers are stored, beside failures.
      if (status === null || status < 200 || status > (failure === undefined ? 299 : 599)) throw damagedContent();
      return { kind: "whole", status, headers, body, ...failure?.answered };
    });
  }

  /** The stored events from that number on; of a finished call at least one. @throws ApiError storage_unavailable */
  eventsOf(call: IdempotencyRecord, number: number): Promise<string[]> {
    return this.#read(call, async () => {
      if (call.state === "finished" && number >= call.bodyFrom!) {
        return (await this.#lastEvents(call)).slice(number - call.bodyFrom!);
      }
      const events = await storedEvents(this.#rows, call, number);
      if (events.length === 0 && call.state === "finished") throw damagedContent();
      return events;
    });
  }

  /** Reads a part of a record. @throws ApiError storage_unavailable when the store fails or the record is damaged */
  async #read<T>(call: IdempotencyRecord, read: () => T | Promise<T>): Promise<T> {
    try {
      return await read();
    } catch (cause) {
      const error = located(cause, rowWords("kept_calls", [call.call]));
      if (!(error instanceof StorageError && error.kind === "corrupt") || call.state !== "finished") {
        throw asUnavailable(error);
      }
      const { log, discard } = this.#options;
      log?.error("a stored answer is damaged; its id is released for a new call", { service_request: call.run, error });
      await discard(call);
      const message =
        "The stored answer under this service-request-id was damaged and has been removed. Retry to call again.";
      throw ApiError.unavailable("storage_unavailable", message, { cause: error });
    }
  }

  /** The last events of a finished call, which are in its own row. @throws StorageError */
  async #lastEvents(call: IdempotencyRecord): Promise<string[]> {
    const events = await splitEvents(await this.#bodyOf(call));
    if (call.bodyFrom! + events.length !== call.events) throw damagedContent();
    return events;
  }

  /** The body of a whole answer, joined from its pieces. @throws StorageError */
  async #wholeBody(call: IdempotencyRecord): Promise<Uint8Array> {
    const pieces: Uint8Array[] = [];
    while (pieces.length < (call.bodyFrom ?? 0)) {
      const piece = await this.#rows.eventsAt(call, pieces.length);
      if (piece?.firstId !== pieces.length) throw damagedContent();
      pieces.push(piece.data);
      await new Promise((resolve) => setImmediate(resolve));
    }
    const body = await this.#bodyOf(call);
    return unpackAside(pieces.length === 0 ? body : Buffer.concat([...pieces, body]));
  }

  /** @throws StorageError */
  async #bodyOf(call: IdempotencyRecord): Promise<Uint8Array> {
    const body = await this.#rows.body(call);
    if (body === undefined) throw damagedContent();
    return body;
  }
}
