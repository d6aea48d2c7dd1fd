/**
 * Reservations, many of them in one statement where many wait: a budget that all calls count in is one row, which is locked until a commit
 * is on the disk. Those that come while statements are under way go with the next one; each caller has the deadline that it would have alone.
 */
import { setDeadline } from "../../lib/time/clock.ts";
import { StorageError } from "../contract/storage-error.ts";
import type { Reservation } from "../contract/usage.ts";
import type { Parameter } from "../sql/sql.ts";
import { away } from "./errors.ts";
import type { QueryPool } from "./query-pool.ts";

export type CallEntry = {
  readonly request_id: string;
  readonly attempt: number;
  readonly owner: string;
  readonly amount: number;
  readonly budgets: Reservation["budgets"];
  /** The window of tokens, if it counts in one. */
  readonly key: string | undefined;
  readonly limit: number | undefined;
  readonly tokens: number;
  /** By the caller's clock, where windows go by it. */
  readonly now: number | undefined;
  /** JSON. */
  readonly line: string;
};

type Asked = PromiseWithResolvers<unknown> & {
  readonly entry: CallEntry;
  /** True if its deadline has passed. */
  isOver: boolean;
};

/** Whose rows are locked until all are done: some 15 ms. */
const maxEntries = 256;
/** The second one collects the waiting while the first one is carried out; one that hangs has the others go on. */
const maxUnderWay = 2;
/** Beyond it nobody waits. */
const maxWaiting = 10_000;

const reserve = "select troupe.reserve_calls($1::text::jsonb, $2::text::jsonb)::text as answer";

export class CallAccounts {
  readonly #pool: QueryPool;
  /** In the order in which they came. */
  #waiting: Asked[] = [];
  #underWay = 0;

  constructor(pool: QueryPool) {
    this.#pool = pool;
  }

  /** @returns what the function of the database decides. Rejects with StorageError: `away` where it may have been done or not */
  reserve(entry: CallEntry): Promise<unknown> {
    const { clock, deadlineMs, place } = this.#pool.options;
    if (this.#waiting.length >= maxWaiting) return Promise.reject(away(place, "too many wait for a connection"));
    const asked: Asked = { ...Promise.withResolvers<unknown>(), entry, isOver: false };
    const cancelTimer = setDeadline(clock, deadlineMs, () => {
      asked.isOver = true;
      asked.reject(away(place, `no answer within ${deadlineMs} ms`));
    });
    this.#waiting.push(asked);
    // Those of one turn of the event loop go together.
    if (this.#waiting.length === 1) queueMicrotask(() => void this.#sendNext());
    return asked.promise.finally(cancelTimer);
  }

  /** Never rejects. */
  async #sendNext(): Promise<void> {
    while (this.#underWay < maxUnderWay && this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, maxEntries);
      this.#underWay += 1;
      await this.#send(batch);
      this.#underWay -= 1;
    }
  }

  async #send(batch: readonly Asked[]): Promise<void> {
    let sent: readonly Asked[] = [];
    const parameters = () => {
      sent = batch.filter(({ isOver }) => !isOver);
      if (sent.length === 0) throw away(this.#pool.options.place, "nobody waits for it");
      return listOf(sent.map(({ entry }) => entry));
    };
    try {
      const [row] = await this.#pool.run<{ answer: string }>(reserve, parameters);
      const answers = JSON.parse(row!.answer) as unknown[];
      for (const [at, { resolve }] of sent.entries()) resolve(answers[at]);
    } catch (error) {
      // A refusal of one entry by the server is no other caller's failure.
      const isRefused = batch.length > 1 && error instanceof StorageError && error.kind === "unusable";
      for (const asked of batch) {
        if (isRefused) await this.#send([asked]);
        else asked.reject(error);
      }
    }
  }
}

/** All budgets once, and the entries, which name them by their places. */
function listOf(entries: readonly CallEntry[]): Parameter[] {
  const places = new Map<string, number>();
  const budgets: object[] = [];
  const placeOf = (scope: string, span: string) => {
    const name = `${span} ${scope}`;
    let place = places.get(name);
    if (place === undefined) {
      place = budgets.push({ scope, span });
      places.set(name, place);
    }
    return place;
  };
  const list = entries.map(({ budgets: asked, ...rest }) => ({
    ...rest,
    places: asked.map(({ scope, span }) => placeOf(scope, span)),
    limits: asked.map(({ limit }) => limit),
  }));
  return [JSON.stringify(budgets), JSON.stringify(list)];
}
