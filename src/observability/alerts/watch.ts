/** Looks now and then for what operators are alerted of: budgets, providers, the ledger and the storage. Off the path of calls. */
import { type Clock, maxApartMs, repeat, withTimeout } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";
import type { LedgerLine } from "../../store/contract/usage.ts";
import type { Alerts, AlertView, Notice } from "./alerts.ts";

/** A budget as it stands, in dollars. */
export type WatchedBudget = {
  readonly scope: string;
  readonly period: string;
  readonly limit: number;
  readonly spent: number;
  /** The time at which it opens again; null: never by itself. */
  readonly resetsAt: string | null;
};

export type StoppedVariant = {
  readonly persona: string;
  readonly version: string;
  readonly variant: string;
  /** Counts by which it stopped, for people. */
  readonly fields: Readonly<Record<string, unknown>>;
};

/** @property ends YYYY-MM-DD */
export type WatchedModel = { readonly provider: string; readonly model: string; readonly ends: string };

export type Watched = {
  /** @throws StorageError */
  readonly budgets: () => Promise<readonly WatchedBudget[]>;
  readonly ledgerLagSeconds: () => number;
  /** Models that are called and have an announced end. */
  readonly retiring: () => readonly WatchedModel[];
  /** The day on which a model ends; undefined: none is known, or its provider is not set up. */
  readonly endOf: (provider: string, model: string) => string | undefined;
  /** Models that a budget refused as they have no price, and that have none yet. */
  readonly unpriced: () => readonly { readonly provider: string; readonly model: string }[];
  readonly isPriced: (provider: string, model: string) => boolean;
  /** Reads those that are stopped. @throws StorageError */
  readonly variants: () => Promise<readonly StoppedVariant[]>;
  /** The version of a persona that this process serves; undefined: none. Null: it has not read its personas yet. */
  readonly servedVersion: (persona: string) => string | undefined | null;
  /** This machine, by how much the store's clock is ahead of its own, and the machines of all nodes; undefined: that is not known. */
  readonly clockState: () =>
    | { readonly machine: string; readonly aheadMs: number; readonly machines: readonly string[] }
    | undefined;
  /** Writes something. @throws StorageError */
  readonly checkStorage: () => Promise<void>;
};

const everyMs = 5_000;
/** Looks between two that try whether the storage can be written. */
const checkEvery = 3;
/** Failures of the storage in a row until it counts as down. */
const failedChecks = 2;
/** Longest time for which an end waits for deliveries under way. */
const closeMs = 1_000;
const behindSeconds = 30;
/** How long before and after its end a model is a cause. */
const retirementMs = 30 * dayMs;
const caughtUpSeconds = 5;
const thresholds = [50, 80, 100];
/** Calls in a row that fail, or are refused for their key, until their provider counts as down. */
const failuresUntilDown = 5;
const refusalsUntilDown = 3;

type Provider = {
  failures: number;
  refusals: number;
  lastStatus: number | null;
  succeededAt: number;
  /** This node has reported its latest failures, or their cause ended elsewhere since: they are reported once. */
  isDownReported: boolean;
  isRefusedReported: boolean;
};

export class AlertWatch {
  readonly #alerts: Alerts;
  readonly #watched: Watched;
  readonly #clock: Clock;
  /** By their names: as many as are set up. */
  readonly #providers = new Map<string, Provider>();
  /** Stops of variants that this process has reported: each once, as nodes may serve different versions for a while. */
  readonly #reportedStops = new Set<string>();
  #looks = 0;
  #failedChecks = 0;
  #stop: (() => Promise<void>) | undefined;

  constructor(alerts: Alerts, watched: Watched, clock: Clock) {
    this.#alerts = alerts;
    this.#watched = watched;
    this.#clock = clock;
  }

  start(): void {
    this.#stop = repeat(this.#clock, everyMs, () => this.#look(), this.#look());
  }

  /** What operators were alerted of. @throws StorageError */
  view(): Promise<AlertView> {
    return this.#alerts.view();
  }

  async close(): Promise<void> {
    if (this.#stop === undefined) return;
    // A delivery under way may take as long as a receiver does; another process delivers it later.
    await withTimeout(this.#clock, this.#stop(), closeMs);
  }

  /** Counts an attempt when it is over: an addition or two. */
  attempted({ provider, ended, status, at }: Pick<LedgerLine, "provider" | "ended" | "status" | "at">): void {
    if (provider === null) return;
    let known = this.#providers.get(provider);
    if (known === undefined) {
      known = {
        failures: 0,
        refusals: 0,
        lastStatus: null,
        succeededAt: 0,
        isDownReported: false,
        isRefusedReported: false,
      };
      this.#providers.set(provider, known);
    }
    if (ended === "finished") {
      known.failures = known.refusals = 0;
      known.isDownReported = known.isRefusedReported = false;
      known.succeededAt = at;
    } else if (ended === "broken") {
      known.failures += 1;
      known.lastStatus = status;
    } else if (ended === "refused" && (status === 401 || status === 402 || status === 403)) {
      known.refusals += 1;
      known.lastStatus = status;
    }
  }

  /** Looks once, and delivers. Never rejects. */
  async #look(): Promise<void> {
    if (this.#alerts.isOn) {
      await this.#storage();
      try {
        const causes = await this.#alerts.causes();
        const isUp = this.#failedChecks === 0;
        await this.#set(causes, "storage", false, isUp, {
          began: storageDown(),
          ended: { type: "storage.up", data: {} },
        });
        await this.#ledger(causes);
        await this.#clocks(causes);
        await this.#providersIn(causes);
        await this.#budgets(causes);
        await this.#variants(causes);
        await this.#models(causes);
        await this.#pricesOf(causes);
      } catch {
        // The storage is away, which is a cause of its own.
      }
      await this.#alerts.deliver();
    }
  }

  async #storage(): Promise<void> {
    if (this.#failedChecks === 0 && this.#looks++ % checkEvery !== 0) return;
    try {
      await this.#watched.checkStorage();
      this.#failedChecks = 0;
    } catch (error) {
      this.#failedChecks += 1;
      if (this.#failedChecks < failedChecks) return;
      await this.#alerts.begin("storage", storageDown((error as { kind?: string }).kind));
    }
  }

  async #ledger(causes: ReadonlyMap<string, number>): Promise<void> {
    const seconds = Math.round(this.#watched.ledgerLagSeconds());
    await this.#set(causes, "ledger", seconds > behindSeconds, seconds < caughtUpSeconds, {
      began: { type: "ledger.behind", data: { seconds } },
      ended: { type: "ledger.caught_up", data: {} },
    });
  }

  /** A machine that serves no more has no clock that is wrong. */
  async #clocks(causes: ReadonlyMap<string, number>): Promise<void> {
    const state = this.#watched.clockState();
    if (state === undefined) return;
    const seconds = Math.round(state.aheadMs / 100) / 10;
    const isApart = Math.abs(state.aheadMs) >= maxApartMs;
    const ended = (machine: string): Notice => ({ type: "clock.right", data: { machine } });
    await this.#set(causes, `clock:${state.machine}`, isApart, !isApart, {
      began: { type: "clock.wrong", data: { machine: state.machine, database_ahead_seconds: seconds } },
      ended: ended(state.machine),
    });
    for (const cause of causes.keys()) {
      const machine = /^clock:(.*)$/s.exec(cause)?.[1];
      if (machine !== undefined && !state.machines.includes(machine)) await this.#alerts.end(cause, ended(machine));
    }
  }

  async #providersIn(causes: ReadonlyMap<string, number>): Promise<void> {
    for (const [provider, seen] of this.#providers) {
      const { failures, refusals, lastStatus: status, succeededAt } = seen;
      const down = `provider:${provider}`;
      const refused = `key:${provider}`;
      const isBack = (cause: string) => succeededAt >= (causes.get(cause) ?? Number.POSITIVE_INFINITY);
      const [isDown, isRefused] = [failures >= failuresUntilDown, refusals >= refusalsUntilDown];
      await this.#set(causes, down, isDown && !seen.isDownReported, isBack(down), {
        began: { type: "provider.down", data: { provider, status } },
        ended: { type: "provider.up", data: { provider } },
      });
      await this.#set(causes, refused, isRefused && !seen.isRefusedReported, isBack(refused), {
        began: { type: "provider.key_refused", data: { provider, status } },
        ended: { type: "provider.key_accepted", data: { provider } },
      });
      seen.isDownReported ||= isDown;
      seen.isRefusedReported ||= isRefused;
    }
  }

  async #budgets(causes: ReadonlyMap<string, number>): Promise<void> {
    const known = new Set<string>();
    for (const { scope, period, limit, spent, resetsAt } of await this.#watched.budgets()) {
      for (const percent of thresholds) {
        const cause = `budget:${scope}:${period}:${percent}`;
        known.add(cause);
        const data = { scope, period, percent, limit_dollars: limit, spent_dollars: spent, resets_at: resetsAt };
        const isReached = limit > 0 && micros(spent) * 100 >= micros(limit) * percent;
        await this.#set(causes, cause, isReached, !isReached, {
          began: { type: "budget.reached", data },
          ended: { type: "budget.below", data },
        });
      }
    }
    // Budgets that are gone.
    for (const cause of causes.keys()) {
      if (!cause.startsWith("budget:") || known.has(cause)) continue;
      const [, scope, period, percent] = /^budget:(.*):(\w+):(\d+)$/.exec(cause) ?? [];
      await this.#alerts.end(cause, { type: "budget.removed", data: { scope, period, percent: Number(percent) } });
    }
  }

  /** A stop is over when it is undone, or when the persona is served with another content. */
  async #variants(causes: ReadonlyMap<string, number>): Promise<void> {
    const stopped = new Map(
      (await this.#watched.variants()).map((one) => [`variant:${one.persona}@${one.version} ${one.variant}`, one]),
    );
    for (const [cause, { persona, version, fields }] of stopped) {
      if (this.#reportedStops.has(cause) || this.#watched.servedVersion(persona) !== version) continue;
      this.#reportedStops.add(cause);
      if (!causes.has(cause)) await this.#alerts.begin(cause, { type: "variant.stopped", data: fields });
    }
    for (const cause of causes.keys()) {
      const [, persona = "", version, variant] = /^variant:(.*)@(\w+) (.*)$/.exec(cause) ?? [];
      if (persona === "") continue;
      const data = { persona, persona_version: version, variant };
      const served = this.#watched.servedVersion(persona);
      if (!stopped.has(cause)) {
        this.#reportedStops.delete(cause);
        await this.#alerts.end(cause, { type: "variant.resumed", data });
      } else if (served !== null && served !== version)
        await this.#alerts.end(cause, { type: "variant.replaced", data });
    }
  }

  /** Reports a model that ends within 30 days once; that is over when its end is put off or withdrawn, or lies 30 days back. */
  async #models(causes: ReadonlyMap<string, number>): Promise<void> {
    const now = this.#clock.now();
    const isNear = (ends: string | undefined) => ends !== undefined && Math.abs(Date.parse(ends) - now) < retirementMs;
    for (const { provider, model, ends } of this.#watched.retiring()) {
      const cause = `model:${provider}/${model}`;
      if (!isNear(ends) || causes.has(cause)) continue;
      await this.#alerts.begin(cause, { type: "model.retiring", data: { provider, model, ends_on: ends } });
    }
    for (const cause of causes.keys()) {
      const [, provider, model] = /^model:([^/]*)\/(.*)$/.exec(cause) ?? [];
      if (provider === undefined || model === undefined) continue;
      const ends = this.#watched.endOf(provider, model);
      if (isNear(ends)) continue;
      const data = { provider, model, ends_on: ends ?? null };
      await this.#alerts.end(cause, { type: "model.retirement_over", data });
    }
  }

  /** Reports a model once that a budget refused; that is over when it has a price. */
  async #pricesOf(causes: ReadonlyMap<string, number>): Promise<void> {
    for (const { provider, model } of this.#watched.unpriced()) {
      const cause = `price:${provider}/${model}`;
      if (causes.has(cause)) continue;
      await this.#alerts.begin(cause, { type: "model.without_price", data: { provider, model } });
    }
    for (const cause of causes.keys()) {
      const [, provider, model] = /^price:([^/]*)\/(.*)$/.exec(cause) ?? [];
      if (provider === undefined || model === undefined || !this.#watched.isPriced(provider, model)) continue;
      await this.#alerts.end(cause, { type: "model.priced", data: { provider, model } });
    }
  }

  /** Asks the store only where something changed. */
  async #set(
    causes: ReadonlyMap<string, number>,
    cause: string,
    isOn: boolean,
    isOver: boolean,
    notices: { readonly began: Notice; readonly ended: Notice },
  ): Promise<void> {
    if (isOn && !causes.has(cause)) await this.#alerts.begin(cause, notices.began);
    else if (!isOn && isOver && causes.has(cause)) await this.#alerts.end(cause, notices.ended);
  }
}

const storageDown = (kind?: string): Notice => ({ type: "storage.down", data: { reason: kind ?? "unusable" } });

const micros = (dollars: number): number => Math.round(dollars * 1_000_000);
