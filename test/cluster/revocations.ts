/** Keys that come and go: a node that reaches the database knows of it within a second. */
import { newSecret } from "../../src/auth/key-secret.ts";
import { openPostgresStore } from "../../src/store/postgres/store.ts";
import { keyRow } from "../helpers/key-row.ts";
import { type Cluster, now } from "./cluster.ts";
import type { Database } from "./database.ts";
import { cutsOff, type FaultWindow } from "./history.ts";

const knownWithinMs = 1_000;
/** How long a node may take after a fault: a connection that went silent costs a statement's deadline, and the next poll follows. */
const foundWithinMs = 1_500;

export class Revocations {
  readonly violations: string[] = [];
  readonly #cluster: Cluster;
  readonly #database: Database;
  readonly #windows: readonly FaultWindow[];
  #count = 0;

  constructor(cluster: Cluster, database: Database, windows: readonly FaultWindow[]) {
    this.#cluster = cluster;
    this.#database = database;
    this.#windows = windows;
  }

  /** Makes a key, uses it, revokes it, and uses it again where it must be known by then. */
  async act(): Promise<void> {
    const secret = newSecret();
    this.#count += 1;
    const id = `r${this.#count}`;
    const isChanged = await changeKeys(this.#database.url(), async (keys) => {
      const hash = Bun.SHA256.hash(secret, "hex");
      await keys.insert(keyRow(id, { hash, surfaces: '["gateway"]', models: '["*"]', createdAt: Date.now() }));
    });
    if (!isChanged) return;
    await Bun.sleep(knownWithinMs);
    await this.#check(secret, 200, now() - knownWithinMs);
    if (!(await changeKeys(this.#database.url(), async (keys) => void (await keys.revoke(id, Date.now()))))) return;
    const revokedAt = now();
    await Bun.sleep(knownWithinMs);
    await this.#check(secret, 401, revokedAt);
  }

  async #check(secret: string, expected: number, since: number): Promise<void> {
    await Promise.all(
      this.#cluster.nodes.map(async ({ url }, node) => {
        // 503: it knows that keys have changed, and could not read them yet. A machine that is busy is given twice the time.
        const isRight = (status: number) => [expected, 503, 0].includes(status);
        if (isRight(await this.#statusOf(url, secret))) return;
        await Bun.sleep(knownWithinMs);
        const status = await this.#statusOf(url, secret);
        if (isRight(status) || this.#isFaulty(node, since)) return;
        const told = `node ${node} answered ${status} where ${expected} should be`;
        this.violations.push(`a key changed at ${Math.round(since)}, and at ${Math.round(now())} ${told}`);
      }),
    );
  }

  /** @returns 0 without an answer */
  async #statusOf(url: string, secret: string): Promise<number> {
    const response = await fetch(`${url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "x" }] }),
      signal: AbortSignal.timeout(10_000),
    }).catch(() => undefined);
    await response?.text().catch(() => {});
    return response?.status ?? 0;
  }

  /** Whether the node may not have heard of what happened since then. */
  #isFaulty(at: number, since: number): boolean {
    return this.#windows.some((window) => {
      const { node, to } = window;
      return cutsOff(window) && (node === at || node === -1) && to + foundWithinMs > since;
    });
  }
}

type Keys = Awaited<ReturnType<typeof openPostgresStore>>["keys"];

/** @returns whether it was done: the database may be away */
async function changeKeys(url: string, work: (keys: Keys) => Promise<void>): Promise<boolean> {
  const settings = { pool: 1, statementSeconds: 1, leaseSeconds: 15, keysWithoutDatabaseSeconds: 1 };
  try {
    const store = await openPostgresStore({ url, ...settings });
    try {
      await work(store.keys);
      return true;
    } finally {
      await store.close();
    }
  } catch {
    return false;
  }
}
