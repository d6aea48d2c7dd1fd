/** Callers with a prepaid budget: whatever fails, no more is called than it pays for. */
import { newSecret } from "../../src/auth/key-secret.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { keyRow } from "../helpers/key-row.ts";
import type { Random } from "../helpers/random.ts";
import { type Cluster, now } from "./cluster.ts";
import type { Database } from "./database.ts";

const secret = newSecret();
/** Of a key's budget; each call costs one. */
const fewDollars = 40;

export class Money {
  readonly #cluster: Cluster;
  readonly #database: Database;
  readonly #random: Random;
  readonly #found: string[] = [];
  /** How often calls ended with each status; 0: without an answer. */
  readonly statuses = new Map<number, number>();
  readonly #dollars: number;
  #spent = 0;
  #calls = 0;
  #answered = 0;

  private constructor(cluster: Cluster, database: Database, random: Random, dollars: number) {
    this.#dollars = dollars;
    this.#cluster = cluster;
    this.#database = database;
    this.#random = random;
  }

  static async start(cluster: Cluster, database: Database, random: Random, dollars = fewDollars): Promise<Money> {
    const settings = { pool: 1, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 1 };
    const store = await openPostgresStore({ url: database.url(), ...settings });
    const rights = { surfaces: '["gateway"]', models: '["*"]', createdAt: Date.now() };
    await store.budgets.set({ scope: "key:paid", period: "prepaid", limit: dollars * 1_000_000, updatedAt: 1 });
    await store.keys.insert(keyRow("paid", { ...rights, hash: Bun.SHA256.hash(secret, "hex") }));
    await store.close();
    return new Money(cluster, database, random, dollars);
  }

  async act(): Promise<void> {
    await Promise.all(Array.from({ length: 4 }, () => this.#call()));
    await this.#look();
    await Bun.sleep(300);
  }

  async #call(): Promise<void> {
    this.#calls += 1;
    const url = this.#cluster.urlOf(this.#cluster.pick(this.#random));
    const content = `paid${this.#calls} 2 ${this.#random.pick([5, 300])}`;
    const response = await fetch(`${url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "up/paid", max_tokens: 1, messages: [{ role: "user", content }] }),
      signal: AbortSignal.timeout(15_000),
    }).catch(() => undefined);
    const status = response?.status ?? 0;
    this.statuses.set(status, (this.statuses.get(status) ?? 0) + 1);
    if (response?.status === 200 && (await response.text().catch(() => "")).includes("paid")) this.#answered += 1;
  }

  async #look(): Promise<void> {
    const rows = await this.#database
      .ask<{ spent: number; reserved: number }>(
        "select spent::float8, reserved::float8 from troupe.spending where scope = 'key:paid'",
      )
      .catch(() => []);
    for (const { spent, reserved } of rows) {
      if (spent + reserved > this.#dollars * 1_000_000) {
        this.#found.push(`the budget: ${spent} spent, ${reserved} reserved`);
      }
      if (spent < this.#spent) this.#found.push(`the budget: ${this.#spent} was spent, and later ${spent}`);
      this.#spent = spent;
    }
  }

  /** What was called more than it pays for; and what was answered is accounted for, once all nodes had time to. */
  async violations(): Promise<string[]> {
    const called = this.#cluster.upstream.calls.filter(({ id }) => id.startsWith("paid")).length;
    if (called > this.#dollars) {
      this.#found.push(`the budget: pays for ${this.#dollars} calls, and ${called} were made`);
    }
    if (this.#answered === 0) {
      this.#found.push(`the budget: nobody was answered, but ${JSON.stringify([...this.statuses])}`);
    }
    const settled = async () => {
      const [row] = await this.#database.ask<{ taken: number }>(
        "select (spent + reserved)::float8 / 1e6 as taken from troupe.spending where scope = 'key:paid'",
      );
      return row?.taken ?? 0;
    };
    for (const end = now() + 10_000; (await settled()) < this.#answered; await Bun.sleep(100)) {
      if (now() < end) continue;
      this.#found.push(`the budget: ${this.#answered} answered, but only ${await settled()} accounted for`);
      break;
    }
    return this.#found;
  }
}
