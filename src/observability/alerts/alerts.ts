/**
 * Alerts: each cause is reported once when it begins and once when it ends, by signed webhooks. Causes and messages are in the store, so
 * that several nodes report a cause once, and what was not delivered when a process ended is delivered later. Nothing waits for it.
 */
import { createHash } from "node:crypto";
import type { AlertsConfig } from "../../config/config.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { SampledTable } from "../../lib/process/metrics.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { type AlertRepository, maxAlertMessages, type QueuedAlert } from "../../store/contract/store.ts";
import { AlertHistory, type SentAlert } from "./history.ts";
import { sendWebhook } from "./webhook.ts";

type AlertTools = {
  readonly store: AlertRepository;
  readonly clock: Clock;
  readonly log: Logger;
  /** Read each time, as a reload may change them; undefined: nothing is sent. */
  readonly settings: () => AlertsConfig | undefined;
};

export type AlertView = {
  /** Origins of the configured addresses, which may hold secrets. */
  readonly targets: readonly string[];
  readonly counts: {
    readonly delivered: number;
    readonly failed: number;
    readonly lost: number;
    readonly waiting: number;
  };
  /** With the time at which each was reported. */
  readonly causes: ReadonlyMap<string, number>;
  /** From when on messages are remembered that were delivered or given up. */
  readonly since: number;
  /** The newest first. */
  readonly messages: readonly SentAlert[];
};

/** The message about a cause, by type and content. */
export type Notice = { readonly type: string; readonly data: Readonly<Record<string, unknown>> };

/** After each try that failed; after the last the message is given up. */
const retrySeconds = [5, 30, 120, 600, 1_800, 3_600, 7_200, 18_000, 36_000, 50_400];
/** A message belongs to who claimed it for so long. */
const claimMs = 180_000;
const batchSize = 10;
/** Messages that wait in memory while the store is away. */
const maxHeld = 100;
/** Messages of several nodes about one cause have one id in so long, where no store can say who was first. */
const sameCauseMs = 600_000;

export class Alerts {
  readonly #tools: AlertTools;
  /** Causes that the store could not take. */
  readonly #unstored = new Map<string, number>();
  #held: Held[] = [];
  #delivering: Promise<void> | undefined;
  #waiting = 0;
  readonly #history: AlertHistory;

  /** Since the start. */
  readonly counts = { delivered: 0, failed: 0, lost: 0 };

  constructor(tools: AlertTools) {
    this.#tools = tools;
    this.#history = new AlertHistory(tools.clock.now());
  }

  get isOn(): boolean {
    return this.#tools.settings() !== undefined;
  }

  /** Messages that are not delivered, as of the last look. */
  get waiting(): number {
    return this.#waiting + this.#held.length;
  }

  /** What began and has not ended, and the latest messages: those that wait for delivery anywhere, and those that this process sent. @throws StorageError */
  async view(): Promise<AlertView> {
    const { store, settings } = this.#tools;
    const { urls = [] } = settings() ?? {};
    const origins = new Map(urls.map((url) => [nameOf(url), new URL(url).origin]));
    const [causes, queued] = await Promise.all([this.causes(), store.queued(maxAlertMessages)]);
    const waiting = [...queued, ...this.#held];
    return {
      targets: [...new Set(origins.values())],
      counts: { ...this.counts, waiting: waiting.length },
      causes,
      since: this.#history.since,
      messages: this.#history.with(waiting, (destination) => origins.get(destination)),
    };
  }

  /** Reports that something began; nothing where it is reported already. Never rejects. */
  async begin(cause: string, notice: Notice): Promise<void> {
    const message = this.#message(notice);
    try {
      if (this.#unstored.has(cause)) return;
      await this.#tools.store.begin(cause, message, this.#destinations());
    } catch {
      this.#unstored.set(cause, message.at);
      this.#hold(cause, message);
    }
  }

  /** Reports that it is over; nothing where its beginning was not reported. Never rejects. */
  async end(cause: string, notice: Notice): Promise<void> {
    const message = this.#message(notice);
    if (this.#unstored.delete(cause)) {
      this.#hold(`${cause} ended`, message);
      return;
    }
    await this.#tools.store.end(cause, message, this.#destinations()).catch(() => {});
  }

  /** The causes that were reported and have not ended. @throws StorageError */
  async causes(): Promise<ReadonlyMap<string, number>> {
    const stored = await this.#tools.store.causes();
    return new Map([...stored.map(({ cause, since }) => [cause, since] as const), ...this.#unstored]);
  }

  /** Delivers what is due. Never rejects; one at a time. */
  deliver(): Promise<void> {
    this.#delivering ??= this.#deliverDue().finally(() => {
      this.#delivering = undefined;
    });
    return this.#delivering;
  }

  async #deliverDue(): Promise<void> {
    const { store, clock } = this.#tools;
    const now = clock.now();
    const due = this.#held.filter((message) => message.due <= now);
    this.#held = this.#held.filter((message) => message.due > now);
    await this.#sendAll(due);
    try {
      for (;;) {
        const claimed = await store.claim(clock.now(), clock.now() + claimMs, batchSize);
        await this.#sendAll(claimed);
        if (claimed.length < batchSize) break;
      }
      this.#waiting = await store.waiting();
    } catch {
      // The store logs that it is away.
    }
  }

  /** Sends to each destination in the order of the messages; to all destinations at once. */
  async #sendAll(messages: readonly (QueuedAlert & { readonly isHeld?: boolean })[]): Promise<void> {
    const ordered = [...messages].sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
    const places = [...new Set(ordered.map(({ destination }) => destination))];
    await Promise.all(
      places.map(async (place) => {
        for (const message of ordered) if (message.destination === place) await this.#send(message);
      }),
    );
  }

  async #send(message: QueuedAlert & { readonly isHeld?: boolean }): Promise<void> {
    const { store, clock, log, settings } = this.#tools;
    const { secret = "", urls = [] } = settings() ?? {};
    const url = urls.find((one) => nameOf(one) === message.destination);
    // Dropped where the configuration names another place now.
    const failure = url === undefined ? undefined : await sendWebhook(url, message, secret, clock.now());
    if (url !== undefined && failure === undefined) this.counts.delivered += 1;
    if (failure !== undefined) this.counts.failed += 1;
    const seconds = failure === undefined ? undefined : retrySeconds[message.attempts - 1];
    if (failure !== undefined) {
      const fields = { id: message.id, reason: failure, attempts: message.attempts };
      if (seconds === undefined) log.error("an alert could not be delivered, and is given up", fields);
      else log.warn("an alert could not be delivered yet", { ...fields, again_in_seconds: seconds });
    }
    if (failure !== undefined && seconds === undefined) this.counts.lost += 1;
    const outcome = url === undefined ? "dropped" : failure === undefined ? "delivered" : "given_up";
    const state = seconds === undefined ? outcome : "waiting";
    this.#history.note(message, { state, at: clock.now(), ...(failure !== undefined && { failure }) });
    const again = seconds === undefined ? undefined : clock.now() + seconds * 1000;
    if (message.isHeld === true) {
      if (again !== undefined) this.#held.push({ ...message, due: again, attempts: message.attempts + 1 } as Held);
      return;
    }
    await (again === undefined ? store.remove(message) : store.postpone(message, again));
  }

  /** While the store is away: in memory, under an id that other nodes give it too. */
  #hold(cause: string, { body, at }: { readonly body: string; readonly at: number }): void {
    const id = `alert_${createHash("sha256")
      .update(`${cause} ${Math.floor(at / sameCauseMs)}`)
      .digest("hex")
      .slice(0, 32)}`;
    for (const destination of this.#destinations()) {
      if (this.#held.length >= maxHeld) this.counts.lost += 1;
      else this.#held.push({ id, body, at, destination, attempts: 1, due: at, isHeld: true });
    }
  }

  #message({ type, data }: Notice) {
    const { clock } = this.#tools;
    const at = clock.now();
    const body = JSON.stringify({ type, timestamp: new Date(at).toISOString(), data });
    return { id: `alert_${clock.newId()}`, body, at };
  }

  #destinations(): string[] {
    return (this.#tools.settings()?.urls ?? []).map(nameOf);
  }
}

type Held = QueuedAlert & { readonly due: number; readonly isHeld: true };

/** Addresses may hold secrets, and are not stored. */
const nameOf = (url: string): string => createHash("sha256").update(url).digest("hex").slice(0, 16);

export const alertMetrics: SampledTable<Alerts> = {
  troupe_alerts_delivered_total: { help: "Alerts that were delivered.", read: ({ counts }) => counts.delivered },
  troupe_alerts_failed_total: { help: "Tries to deliver an alert that failed.", read: ({ counts }) => counts.failed },
  troupe_alerts_lost_total: { help: "Alerts that were given up.", read: ({ counts }) => counts.lost },
  troupe_alerts_waiting: {
    help: "Alerts that are not delivered yet.",
    aggregate: "max",
    read: ({ waiting }) => waiting,
  },
};
