/**
 * Facts that renew themselves: once a day one process of all looks where they are published, and what it takes counts for all, by the
 * store. Nothing is looked for at a start or for a call, and whatever goes wrong, the last good facts count.
 */
import { FactsError } from "../../facts/bundle.ts";
import { compiledAsOf, inForce, type Renewed } from "../../facts/in-force.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { SampledTable } from "../../lib/process/metrics.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { type Clock, repeat } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";
import type { FactsRepository, FactsState } from "../../store/contract/facts.ts";
import { listInUse } from "../prices/stored-list.ts";
import { removeCopy, useCopy, writeCopy } from "./copy.ts";
import { readPublished } from "./fetch.ts";
import { type Checked, checkInThread } from "./thread.ts";

export type RenewalTools = {
  readonly facts: FactsRepository;
  readonly settings: () => { readonly update: "off" | "daily"; readonly from?: string };
  /** Public keys of the build, in Base64. */
  readonly keys: readonly string[];
  /** The data folder, where this node keeps what counts. */
  readonly data: string;
  /** What speaks against a list of prices, as models in use have none by it. */
  readonly concerns: (after: { readonly text: string; readonly asOf: string }) => Promise<readonly string[]>;
  /** For the look for newer ones. Default: that of `readPublished`. */
  readonly withinMs?: number;
  /** Reads a file of facts. Default: in a thread of its own. */
  readonly check?: typeof checkInThread;
  /** Called once other facts count. */
  readonly onChange: () => void;
  readonly clock: Clock;
  readonly log: Logger;
};

/** A look at what others have taken, and at whether it is time. */
const everyMs = 60_000;
/** After a failure. */
const againMs = 60 * 60_000;
/** Of a failure that is kept: it may quote an answer. */
const maxFailure = 500;

export const todayOf = (clock: Pick<Clock, "now">): string => new Date(clock.now()).toISOString().slice(0, 10);

export class FactsRenewal {
  readonly #tools: RenewalTools;
  readonly #closing = new AbortController();
  #stop: (() => Promise<void>) | undefined;
  #following: Promise<void> | undefined;
  #wanted = false;
  /** Of the store, as it was seen last. */
  #state: FactsState | undefined;
  /** A file that this program can't use, which is said once. */
  #unusable: string | undefined;

  constructor(tools: RenewalTools) {
    this.#tools = tools;
  }

  start(): void {
    this.#stop = repeat(this.#tools.clock, everyMs, () => this.look());
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#stop?.();
    await this.#following;
  }

  /** To be called where the store may have changed. Only a start waits for it; no call does. */
  besideKeys(): Promise<void> | undefined {
    const done = this.follow();
    return this.#stop === undefined ? done : undefined;
  }

  /** As the store had it last. */
  get state(): FactsState | undefined {
    return this.#state;
  }

  /** How many keys prove what is published. */
  get keys(): number {
    return this.#tools.keys.length;
  }

  /** Why the last look for newer facts failed, by any process; undefined where it did not. */
  get failure(): string | undefined {
    return this.#state?.failure ?? undefined;
  }

  get triedAt(): number | undefined {
    return this.#state?.triedAt ?? undefined;
  }

  /** Takes what others have taken, then looks for newer facts, where it is time. Never rejects. */
  async look(): Promise<void> {
    const { facts, settings, clock, log } = this.#tools;
    await this.follow();
    const { update, from } = settings();
    if (update === "off" || from === undefined) return;
    try {
      const now = clock.now();
      if ((this.#state?.due ?? 0) > now || !(await facts.claim(now, now + dayMs))) return;
      await this.#renewAndFollow(from, this.#state?.refused ?? null);
    } catch (error) {
      log.warn("newer facts could not be looked for", { error });
    }
  }

  /**
   * Looks for newer facts because somebody asks for it, those gone back from too.
   * @returns why none were taken that should have been; undefined: what is published counts. @throws StorageError
   */
  async lookNow(from: string): Promise<string | undefined> {
    await this.follow();
    return this.#renewAndFollow(from, null);
  }

  /** @param refused not to be taken */
  async #renewAndFollow(from: string, refused: string | null): Promise<string | undefined> {
    const { facts, clock, log } = this.#tools;
    const failure = await this.#renew(from, refused);
    if (this.#closing.signal.aborted) return failure;
    if (failure !== undefined && failure !== this.failure)
      log.warn("newer facts could not be had; the last good ones count", { from, reason: failure });
    await facts.tried(clock.now(), failure ?? null, clock.now() + (failure === undefined ? dayMs : againMs));
    await this.follow();
    return failure;
  }

  /** Has those facts count that count for all. Calls while one is under way have it done once more. Never rejects. */
  follow(): Promise<void> {
    this.#wanted = true;
    this.#following ??= this.#followWhileWanted().finally(() => {
      this.#following = undefined;
    });
    return this.#following;
  }

  async #followWhileWanted(): Promise<void> {
    while (this.#wanted && !this.#closing.signal.aborted) {
      this.#wanted = false;
      try {
        this.#state = await this.#tools.facts.state();
        await this.#apply(this.#state?.inForce ?? null);
      } catch (error) {
        this.#tools.log.warn("facts that others have taken can't be read; those before count", { error });
        return;
      }
    }
  }

  async #apply(wanted: string | null): Promise<void> {
    const { data, log, onChange } = this.#tools;
    const before = inForce().renewed;
    if (wanted === (before?.sha256 ?? null) || wanted === this.#unusable) return;
    if (wanted === null) {
      removeCopy(data);
      useCopy(data);
    } else if (!(await this.#take(wanted))) return;
    const now = inForce().renewed;
    if (now?.sha256 === before?.sha256) return;
    if (this.#stop !== undefined) onChange();
    log.info("facts of models and prices", {
      as_of: now?.asOf ?? compiledAsOf,
      from: now?.source ?? "the executable",
      ...(now && { sha256: now.sha256 }),
    });
  }

  /** @returns whether the list counts now */
  async #take(sha256: string): Promise<boolean> {
    const { facts, data, clock, log, check = checkInThread } = this.#tools;
    const list = await facts.get(sha256);
    if (list === undefined) return false;
    const isForced = list.isForced === 1;
    if (list.asOf < compiledAsOf && !isForced) {
      this.#unusable = sha256;
      return false;
    }
    const renewed: Renewed = { sha256, asOf: list.asOf, source: list.source };
    try {
      const checked = await check({ bytes: list.content, file: fileName(sha256), today: todayOf(clock) });
      writeCopy(data, renewed, checked, isForced);
      const fault = useCopy(data, todayOf(clock));
      if (fault !== undefined) throw new FactsError(fault);
      return true;
    } catch (error) {
      this.#unusable = sha256;
      log.error("facts that others have taken do not fit this program; those before count", {
        reason: (error as Error).message,
      });
      return false;
    }
  }

  /** @returns why nothing was taken that should have been */
  async #renew(from: string, refused: string | null): Promise<string | undefined> {
    const { facts, keys, clock, concerns, withinMs, check = checkInThread } = this.#tools;
    try {
      const known = this.#state?.inForce ?? undefined;
      const found = await readPublished(from, {
        ...{ keys, now: clock.now(), known, signal: this.#closing.signal },
        ...(withinMs !== undefined && { withinMs }),
      });
      if (found === undefined) return undefined;
      const { bytes, sha256, source } = found;
      if (sha256 === refused) return undefined;
      const checked = await check({ bytes, file: fileName(sha256), today: todayOf(clock) });
      const against = [
        ...olderWords(checked, this.#tools.data),
        ...(await concerns({ text: checked.prices, asOf: checked.pricesAsOf })),
      ];
      if (against.length > 0) {
        return truncate(
          `${source} is not taken by itself: ${[...new Set(against)].join("; ")}. Look at it with: troupe facts update`,
          maxFailure,
        );
      }
      await facts.take({ sha256, asOf: checked.asOf, source, isForced: 0, takenAt: clock.now(), content: bytes });
      return undefined;
    } catch (error) {
      return truncate((error as Error).message, maxFailure);
    }
  }
}

const fileName = (sha256: string) => `facts-${sha256}.json`;

/** @returns that facts are older than those that count, in words */
export function olderWords({ asOf }: Pick<Checked, "asOf">, data: string): string[] {
  const before = inForceAsOf(data);
  return asOf < before ? [`it is of ${asOf}, older than the facts in use, which are of ${before}`] : [];
}

/** The day of which those are that count on this node. */
const inForceAsOf = (data: string): string => listInUse(data).facts?.asOf ?? compiledAsOf;

export const factsMetrics: SampledTable<FactsRenewal> = {
  troupe_facts_timestamp_seconds: {
    help: "Of which day the facts of models and prices in use are, in Unix time.",
    aggregate: "min",
    read: () => Date.parse(inForce().renewed?.asOf ?? compiledAsOf) / 1000,
  },
  troupe_facts_renewed: {
    help: "1 where facts that were taken count, 0 where those in the executable do.",
    aggregate: "min",
    read: () => (inForce().renewed === undefined ? 0 : 1),
  },
  troupe_facts_renewal_failed: {
    help: "1 where the last look for newer facts failed.",
    aggregate: "max",
    read: ({ failure }) => (failure === undefined ? 0 : 1),
  },
};
