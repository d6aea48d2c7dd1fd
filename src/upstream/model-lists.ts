/**
 * The lists of models of all providers that are set up: asked in the background, the last good ones kept, in memory and in a file of the
 * data folder that the other processes of the machine and later starts read. Neither a start nor an answer ever waits for one.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { announcedEnd } from "../facts/endings.ts";
import { writePrivately } from "../lib/files/write-privately.ts";
import { listOf, numberOf, objectOf, parseJson, textOf } from "../lib/json/json.ts";
import type { Logger } from "../lib/process/log.ts";
import type { Clock } from "../lib/time/clock.ts";
import type { ListedModel, ModelListFormat } from "../providers/provider.ts";
import type { Accounts, BoundAccount } from "./accounts.ts";
import type { Upstream } from "./client.ts";
import { askAccount, ModelListError, maxModels } from "./model-list.ts";

/** A list as it was last given. */
export type KnownList = {
  /** The account, and the address that gave it: another address has another list. */
  readonly provider: string;
  readonly baseUrl: string;
  /** Unix milliseconds. */
  readonly at: number;
  readonly models: ReadonlyMap<string, ListedModel>;
};

type ModelListTools = {
  readonly upstream: Upstream;
  readonly accounts: () => Accounts;
  readonly clock: Clock;
  readonly log: Logger;
  /** The data folder. */
  readonly data: string;
  /** Minutes between two questions; 0: providers are not asked. Read each time, as a reload may change it. */
  readonly refreshMinutes: () => number;
  /** From 0 to 1, for the spread of processes that started together. */
  readonly random?: () => number;
};

/** A list that can't be had is asked for again after so long. */
const retryMs = 600_000;
/** From a start or a reload until what is stored is read, and from then to the first question. */
const readMs = 1_000;
const firstMs = 30_000;
/** The most that is added to a pause, as a part of it. */
const spread = 0.2;
const deadlineMs = 30_000;

export class ModelLists {
  readonly #tools: ModelListTools;
  #lists: ReadonlyMap<string, KnownList> = new Map();
  /** By account: why the last question failed. Each failure is logged once. */
  readonly #failures = new Map<string, string>();
  #running: Promise<void> | undefined;
  #cancelTimer = () => {};
  readonly #closing = new AbortController();

  constructor(tools: ModelListTools) {
    this.#tools = tools;
  }

  /** Begins to ask in the background; after a reload too, as accounts may be new. */
  start(): void {
    this.#cancelTimer();
    if (this.#closing.signal.aborted) return;
    this.#cancelTimer = this.#tools.clock.setTimer(readMs, () => {
      this.#take(readLists(this.#tools.data));
      this.#schedule(firstMs);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#cancelTimer();
    await this.#running;
  }

  /** Another one whenever a list came. */
  get edition(): object {
    return this.#lists;
  }

  /** @returns undefined where no list of this account has come yet */
  of({ account: { name, baseUrl } }: BoundAccount): KnownList | undefined {
    const found = this.#lists.get(name);
    return found?.baseUrl === baseUrl ? found : undefined;
  }

  find(bound: BoundAccount, model: string): ListedModel | undefined {
    return this.of(bound)?.models.get(model);
  }

  failureOf({ account: { name } }: BoundAccount): string | undefined {
    return this.#failures.get(name);
  }

  /** Asks for each list that is older than half the interval. One at a time; never rejects. */
  refresh(): Promise<void> {
    this.#running ??= this.#refreshAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  #schedule(ms: number): void {
    this.#cancelTimer();
    if (this.#closing.signal.aborted || this.#tools.refreshMinutes() === 0) return;
    const { clock, random = Math.random } = this.#tools;
    this.#cancelTimer = clock.setTimer(ms * (1 + spread * random()), () => {
      void this.refresh().then(() => {
        const interval = this.#tools.refreshMinutes() * 60_000;
        this.#schedule(this.#failures.size > 0 ? Math.min(retryMs, interval) : interval);
      });
    });
  }

  async #refreshAll(): Promise<void> {
    const { accounts, clock, data, refreshMinutes } = this.#tools;
    // Another process of this machine may have asked.
    this.#take(readLists(data));
    const oldest = clock.now() - (refreshMinutes() * 60_000) / 2;
    const due = accounts()
      .list()
      .flatMap((bound) => {
        const format = bound.provider.kind === "remote" ? bound.provider.modelList : undefined;
        return format === undefined || (this.of(bound)?.at ?? 0) > oldest ? [] : [{ bound, format }];
      });
    const asked = await Promise.all(due.map(({ bound, format }) => this.#ask(bound, format)));
    const come = asked.filter((list) => list !== undefined);
    if (come.length === 0) return;
    this.#take(come);
    try {
      writeLists(data, [...this.#lists.values()]);
    } catch (error) {
      this.#tools.log.warn("the lists of models could not be stored", { error });
    }
  }

  /** Newer lists take the place of older ones. */
  #take(lists: readonly KnownList[]): void {
    const next = new Map(this.#lists);
    for (const list of lists) {
      const before = next.get(list.provider);
      if (before === undefined || before.baseUrl !== list.baseUrl || before.at <= list.at)
        next.set(list.provider, list);
    }
    this.#lists = next;
  }

  async #ask(bound: BoundAccount, format: ModelListFormat): Promise<KnownList | undefined> {
    const { name, baseUrl } = bound.account;
    try {
      const models = await askAccount(this.#tools, bound, format, { deadlineMs, signal: this.#closing.signal });
      this.#failures.delete(name);
      return listFrom(name, baseUrl, this.#tools.clock.now(), models);
    } catch (error) {
      if (!(error instanceof ModelListError)) throw error;
      if (this.#closing.signal.aborted) return undefined;
      const kept = this.of(bound) === undefined ? "the models known here are listed" : "the last good list stays";
      if (!this.#failures.has(name))
        this.#tools.log.warn(`a provider's list of models could not be had; ${kept}`, {
          provider: name,
          reason: error.message,
        });
      this.#failures.set(name, error.message);
      return undefined;
    }
  }
}

export const listFrom = (provider: string, baseUrl: string, at: number, models: readonly ListedModel[]): KnownList => ({
  provider,
  baseUrl,
  at,
  models: new Map(models.map((model) => [model.id, model])),
});

/** The day on which a model ends: as its provider lists it, else as its maker announced it. */
export function modelEndOf(bound: BoundAccount, model: string, listed: ListedModel | undefined): string | undefined {
  return listed?.endsOn ?? (bound.provider.kind === "remote" ? announcedEnd(bound.provider.name, model) : undefined);
}

const fileName = "models.json";
/** As many as nobody has providers; a file is larger by no fault of ours. */
const maxFileBytes = 32 * 1024 * 1024;

/** @throws the file system's errors */
function writeLists(data: string, lists: readonly KnownList[]): void {
  const rows = lists.map((list) => ({ ...list, models: [...list.models.values()] }));
  writePrivately(join(data, fileName), JSON.stringify({ lists: rows }));
}

/** Reads what was stored last; nothing where it can't be read, as it comes again. */
export function readLists(data: string): KnownList[] {
  let text: string;
  try {
    text = readFileSync(join(data, fileName), "utf8");
  } catch {
    return [];
  }
  if (text.length > maxFileBytes) return [];
  return listOf(objectOf(parseJson(text))?.["lists"]).flatMap((value) => {
    const row = objectOf(value);
    const [provider, baseUrl, at] = [textOf(row?.["provider"]), textOf(row?.["baseUrl"]), numberOf(row?.["at"])];
    if (provider === undefined || baseUrl === undefined || at === undefined) return [];
    const models = listOf(row?.["models"]).filter((model) => typeof objectOf(model)?.["id"] === "string");
    return [listFrom(provider, baseUrl, at, models.slice(0, maxModels) as ListedModel[])];
  });
}
