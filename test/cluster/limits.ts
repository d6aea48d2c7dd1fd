/** Callers whose keys have a number of requests per minute, of which they use more. */
import { newSecret } from "../../src/auth/key-secret.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { keyRow } from "../helpers/key-row.ts";
import type { Random } from "../helpers/random.ts";
import { type Cluster, now } from "./cluster.ts";
import type { Database } from "./database.ts";
import type { FaultWindow } from "./history.ts";
import { overAdmissionsOf } from "./windows.ts";

const keys = [12, 90].map((limit) => ({ id: `limited-${limit}`, limit, secret: newSecret() }));
type Key = (typeof keys)[number];

export class Limits {
  readonly #cluster: Cluster;
  readonly #random: Random;
  /** When each call was begun. */
  readonly #startedAt = new Map<string, number>();
  /** How often each node had done so at the last look, and when that began. */
  readonly #decisions: { readonly count: number; readonly at: number }[] = [];
  /** When a node went by its share of a limit, as it could not reach the windows in time. */
  readonly shares: FaultWindow[] = [];
  #calls = 0;

  private constructor(cluster: Cluster, random: Random) {
    this.#cluster = cluster;
    this.#random = random;
  }

  static async start(cluster: Cluster, database: Database, random: Random): Promise<Limits> {
    const settings = { pool: 1, statementSeconds: 5, leaseSeconds: 15, keysWithoutDatabaseSeconds: 1 };
    const store = await openPostgresStore({ url: database.url(), ...settings });
    const rights = { surfaces: '["gateway"]', models: '["*"]', createdAt: Date.now() };
    for (const { id, limit, secret } of keys) {
      await store.keys.insert(keyRow(id, { ...rights, perMinute: limit, hash: Bun.SHA256.hash(secret, "hex") }));
    }
    await store.close();
    return new Limits(cluster, random);
  }

  /** A few calls at once, at one node or all of them. */
  async act(): Promise<void> {
    const random = this.#random;
    const key = random.pick(keys);
    const node = random.chance(50) ? this.#cluster.pick(random) : undefined;
    const burst = random.below(Math.ceil(key.limit / 6)) + 1;
    await Promise.all(Array.from({ length: burst }, () => this.#call(key, node ?? this.#cluster.pick(random))));
    await Promise.all(this.#cluster.nodes.map((_, at) => this.#look(at)));
    await Bun.sleep(random.below(600));
  }

  /** Whether the node went by its share of a limit since the last look: as it says itself. */
  async #look(node: number): Promise<void> {
    const before = this.#decisions[node] ?? { count: 0, at: now() };
    const at = now();
    const text = await fetch(`${this.#cluster.nodes[node]!.url}/metrics`, { signal: AbortSignal.timeout(5_000) })
      .then((answer) => answer.text())
      .catch(() => "");
    const count = Number(/^troupe_limit_share_decisions_total (\d+)$/m.exec(text)?.[1] ?? Number.NaN);
    if (Number.isNaN(count)) return;
    // After a restart it counts from 0.
    const more = count < before.count ? count : count - before.count;
    if (more > 0) this.shares.push({ of: "coordination", node, kind: "share", from: before.at, to: now() });
    this.#decisions[node] = { count, at };
  }

  async #call(key: Key, node: number): Promise<void> {
    this.#calls += 1;
    const id = `${key.id}-${this.#calls}`;
    this.#startedAt.set(id, now());
    const response = await fetch(`${this.#cluster.nodes[node]!.url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key.secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "up/m", messages: [{ role: "user", content: `${id} 1 1` }] }),
      signal: AbortSignal.timeout(15_000),
    }).catch(() => undefined);
    await response?.text().catch(() => {});
  }

  /** @param faults when the windows could not be reached, or were lost @param kills of nodes */
  violations(faults: readonly FaultWindow[], kills: readonly FaultWindow[]): string[] {
    const losses = [...faults, ...this.shares];
    const { calls } = this.#cluster.upstream;
    return keys.flatMap(({ id: key, limit }) => {
      const admissions = calls
        .filter(({ id }) => id.startsWith(`${key}-`))
        .map(({ id, startedAt }) => ({ startedAt: this.#startedAt.get(id)!, arrivedAt: startedAt }));
      return admissions.length === 0
        ? [`${key}: nothing was admitted`]
        : overAdmissionsOf(key, limit, admissions, losses, kills);
    });
  }
}
