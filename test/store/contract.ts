/** What every store does, whatever database it stands on: each one's own test runs this suite on it. */
import { describe, expect, test } from "bun:test";
import { callEnds, firstTokenBounds } from "../../src/api/words.ts";
import { globMatches } from "../../src/lib/text/glob.ts";
import type { AuditRow } from "../../src/store/contract/audit.ts";
import { type FactsList, maxFactsLists } from "../../src/store/contract/facts.ts";
import { maxTestRuns, type TestRunRepository, type TestRunRow } from "../../src/store/contract/persona-test-runs.ts";
import {
  maxPersonaVersions,
  type PersonaLabel,
  type PersonaVersionRepository,
  type PersonaVersionRow,
} from "../../src/store/contract/persona-versions.ts";
import type { PreviewRepository, PreviewRow } from "../../src/store/contract/previews.ts";
import type { SessionRow } from "../../src/store/contract/sessions.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import {
  type AuditPage,
  changeModulus,
  type FinishedCall,
  type KeyRow,
  type Lease,
  maxAlertMessages,
  type Store,
  type Turn,
} from "../../src/store/contract/store.ts";
import {
  costKinds,
  type FoundLines,
  type LedgerFilter,
  type LedgerGroup,
  type LedgerLine,
  type LedgerSum,
  placeBefore,
  type Reservation,
  tokenKinds,
} from "../../src/store/contract/usage.ts";
import {
  countCall,
  newState,
  type StopReason,
  type VariantCall,
  type VariantOutcome,
  type VariantRule,
  type VariantState,
} from "../../src/store/contract/variants.ts";
import { budgetScope, partsOfScope, scopesOf } from "../../src/store/ledger/charges.ts";
import { isChosen } from "../../src/store/ledger/chosen-lines.ts";
import { ledgerGroups, timeGroups } from "../../src/store/ledger/columns.ts";
import { begunLine, reservationOf, settle } from "../helpers/budgeted-call.ts";
import { keyRow } from "../helpers/key-row.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { runs, some } from "../helpers/long-form.ts";
import { Random } from "../helpers/random.ts";

/** One database, for one test. */
export interface TestDatabase extends AsyncDisposable {
  /** Opens it once more, as another process would. */
  open(): Promise<Store>;
  /** Ends a process as a kill would: its leases are given up, and nothing is tidied. */
  kill(store: Store): Promise<void>;
  /** Lets the store learn at once what others changed, where it learns so later than at once. */
  refresh?(store: Store): Promise<void>;
  /** A new file or name that `copyTo` may write to, and the store that it then is; absent: others copy that database. */
  copyTarget?(): { readonly path: string; open(): Promise<Store> };
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const start = 1_700_000_000_000;

/** A key of the gateway, made at the clock's start. */
const gatewayKey = (id: string, changes: Partial<KeyRow> = {}): KeyRow =>
  keyRow(id, { surfaces: '["gateway"]', models: '["*"]', createdAt: start, ...changes });

let calls = 0;
const newCall = (requestId: string, scope = "s") => {
  calls += 1;
  return { scope, requestId, fingerprint: "f", run: calls.toString(16).padStart(8, "0"), createdAt: start };
};
const bytes = (text: string) => new TextEncoder().encode(text);
const finished = (changes: Partial<FinishedCall> = {}): FinishedCall => ({
  status: 200,
  headers: '{"a":"b"}',
  events: null,
  bodyFrom: null,
  body: bytes("body"),
  bytes: 4,
  expiresAt: start + hourMs,
  ...changes,
});

const turn = (id: string, changes: Partial<Turn> = {}): Turn => ({
  id,
  format: "chat",
  state: "finished",
  parent: null,
  keyHolder: "key_1 gateway",
  model: "m/1",
  createdAt: start,
  metadata: "{}",
  upstreamAccount: null,
  upstreamId: null,
  request: bytes("request"),
  input: bytes(`input ${id}`),
  completion: bytes(`completion ${id}`),
  shown: null,
  ...changes,
});
const me = "key_1 gateway";

const all = { scope: "all", span: "2023-11-14" };
/** A call of at most `amount`, held to a budget of `limit`. */
const reservation = (id: string, amount: number, limit: number, budgets = [{ ...all, limit }]): Reservation =>
  reservationOf(id, { at: start, amount, budgets });
/** A call of so many tokens at that time, held to a window of 100. */
const ofTokens = (id: string, tokens: number, now: number): Reservation =>
  reservationOf(id, { at: start, tokens: { key: "k", now, limit: 100, tokens } });

const act = (id: string, changes: Partial<AuditRow> = {}): AuditRow => ({
  id,
  at: start,
  actor: "key_1",
  act: "key.create",
  subject: "key_2",
  before: null,
  after: "{}",
  ...changes,
});
const acts = (changes: Partial<AuditPage> = {}): AuditPage => ({
  before: null,
  limit: 10,
  actor: null,
  act: null,
  subject: null,
  ...changes,
});

const versionRow = (persona: string, number: number, after = 0): PersonaVersionRow => {
  const version = String(number).padStart(12, "0");
  const at = start + after;
  const texts = { content: `{"description":"Zoë ${number}"}`, source: null };
  return { id: `${persona}@${version}`, persona, version, createdAt: at, usedAt: at, ...texts };
};
const previewRow = (label: string, changes: Partial<PreviewRow> = {}): PreviewRow => ({
  ...{ label, revision: "r1", key: "key_1", keyName: "ci", personas: "[]", content: '{"a":"Zoë"}' },
  ...{ pushedAt: start, endsAt: start + dayMs, bytes: 11 },
  ...changes,
});

const labelRow = (label: string, version: number): PersonaLabel => ({
  persona: "a/b",
  label,
  version: String(version).padStart(12, "0"),
  movedAt: start,
});

/** @param prepare makes an empty database */
export function describeStore(name: string, prepare: () => Promise<TestDatabase>): void {
  const on = (what: string, work: (database: TestDatabase, store: Store) => Promise<void>) =>
    test(what, async () => {
      await using database = await prepare();
      const store = await database.open();
      try {
        await work(database, store);
      } finally {
        await store.close();
      }
      // Not less: at a limit Bun kills the server too, and all tests behind this one fail.
    }, 120_000);

  describe(`${name}: sessions`, () => {
    const row = (id: string, changes: Partial<SessionRow> = {}): SessionRow => ({
      id,
      hash: `hash of ${id}`,
      key: "key_1",
      keyHash: "h",
      client: "Firefox on Linux",
      createdAt: start,
      usedAt: start,
      endsAt: start + dayMs,
      ...changes,
    });

    on("are found by their hash, by every process, until they are removed", async (database, { sessions }) => {
      for (const id of ["a", "a", "b"]) await sessions.insert(row(id));
      const other = await database.open();
      expect(await other.sessions.find("hash of a")).toEqual(row("a"));
      await other.sessions.touch("a", start + 2);
      await sessions.touch("a", start + 1);
      expect(await sessions.list(10)).toEqual([row("b"), row("a", { usedAt: start + 2 })]);
      expect(await sessions.list(1)).toEqual([row("b")]);
      await other.sessions.remove("a");
      await other.sessions.remove("a");
      expect(await sessions.find("hash of a")).toBeUndefined();
      await other.close();
    });

    on("are removed when they have ended, and beyond the newest of a key", async (_, { sessions }) => {
      await sessions.insert(row("a", { endsAt: start + 1 }));
      await sessions.insert(row("b", { usedAt: start - 2 }));
      for (const id of ["c", "d", "e"]) await sessions.insert(row(id));
      await sessions.insert(row("f", { key: "key_2" }));
      await sessions.removeEnded(start + 1, start - 1);
      const ids = async () => (await sessions.list(10)).map(({ id }) => id);
      expect(await ids()).toEqual(["f", "e", "d", "c"]);
      await sessions.removeBeyond("key_1", 2);
      expect(await ids()).toEqual(["f", "e", "d"]);
    });
  });

  describe(`${name}: keys`, () => {
    on("are kept whole, in order of birth, and seen by every process", async (database, store) => {
      const full = gatewayKey("b", { perMinute: 7, expiresAt: start + 1, createdAt: start - 1 });
      await store.keys.insert(gatewayKey("a"));
      await store.keys.insert(full);
      const other = await database.open();
      expect(await other.keys.list()).toEqual([full, gatewayKey("a")]);
      await other.close();
    });

    on("the version grows with what matters to calls, whichever process did it", async (database, store) => {
      const other = await database.open();
      const grows = async (work: () => Promise<unknown>) => {
        const before = store.keys.version();
        await work();
        await database.refresh?.(store);
        return store.keys.version() > before;
      };
      expect(await grows(() => other.keys.insert(gatewayKey("a")))).toBe(true);
      expect(await grows(() => other.keys.touch(new Map([["a", start]])))).toBe(false);
      expect(await grows(() => other.keys.replaceSecret("a", gatewayKey("a").hash, "p", "h", null))).toBe(true);
      expect(await grows(() => store.keys.revoke("a", start))).toBe(true);
      expect(await grows(() => other.keys.revoke("a", start))).toBe(false);
      await other.close();
    });

    on(
      "those that changed since a change are given with it, and all by the digest of them",
      async (database, store) => {
        const other = await database.open();
        const digestOf = (rows: readonly { readonly change: number }[]) =>
          `${rows.length} ${rows.reduce((sum, { change }) => sum + (change % changeModulus), 0)}`;
        for (const id of ["a", "b", "c"]) await store.keys.insert(gatewayKey(id));
        const { rows: all, digest } = await other.keys.changes(-1);
        expect(all.map(({ change, ...row }) => row)).toEqual(await store.keys.list());
        expect(digest).toBe(digestOf(all));
        const latest = Math.max(...all.map(({ change }) => change));
        await database.refresh?.(store);
        expect(store.keys.version()).toBe(latest);
        await store.keys.touch(new Map([["a", start]]));
        expect(await other.keys.changes(latest)).toEqual({ rows: [], digest });
        await store.keys.revoke("b", start);
        const changed = await other.keys.changes(latest);
        expect(changed.rows).toEqual([{ ...gatewayKey("b", { revokedAt: start }), change: expect.any(Number) }]);
        expect(changed.digest).toBe(digestOf([all[0]!, changed.rows[0]!, all[2]!]));
        expect((await other.keys.changes(changed.rows[0]!.change)).rows).toEqual([]);
        await other.close();
      },
    );

    on("a revoked one stays revoked, and a time of use never moves backwards", async (_, store) => {
      await store.keys.insert(gatewayKey("a"));
      await store.keys.touch(new Map([["a", start + 5]]));
      await store.keys.touch(new Map([["a", start + 4]]));
      expect([[...(await store.keys.lastUses())], [...(await store.keys.lastUses(["b"]))]]).toEqual([
        [["a", start + 5]],
        [],
      ]);
      expect([...(await store.keys.lastUses(["b", "a"]))]).toEqual([["a", start + 5]]);
      expect(await store.keys.revoke("a", start + 6)).toBe(true);
      expect(await store.keys.revoke("a", start + 7)).toBe(false);
      expect(await store.keys.replaceSecret("a", gatewayKey("a").hash, "p", "h", null)).toBe(false);
      expect(await store.keys.revoke("none", start)).toBe(false);
      expect(await store.keys.list()).toEqual([gatewayKey("a", { lastUsedAt: start + 5, revokedAt: start + 6 })]);
    });

    on("a replaced secret is kept for its grace, and no longer than the next one", async (_, store) => {
      await store.keys.insert(gatewayKey("a"));
      const { hash } = gatewayKey("a");
      const shown = async () => {
        const [row] = await store.keys.list();
        return [row!.prefix, row!.hash, row!.oldHash, row!.oldUntil];
      };
      for (let times = 0; times < 2; times += 1) {
        expect(await store.keys.replaceSecret("a", hash, "p1", "h1", start + 9)).toBe(true);
        expect(await shown()).toEqual(["p1", "h1", hash, start + 9]);
      }
      expect(await store.keys.replaceSecret("a", "h1", "p2", "h2", start + 5)).toBe(true);
      expect(await shown()).toEqual(["p2", "h2", "h1", start + 5]);
      expect(await store.keys.replaceSecret("a", "h2", "p3", "h3", null)).toBe(true);
      expect(await shown()).toEqual(["p3", "h3", null, null]);
      // Carried out long after its caller gave up, when another has taken its place.
      expect(await store.keys.replaceSecret("a", "h2", "p4", "h4", start + 9)).toBe(false);
      expect(await shown()).toEqual(["p3", "h3", null, null]);
    });

    on("of several first ones, one is made; and none whose file can't be written", async (database, store) => {
      const other = await database.open();
      const full = () => {
        throw new Error("no room");
      };
      await expect(store.keys.insertFirst(gatewayKey("a"), full)).rejects.toThrow("no room");
      expect(await store.keys.list()).toEqual([]);
      const made = await Promise.all(
        [store, other, store].map(({ keys }, at) => keys.insertFirst(gatewayKey(`k${at}`), () => {})),
      );
      expect(made.filter(Boolean)).toHaveLength(1);
      expect(await other.keys.list()).toHaveLength(1);
      await other.close();
    });
  });

  describe(`${name}: keys that change`, () => {
    on("only what is named changes, never of a revoked one, and the version tells of it", async (database, store) => {
      const other = await database.open();
      await store.keys.insert(gatewayKey("a", { perMinute: 7, tags: '["x"]' }));
      const before = store.keys.version();
      expect(await other.keys.update("a", { tags: '["y","z"]', tokensPerMinute: 5 })).toBe(true);
      await database.refresh?.(store);
      expect(store.keys.version()).toBeGreaterThan(before);
      expect(await other.keys.update("a", { perMinute: null, expiresAt: start + 1, name: "b" })).toBe(true);
      expect(await other.keys.update("a", {})).toBe(true);
      const changed = gatewayKey("a", { name: "b", tags: '["y","z"]', tokensPerMinute: 5, expiresAt: start + 1 });
      expect(await store.keys.list()).toEqual([changed]);
      await store.keys.revoke("a", start);
      expect(await other.keys.update("a", { name: "c" })).toBe(false);
      expect(await other.keys.update("none", { name: "c" })).toBe(false);
      expect(await store.keys.list()).toEqual([{ ...changed, revokedAt: start }]);
      await other.close();
    });
  });

  describe(`${name}: budgets`, () => {
    on("are set, raised and removed, which counts as a change of keys", async (database, store) => {
      const other = await database.open();
      const grows = async (work: () => Promise<unknown>) => {
        const before = store.keys.version();
        await work();
        await database.refresh?.(store);
        return store.keys.version() > before;
      };
      const budget = { scope: "tag:a", period: "prepaid" } as const;
      expect(await grows(() => other.budgets.set({ ...budget, limit: 5, updatedAt: start }))).toBe(true);
      expect(await grows(() => other.budgets.add(budget, 4_000_000_000_000, start + 1))).toBe(true);
      expect(await store.budgets.list()).toEqual([{ ...budget, limit: 4_000_000_000_005, updatedAt: start + 1 }]);
      expect(await store.budgets.add({ scope: "tag:b", period: "day" }, 1, start)).toBeUndefined();
      await store.budgets.set({ ...budget, limit: 6, updatedAt: start + 2 });
      expect(await other.budgets.list()).toEqual([{ ...budget, limit: 6, updatedAt: start + 2 }]);
      expect(await grows(() => other.budgets.remove(budget))).toBe(true);
      expect(await other.budgets.remove(budget)).toBe(false);
      expect(await store.budgets.list()).toEqual([]);
      await other.close();
    });

    on("of all that race, in several processes, as many are let through as fit", async (database, store) => {
      const stores = [store, await database.open(), await database.open()];
      const results = await Promise.all(
        Array.from({ length: 300 }, (_, at) => stores[at % 3]!.budgets.reserve(reservation(`r${at}`, 7, 100))),
      );
      const refused = results.filter(({ refusedBy }) => refusedBy !== undefined);
      expect(refused).toHaveLength(300 - 14);
      expect(refused[0]!.refusedBy).toEqual({ ...all, limit: 100, spent: 0, reserved: 98 });
      expect(await store.budgets.spending([all])).toEqual([{ ...all, spent: 0, reserved: 98 }]);
      for (const one of stores.slice(1)) await one.close();
    });

    on("a reservation counts in all of its budgets or in none, and once however often it is made", async (_, store) => {
      const { budgets } = store;
      const tag = { scope: "tag:a", span: "prepaid" };
      const both = (id: string, amount: number) =>
        reservation(id, amount, 0, [
          { ...all, limit: 100 },
          { ...tag, limit: 10 },
        ]);
      const tightest = (spent: number, reserved: number) => ({ tightest: { ...tag, limit: 10, spent, reserved } });
      expect(await budgets.reserve(both("a", 6))).toEqual(tightest(0, 6));
      expect(await budgets.reserve(both("a", 6))).toEqual({});
      expect((await budgets.reserve(both("b", 6))).refusedBy).toMatchObject({ ...tag, reserved: 6 });
      const reserved = (amount: number) => [all, tag].map((one) => ({ ...one, spent: 0, reserved: amount }));
      expect(await budgets.spending([all, tag])).toEqual(reserved(6));
      expect(await settle(store, both("a", 6), 4)).toBe(true);
      expect(await settle(store, both("a", 6), 4)).toBe(false);
      expect(await budgets.spending([tag, all])).toEqual([tag, all].map((one) => ({ ...one, spent: 4, reserved: 0 })));
      // What costs an unknown sum is let through until the budget is spent.
      expect(await budgets.reserve(both("c", 0))).toEqual(tightest(4, 0));
      expect(await settle(store, both("c", 0), 20)).toBe(true);
      expect((await budgets.reserve(both("d", 0))).refusedBy).toMatchObject({ ...tag, spent: 24 });
    });

    on("a reservation that is made names the budget that has the least left with it", async (_, store) => {
      const tag = { scope: "tag:a", span: "prepaid" };
      const made = (id: string, amount: number, limits: readonly [number, number]) => {
        const budgets = [all, tag].map((one, at) => ({ ...one, limit: limits[at]! }));
        return store.budgets.reserve(reservation(id, amount, 0, budgets));
      };
      expect(await made("a", 7, [10, 20])).toEqual({ tightest: { ...all, limit: 10, spent: 0, reserved: 7 } });
      expect(await made("b", 2, [30, 20])).toEqual({ tightest: { ...tag, limit: 20, spent: 0, reserved: 9 } });
      // The first of those that have as much left.
      expect(await made("c", 1, [20, 20])).toEqual({ tightest: { ...all, limit: 20, spent: 0, reserved: 10 } });
      const tokens = { key: "k", now: 1_000, limit: 9, tokens: 4 };
      const held = reservationOf("d", { at: start, amount: 1, budgets: [{ ...all, limit: 20 }], tokens });
      expect(await store.budgets.reserve(held)).toMatchObject({
        tightest: { ...all, reserved: 11 },
        tokens: { used: 4 },
      });
      const racing = Array.from({ length: 20 }, (_, at) =>
        store.budgets.reserve(reservation(`r${at}`, 1, 0, [{ ...all, limit: 100 }])),
      );
      const reserved = (await Promise.all(racing)).map(({ tightest }) => tightest!.reserved);
      expect(reserved.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, at) => 12 + at));
    });

    on("what was reserved is spent where nobody knows the cost, and a line ends it once", async (_, store) => {
      const { budgets, ledger } = store;
      const tag = { scope: "tag:a", span: "prepaid" };
      const made = reservation("a", 6, 0, [
        { ...all, limit: 100 },
        { ...tag, limit: 50 },
      ]);
      await budgets.reserve(made);
      const { added, spending } = await ledger.append([{ ...made.line, ended: "abandoned" }]);
      expect(added).toBe(1);
      const spent = [all, tag].map((one) => ({ ...one, spent: 6, reserved: 0 }));
      expect(spending.toSorted((a, b) => a.scope.localeCompare(b.scope))).toEqual(spent);
      expect(await ledger.append([{ ...made.line, ended: "finished", cost: 1 }])).toMatchObject({ added: 0 });
      expect(await budgets.spending([all, tag])).toEqual(spent);
    });

    on("a budget that is spent refuses before one that calls under way hold", async (_, store) => {
      const { budgets } = store;
      const tag = { scope: "tag:a", span: "prepaid" };
      const both = (id: string, amount: number) =>
        reservation(id, amount, 0, [
          { ...all, limit: 10 },
          { ...tag, limit: 5 },
        ]);
      await budgets.reserve(reservation("a", 8, 10));
      expect((await budgets.reserve(both("b", 4))).refusedBy).toMatchObject(all);
      expect((await budgets.reserve(both("b", 6))).refusedBy).toMatchObject(tag);
    });

    on(
      "a dead process' calls are found, with and without a reservation, and a live one's are not",
      async (database, store) => {
        const [dead, live] = [await database.open(), await database.open()];
        await store.runs.interruptAbandoned(start);
        const a = { ...ofTokens("a", 60, 1_000), amount: 5, budgets: [{ ...all, limit: 9 }] };
        await dead.budgets.reserve(a);
        await dead.ledger.append([], [begunLine("c", { at: start })]);
        await live.budgets.reserve(reservation("b", 3, 9));
        await live.ledger.append([], [begunLine("d", { at: start })]);
        expect(await store.ledger.interrupted()).toEqual([]);
        await database.kill(dead);
        const found = (await store.ledger.interrupted()).map(({ line }) => line);
        expect(found.toSorted((one, other) => one.requestId.localeCompare(other.requestId))).toEqual([
          a.line,
          begunLine("c", { at: start }),
        ]);
        expect((await store.ledger.append(found)).added).toBe(2);
        expect(await store.ledger.interrupted()).toEqual([]);
        expect(await store.budgets.spending([all])).toEqual([{ ...all, spent: 5, reserved: 3 }]);
        // Nobody knows what was used: the estimate stands.
        expect((await store.budgets.reserve(ofTokens("e", 41, 2_000))).tokens).toMatchObject({ used: 60 });
        await live.close();
      },
    );

    on("spending of spans that are long over is forgotten, and nothing else", async (_, store) => {
      const spans = ["2026-10-31", "2026-11-01", "2026-10", "2026-11", "prepaid"];
      for (const span of spans) {
        const at = Date.parse(span === "prepaid" ? "2026-09-01" : span.padEnd(10, "-02"));
        const made = reservationOf(span, { at, amount: 1, budgets: [{ scope: "all", span, limit: 9 }] });
        await store.budgets.reserve(made);
        await settle(store, made, 1);
      }
      const open = reservation("open", 1, 9, [{ scope: "tag:a", span: "2026-10-01", limit: 9 }]);
      await store.budgets.reserve(open);
      expect(await store.budgets.forgetSpending("2026-11-01")).toBe(2);
      // What is asked for again begins with what the ledger has.
      const left = await store.budgets.spending(spans.map((span) => ({ scope: "all", span })));
      expect(left.map(({ spent }) => spent)).toEqual([1, 1, 2, 2, 1]);
      expect(await settle(store, open, 1)).toBe(true);
    });

    const spans = (scopes: readonly string[]) =>
      scopes.flatMap((scope) => ["2023-11-14", "2023-11", "prepaid"].map((span) => ({ scope, span })));
    const paid = (id: string, cost: number | null, changes: Partial<LedgerLine> = {}) =>
      ledgerLine(`req_${id}`, { at: start, cost, ...changes });

    on(
      "a budget of a day or a month begins with what the ledger has, and a prepaid one with nothing",
      async (_, store) => {
        const { budgets, ledger, keys } = store;
        await keys.insert(keyRow("key_1", { tier: "free" }));
        await keys.insert(keyRow("key_2", { tier: "pro" }));
        const dayMs = 86_400_000;
        await ledger.append([
          paid("a", 1, { tags: ["a", "b"] }),
          paid("b", 10, { keyId: "key_2", tags: ["a"] }),
          paid("c", 100, { at: start - dayMs }),
          paid("d", 1000, { at: start - 14 * dayMs }),
          paid("e", 10_000, { at: start + 17 * dayMs }),
        ]);
        const asked = spans(["all", "key:key_1", "tag:a", "tier:free", "tag:none"]);
        const told = async () => (await budgets.spending(asked)).map(({ spent }) => spent);
        const before = [...[11, 111, 0], ...[1, 101, 0], ...[11, 11, 0], ...[1, 101, 0], ...[0, 0, 0]];
        expect(await told()).toEqual(before);
        // What comes later counts once, however often it is written.
        const line = paid("f", 5, { tags: ["a"], tier: "free" });
        await ledger.append([line, line]);
        await ledger.append([line, paid("g", null, { keyId: "key_2" })]);
        const more = [...[5, 5, 0], ...[5, 5, 0], ...[5, 5, 0], ...[5, 5, 0], ...[0, 0, 0]];
        expect(await told()).toEqual(before.map((sum, at) => sum + more[at]!));
        const { refusedBy } = await budgets.reserve(
          reservation("r", 1, 0, [{ scope: "tag:b", span: "2023-11-14", limit: 1 }]),
        );
        expect(refusedBy).toMatchObject({ scope: "tag:b", spent: 1 });
      },
    );

    on(
      "budgets by model have exactly what the ledger has of their models, whoever opens them, and when",
      async (database) => {
        const random = Random.fromEnvironment("MODEL_BUDGET_SEED");
        const stores = [await database.open(), await database.open(), await database.open()];
        const patterns = [
          "*",
          "openai/*",
          "openai/gpt-4o",
          "*/gpt_%",
          "open_i/*",
          "a\\b/*",
          "*o*4*",
          "anthropic/*opus*",
        ];
        const models = [
          ...[
            ["openai", "gpt-4o"],
            ["openai", "gpt-4o-mini"],
            ["openai", "gpt_%"],
            ["a\\b", "x"],
          ],
          ...[
            ["anthropic", "claude-opus-5"],
            ["openbi", "gpt-4o"],
          ],
        ] as const;
        const owners = ["all", "key:key_1", "key:key_2", "tag:a", "tag:b", "tier:free"];
        const spent = new Map<string, number>();
        const days = ["2023-11-14", "2023-11"];
        const scopes = owners.flatMap((whose) => patterns.map((model) => budgetScope(whose, model)));
        await stores[0]!.keys.insert(keyRow("key_1", { tier: "free" }));
        await stores[0]!.keys.insert(keyRow("key_2", { tier: "pro" }));
        const count = (name: string, cost: number) => spent.set(name, (spent.get(name) ?? 0) + cost);
        const held = new Map<string, number>();
        const call = async (number: number, opened: readonly string[]) => {
          const [provider, upstreamModel] = random.pick(models);
          const keyId = random.pick(["key_1", "key_2"]);
          const tags = random.pick([[], ["a"], ["a", "b"]]);
          const line = { provider, upstreamModel, keyId, tags, tier: keyId === "key_1" ? "free" : "pro" };
          const model = `${provider}/${upstreamModel}`;
          const own = scopesOf(line);
          const budgets = opened
            .filter(
              (scope) => own.includes(partsOfScope(scope).whose) && globMatches(partsOfScope(scope).model!, model),
            )
            .flatMap((scope) => [...days, "prepaid"].map((span) => ({ scope, span, limit: 1e9 })));
          const amount = 1 + random.below(50);
          const made = reservationOf(`req_${number}`, { at: start, amount, budgets });
          const reservation = { ...made, line: { ...made.line, ...line } };
          const [store, other] = [random.pick(stores), random.pick(stores)];
          const isLeftOpen = random.below(5) === 0;
          const cost = random.below(6) === 0 ? null : random.below(100);
          // A part of it is another model's, where all that count it are open.
          const beside = cost !== null && opened.length > 0 && random.below(4) === 0 ? random.below(cost + 1) : 0;
          const [otherProvider, otherModel] = random.pick(models);
          if (budgets.length > 0) expect((await store.budgets.reserve(reservation)).refusedBy).toBeUndefined();
          if (isLeftOpen) {
            for (const { scope, span } of budgets)
              held.set(`${span} ${scope}`, (held.get(`${span} ${scope}`) ?? 0) + amount);
            return;
          }
          const parts = beside > 0 ? { beside: [[`${otherProvider}/${otherModel}`, beside] as const] } : {};
          const ended = { ...reservation.line, ended: "finished", status: 200, cost, ...parts } as const;
          await Promise.all([store.ledger.append([ended]), other.ledger.append([ended])]);
          const known = cost ?? (budgets.length > 0 ? amount : 0);
          for (const scope of scopes) {
            const { whose, model: pattern } = partsOfScope(scope);
            if (!own.includes(whose)) continue;
            const ownPart = globMatches(pattern!, model) ? known - beside : 0;
            const otherPart = beside > 0 && globMatches(pattern!, `${otherProvider}/${otherModel}`) ? beside : 0;
            for (const day of days) count(`${day} ${scope}`, ownPart + otherPart);
            if (budgets.some((budget) => budget.scope === scope)) count(`prepaid ${scope}`, ownPart + otherPart);
          }
        };
        await Promise.all(Array.from({ length: 40 }, (_, number) => call(number, [])));
        const spans = scopes.flatMap((scope) => [...days, "prepaid"].map((span) => ({ scope, span })));
        await stores[1]!.budgets.spending(spans);
        await Promise.all(Array.from({ length: 80 }, (_, number) => call(100 + number, scopes)));
        const expected = spans.map(({ scope, span }) => ({
          ...{ scope, span, spent: spent.get(`${span} ${scope}`) ?? 0, reserved: held.get(`${span} ${scope}`) ?? 0 },
        }));
        expect(await stores[2]!.budgets.spending(spans)).toEqual(expected);
        // The same after a start.
        expect(await (await database.open()).budgets.spending(spans)).toEqual(expected);
      },
    );

    on("a prepaid budget that is set anew begins with nothing, and one that is changed goes on", async (_, store) => {
      const { budgets } = store;
      const prepaid = { scope: "tag:a", span: "prepaid" };
      const set = (limit: number, isNew: boolean) =>
        budgets.set({ scope: "tag:a", period: "prepaid", limit, updatedAt: start }, isNew);
      const spent = async () => (await budgets.spending([prepaid]))[0]!.spent;
      await set(9, true);
      const made = reservation("a", 4, 0, [{ ...prepaid, limit: 9 }]);
      await budgets.reserve(made);
      await settle(store, made, 4);
      await set(20, false);
      expect(await spent()).toBe(4);
      await budgets.remove({ scope: "tag:a", period: "prepaid" });
      await set(9, true);
      expect(await spent()).toBe(0);
    });

    on("of calls that end while a budget is set, each counts once", async (database, store) => {
      const stores = [store, await database.open(), await database.open()];
      const span = { scope: "all", span: "2023-11-14" };
      for (let round = 0; round < 8; round += 1) {
        const day = { scope: `tag:r${round}`, span: "2023-11-14" };
        const tags = [`r${round}`];
        await Promise.all(
          Array.from({ length: 40 }, async (_, at) => {
            const one = stores[at % 3]!;
            const id = `${round}-${at}`;
            if (at < 20) return one.ledger.append([paid(id, 1, { tags }), paid(`${id}b`, 1, { tags })]);
            if (at < 25) return one.budgets.spending([day, span]);
            const made = reservation(id, 5, 0, [{ ...day, limit: 1e9 }]);
            await one.budgets.reserve(made);
            return settle(one, made, 3);
          }),
        );
        expect(await store.budgets.spending([day])).toEqual([{ ...day, spent: 40 + 45, reserved: 0 }]);
        expect((await store.budgets.spending([span]))[0]!.spent).toBe((round + 1) * 85);
      }
      for (const one of stores.slice(1)) await one.close();
    });

    on(
      "whatever ends how and however often, a budget is spent by what calls cost, or reserved where nobody knows",
      async (database, store) => {
        const other = await database.open();
        const random = Random.fromEnvironment("BUDGET_SEED");
        const spans = ["2023-11-14", "2023-11", "prepaid"];
        const model = new Map<string, { spent: number; reserved: number }>();
        const open: Reservation[] = [];
        const over: LedgerLine[] = [];
        const change = ({ budgets }: Reservation, spent: number, reserved: number) => {
          for (const { scope, span } of budgets) {
            const found = model.get(`${scope} ${span}`)!;
            found.spent += spent;
            found.reserved += reserved;
          }
        };
        const steps = Number(process.env["TROUPE_TEST_RUNS"] ?? 1) * 60;
        for (let step = 0; step < steps; step += 1) {
          const one = random.pick([store, other]);
          if (random.chance(55)) {
            const scopes = ["all", ...["tag:a", "tag:b"].filter(() => random.chance(60))];
            const budgets = scopes.flatMap((scope) =>
              spans.map((span) => ({ scope, span, limit: 500 + random.below(2_000) })),
            );
            for (const { scope, span } of budgets) {
              const name = `${scope} ${span}`;
              if (!model.has(name))
                model.set(name, { spent: (await store.budgets.spending([{ scope, span }]))[0]!.spent, reserved: 0 });
            }
            const made = reservation(`r${step}`, random.below(90), 0, budgets);
            const fits = budgets.every(({ scope, span, limit }) => {
              const { spent, reserved } = model.get(`${scope} ${span}`)!;
              return spent + reserved < limit && spent + reserved + made.amount <= limit;
            });
            const { refusedBy } = await one.budgets.reserve(made);
            expect(refusedBy === undefined).toBe(fits);
            if (!fits) continue;
            change(made, 0, made.amount);
            open.push(made);
          } else {
            // Some at once, and some that were written before once more, with another cost.
            const ended = open.splice(0, 1 + random.below(3)).map((made): LedgerLine => {
              const cost = random.chance(25) ? null : random.below(120);
              change(made, cost ?? made.amount, -made.amount);
              return { ...made.line, ended: "finished", cost };
            });
            const again = over.length > 0 && random.chance(50) ? [{ ...random.pick(over), cost: 7_000 }] : [];
            expect((await one.ledger.append([...again, ...ended])).added).toBe(ended.length);
            over.push(...ended);
          }
          const names = [...model.keys()];
          const found = await store.budgets.spending(
            names.map((name) => ({ scope: name.split(" ")[0]!, span: name.split(" ")[1]! })),
          );
          expect(found.map(({ spent, reserved }) => ({ spent, reserved }))).toEqual([...model.values()]);
        }
        await other.close();
      },
    );

    on("tokens count for the minute after they were used, and as many as were used", async (_, store) => {
      const { budgets } = store;
      const at = (now: number, tokens: number) =>
        budgets.reserve(ofTokens(`${now} ${tokens}`, tokens, 1_000_000 + now));
      expect(await at(1_000, 60)).toEqual({ tokens: { used: 60, emptyMs: 60_000, waitMs: 0 } });
      expect(await at(11_000, 50)).toEqual({ tokens: { used: 60, emptyMs: 50_000, waitMs: 50_000 } });
      expect(await at(11_000, 40)).toEqual({ tokens: { used: 100, emptyMs: 60_000, waitMs: 0 } });
      await settle(store, ofTokens("1000 60", 60, 0), 0, 20);
      await settle(store, ofTokens("11000 40", 40, 0), 0, 70);
      expect(await at(12_000, 11)).toEqual({ tokens: { used: 90, emptyMs: 59_000, waitMs: 49_000 } });
      expect((await at(61_000, 30)).tokens).toMatchObject({ used: 100, waitMs: 0 });
      expect((await at(62_000, 101)).tokens!.waitMs).toBe(Number.POSITIVE_INFINITY);
      // A clock that jumped back finds no use that is far ahead of it.
      expect((await at(-500_000, 100)).tokens).toMatchObject({ used: 100, waitMs: 0 });
    });

    on("of all tokens that race, in several processes, as many are let through as fit", async (database, store) => {
      const other = await database.open();
      const results = await Promise.all(
        Array.from({ length: 100 }, (_, at) =>
          [store, other][at % 2]!.budgets.reserve(ofTokens(`r${at}`, 9, 1_000 + at)),
        ),
      );
      expect(results.filter(({ tokens }) => tokens!.waitMs === 0)).toHaveLength(11);
      await other.close();
    });
  });

  describe(`${name}: audit lines`, () => {
    on("are listed newest first, by page and by who, what and whereto", async (_, store) => {
      const { audit } = store;
      for (const id of ["b", "a", "c"]) await audit.insert(act(id));
      await audit.insert(act("d", { actor: "key_9", act: "key.revoke", subject: "key_3", before: "{}", after: null }));
      const ids = async (page: Partial<AuditPage>) => (await audit.list(acts(page))).map(({ id }) => id);
      expect(await audit.list(acts({ limit: 1 }))).toEqual([
        act("d", { actor: "key_9", act: "key.revoke", subject: "key_3", before: "{}", after: null }),
      ]);
      expect(await ids({ limit: 2 })).toEqual(["d", "c"]);
      expect(await ids({ before: "c" })).toEqual(["b", "a"]);
      expect(await ids({ actor: "key_9" })).toEqual(["d"]);
      expect(await ids({ act: "key.create", before: "c" })).toEqual(["b", "a"]);
      expect(await ids({ subject: "key_4" })).toEqual([]);
      await audit.insert({ ...act("e"), at: start + 10 });
      await audit.insert({ ...act("f"), at: start + 20 });
      expect(await ids({ since: start + 10 })).toEqual(["f", "e"]);
      expect(await ids({ since: start + 10, until: start + 20 })).toEqual(["e"]);
      expect(await ids({ since: null, until: null, limit: 1 })).toEqual(["f"]);
    });
  });

  describe(`${name}: versions of personas`, () => {
    on("a version is kept as it first was, and found by its id", async (database, store) => {
      const other = await database.open();
      await store.personaVersions.keep(versionRow("a/b", 1));
      await other.personaVersions.keep({ ...versionRow("a/b", 1, 5), content: "{}", source: "other" });
      await other.personaVersions.keep({ ...versionRow("a/b", 2, 1), source: "nul \0 here" });
      await store.personaVersions.keep(versionRow("a/c", 1, 2));
      for (const { personaVersions } of [store, other]) {
        expect(await personaVersions.get("a/b@000000000001")).toEqual(versionRow("a/b", 1));
        expect((await personaVersions.get("a/b@000000000002"))!.source).toBe("nul \ufffd here");
        expect(await personaVersions.get("a/b@000000000003")).toBeUndefined();
        expect(await personaVersions.known(["a/b@000000000003", "a/c@000000000001", "a/b@000000000001"])).toEqual([
          "a/b@000000000001",
          "a/c@000000000001",
        ]);
        expect(await personaVersions.known([])).toEqual([]);
        const { content: _, source: __, ...info } = versionRow("a/b", 2, 1);
        expect((await personaVersions.list("a/b")).map(({ version }) => version)).toEqual([
          "000000000002",
          "000000000001",
        ]);
        expect((await personaVersions.list("a/b"))[0]).toEqual(info);
        expect(await personaVersions.list("a/none")).toEqual([]);
      }
      await other.close();
    });

    on(
      "uses move forward, and what nothing used and no label names is removed",
      async (_, { personaVersions, ...store }) => {
        for (let at = 1; at <= 4; at += 1) await personaVersions.keep(versionRow("a/b", at, at));
        await personaVersions.touch(["a/b@000000000002", "a/b@000000000009"], start + hourMs);
        await personaVersions.touch(["a/b@000000000002"], start);
        expect((await personaVersions.get("a/b@000000000002"))!.usedAt).toBe(start + hourMs);
        expect(await personaVersions.moveLabel(labelRow("stable", 1), null, act("m1"))).toBe(true);
        const { removeUnusedVersions } = store.maintenance;
        expect(await removeUnusedVersions(start + 4, 10)).toBe(1);
        expect(await removeUnusedVersions(start + 4, 10)).toBe(0);
        expect(await removeUnusedVersions(start + dayMs, 1)).toBe(1);
        expect(await removeUnusedVersions(start + dayMs, 10)).toBe(1);
        expect((await personaVersions.list("a/b")).map(({ version }) => version)).toEqual(["000000000001"]);
      },
    );

    on("a persona has so many versions and no more, those of the day and labelled ones aside", async (_, store) => {
      const { personaVersions } = store;
      await personaVersions.moveLabel(labelRow("stable", 1), null, act("m1"));
      for (let at = 1; at <= maxPersonaVersions; at += 1) await personaVersions.keep(versionRow("a/b", at, at));
      await personaVersions.keep(versionRow("a/b", 5_000, dayMs));
      expect(await personaVersions.list("a/b")).toHaveLength(maxPersonaVersions + 1);
      await personaVersions.keep(versionRow("a/b", 6_000, 2 * dayMs));
      const left = await personaVersions.list("a/b");
      expect(left).toHaveLength(maxPersonaVersions + 1);
      expect(left.map(({ version }) => Number(version))).not.toContain(2);
      expect(left.at(-1)!.version).toBe("000000000001");
      await personaVersions.keep(versionRow("a/b", 6_000, 3 * dayMs));
      expect(await personaVersions.list("a/b")).toHaveLength(maxPersonaVersions + 1);
    });

    on("of processes that see a label move one records it", async (database, store) => {
      const other = await database.open();
      const move = (from: Store, version: number, before: number | null, line: string) =>
        from.personaVersions.moveLabel(
          labelRow("stable", version),
          before === null ? null : String(before).padStart(12, "0"),
          act(line, { act: "persona.label", subject: "a/b@stable" }),
        );
      expect(await Promise.all([move(store, 1, null, "m1"), move(other, 1, null, "m2")])).toContain(false);
      expect(await move(store, 2, 1, "m3")).toBe(true);
      expect(await move(other, 2, 1, "m4")).toBe(false);
      expect(await move(other, 3, 1, "m5")).toBe(false);
      expect(await other.personaVersions.labels()).toEqual([labelRow("stable", 2)]);
      const remove = (version: number, line: string) =>
        other.personaVersions.removeLabel(labelRow("stable", version), act(line, { subject: "a/b@stable" }));
      expect(await remove(1, "r1")).toBe(false);
      expect(await remove(2, "r2")).toBe(true);
      expect(await store.personaVersions.labels()).toEqual([]);
      const lines = await store.audit.list(acts({ subject: "a/b@stable" }));
      expect(lines).toHaveLength(3);
      expect(lines.map(({ id }) => id).slice(0, 2)).toEqual(["r2", "m3"]);
      await other.close();
    });
  });

  describe(`${name}: previews of personas`, () => {
    on("a push takes the place of the one before, whole and recorded, for all processes", async (database, store) => {
      const other = await database.open();
      expect(await store.previews.put(previewRow("pr-1"), 5, act("p1"))).toBe(true);
      const second = previewRow("pr-1", { revision: "r2", keyName: "nightly", content: '{"b":2}', endsAt: start + 9 });
      expect(await other.previews.put(second, 5, act("p2"))).toBe(true);
      expect(await other.previews.put(previewRow("pr-0"), 5, act("p3"))).toBe(true);
      const { content: _, ...info } = second;
      const { content: __, ...first } = previewRow("pr-0");
      for (const { previews } of [store, other]) {
        expect(await previews.get("pr-1", start)).toEqual(second);
        expect(await previews.revision("pr-1", start)).toBe("r2");
        expect(await previews.revision("pr-2", start)).toBeUndefined();
        expect(await previews.list(start)).toEqual([first, info]);
      }
      const lines = await store.audit.list(acts({}));
      expect(lines.map(({ id }) => id).toSorted()).toEqual(["p1", "p2", "p3"].map((id) => act(id).id));
      await other.close();
    });
    on("what has ended is not there, makes room, and is removed", async (_, { previews, maintenance }) => {
      await previews.put(previewRow("pr-1", { endsAt: start + 5 }), 1, act("p1"));
      expect(await previews.put(previewRow("pr-2"), 1, act("p2"))).toBe(false);
      expect(await previews.get("pr-2", start)).toBeUndefined();
      expect(await previews.put(previewRow("pr-1", { revision: "r2", endsAt: start + 5 }), 1, act("p3"))).toBe(true);
      expect(await previews.get("pr-1", start + 5)).toBeUndefined();
      expect(await previews.revision("pr-1", start + 5)).toBeUndefined();
      expect(await previews.list(start + 5)).toEqual([]);
      expect(await previews.put(previewRow("pr-2", { pushedAt: start + 5 }), 1, act("p4"))).toBe(true);
      expect(await maintenance.removeEndedPreviews(start + 4, 9)).toBe(0);
      expect(await maintenance.removeEndedPreviews(start + 5, 9)).toBe(1);
      expect((await previews.list(start)).map(({ label }) => label)).toEqual(["pr-2"]);
    });
    on("as many as may be there are there, whoever pushes at once; a report is no preview", async (database, store) => {
      const others = await Promise.all([0, 1, 2, 3].map(() => database.open()));
      const pushes = others.flatMap(({ previews }, at) =>
        [0, 1, 2].map((number) => previews.put(previewRow(`pr-${at}-${number}`), 2, act(`p${at}-${number}`))),
      );
      expect((await Promise.all(pushes)).filter((isKept) => isKept)).toHaveLength(2);
      const labels = (await store.previews.list(start)).map(({ label }) => label);
      expect(labels).toHaveLength(2);
      expect(await store.reports.put(previewRow(labels[0]!, { content: '"r"' }), 1, act("r1"))).toBe(true);
      expect(await store.reports.put(previewRow("other"), 1, act("r2"))).toBe(false);
      expect((await store.reports.get(labels[0]!, start))?.content).toBe('"r"');
      expect((await store.previews.get(labels[0]!, start))?.content).not.toBe('"r"');
      expect(await store.reports.drop(labels[0]!, start, act("r3"))).toBe(true);
      expect(await store.previews.list(start)).toHaveLength(2);
      await Promise.all(others.map((other) => other.close()));
    });
    on("one is dropped once, with its line", async (_, { previews, audit }) => {
      await previews.put(previewRow("pr-1"), 1, act("p1"));
      expect(await previews.drop("pr-2", start, act("d0"))).toBe(false);
      expect(await previews.drop("pr-1", start, act("d1"))).toBe(true);
      expect(await previews.drop("pr-1", start, act("d2"))).toBe(false);
      expect(await previews.get("pr-1", start)).toBeUndefined();
      const lines = await audit.list(acts({}));
      expect(lines.map(({ id }) => id).toSorted()).toEqual(["d1", "p1"].map((id) => act(id).id));
    });
  });

  describe(`${name}: runs of personas' tests`, () => {
    const runOf = (persona: string, at: number, changes: Partial<TestRunRow> = {}): TestRunRow => ({
      ...{ persona, version: "3f2a91c07b1e", at: start + at, passed: 2, failed: 1, errors: 0, run: '{"tests":[]}' },
      ...changes,
    });
    on("the latest run takes the place of the one before, and is found by all processes", async (database, store) => {
      const other = await database.open();
      await store.testRuns.put(runOf("a/b", 1));
      await other.testRuns.put(runOf("a/b", 3, { failed: 0, run: '{"a":"nul \0 here"}' }));
      await store.testRuns.put(runOf("a/b", 2, { passed: 9 }));
      await store.testRuns.put(runOf("a/a", 1, { errors: 4 }));
      const { run: _, ...counts } = runOf("a/b", 3, { failed: 0 });
      const { run: __, ...first } = runOf("a/a", 1, { errors: 4 });
      for (const { testRuns } of [store, other]) {
        expect(await testRuns.get("a/b")).toEqual(runOf("a/b", 3, { failed: 0, run: '{"a":"nul \ufffd here"}' }));
        expect(await testRuns.get("a/none")).toBeUndefined();
        expect(await testRuns.list()).toEqual([first, counts]);
      }
      await other.close();
    });

    on("beyond the most the oldest go", async (_, { testRuns }) => {
      for (let at = 0; at < maxTestRuns + 2; at += 1) await testRuns.put(runOf(`a/p${at}`, at));
      const left = (await testRuns.list()).map(({ persona }) => persona);
      expect(left).toHaveLength(maxTestRuns);
      expect([left.includes("a/p1"), left.includes("a/p2")]).toEqual([false, true]);
    });
  });

  describe(`${name}: variants`, () => {
    const rule: VariantRule = {
      ...{ variant: "next", calls: 50, errors: 9, refusals: 9, slow: 9, slowMs: 800, cost: 40_000 },
    };
    /** Never stops, and counts all of the others' calls. */
    const patient: VariantRule = { ...rule, variant: "third", errors: null, refusals: null, slow: null, cost: null };
    const callOf = (variant: string, outcome: VariantOutcome = "answered", rules = [rule]): VariantCall => ({
      ...{ persona: "acme/x", version: "3f2a91c07b1e", variant, outcome, rules },
    });
    let lines = 0;
    const lineOf = (call: VariantCall, changes: Partial<LedgerLine> = {}) => {
      lines += 1;
      const id = `req_${String(lines).padStart(8, "0")}`;
      return ledgerLine(id, { at: start + lines, variant: call.variant, ...changes, variantCall: call });
    };
    const failed = (count: number, variant = "next") =>
      Array.from({ length: count }, () => lineOf(callOf(variant, "failed"), { ended: "broken", status: 500 }));
    const fine = (count: number, variant = "now") => Array.from({ length: count }, () => lineOf(callOf(variant)));

    on("are counted and judged in the order of their lines, as `countCall` does it", async (_, store) => {
      const random = new Random(23);
      const states = new Map<string, VariantState>();
      let stops = 0;
      for (let batch = 0; batch < 40; batch += 1) {
        const rules = [rule, patient];
        // Each round of batches has other shares, and a version of its own.
        const round = Math.floor(batch / 10);
        const [failing, refusing, slow] = [round === 1 ? 60 : 4, round === 2 ? 60 : 4, round === 3 ? 60 : 4];
        const batchOf = Array.from({ length: 1 + random.below(40) }, () => {
          const variant = random.pick(["now", "next", "next", "third"]);
          const isBad = variant === "next" ? 1 : 0.1;
          const outcome =
            random.below(100) < failing * isBad
              ? ("failed" as const)
              : random.below(100) < refusing * isBad
                ? ("refused" as const)
                : ("answered" as const);
          const call = { ...callOf(variant, outcome, rules), version: `v${round}` };
          const cost = random.below(10) === 0 ? null : random.below(1_500);
          return lineOf(call, { totalMs: random.below(100) < slow * isBad ? 900 : 100, cost });
        });
        const known = new Map(states);
        for (const line of batchOf)
          for (const one of rules) {
            const call = line.variantCall!;
            const id = `${call.version} ${one.variant}`;
            const state = states.get(id) ?? newState(call, one);
            states.set(id, state.stoppedAt === null ? countCall(state, one, call, line) : state);
          }
        const { stopped } = await store.ledger.append(batchOf);
        const isStop = [...states].some(
          ([id, { stoppedAt }]) => stoppedAt !== null && known.get(id)?.stoppedAt == null,
        );
        expect(stopped).toBe(isStop);
        if (isStop) stops += 1;
      }
      const byId = ({ version, variant }: VariantState) => `${version} ${variant}`;
      const found = await store.variants.list("acme/x");
      expect(new Map(found.map((state) => [byId(state), state]))).toEqual(states);
      expect(stops).toBe(3);
      const reasons = ["error_rate", "refusals", "p95_seconds"];
      expect((await store.variants.stopped()).map(({ reason }) => reason!)).toEqual(reasons as StopReason[]);
      expect(found.some(({ windows }) => windows > 0)).toBe(true);
    });

    on("stop at one count, however many processes count, and all learn of it", async (database, store) => {
      const stores = [store, await database.open(), await database.open()];
      const before = stores.map(({ keys }) => keys.version());
      await Promise.all(stores.map(({ ledger }) => ledger.append(fine(20))));
      const appended = await Promise.all(
        Array.from({ length: 30 }, (_, at) => stores[at % 3]!.ledger.append(failed(1))),
      );
      expect(appended.filter(({ stopped }) => stopped)).toHaveLength(1);
      const [found, ...others] = await stores[1]!.variants.stopped();
      expect(others).toEqual([]);
      expect(found).toMatchObject({
        ...{ persona: "acme/x", variant: "next", reason: "error_rate" },
        calls: 9,
        errors: 9,
      });
      for (const [at, one] of stores.entries()) {
        await database.refresh?.(one);
        expect(one.keys.version()).toBeGreaterThan(before[at]!);
      }
      // What is added later changes nothing.
      await store.ledger.append([...failed(20), ...fine(20)]);
      expect(await store.variants.stopped()).toEqual([found!]);
      await stores[1]!.close();
      await stores[2]!.close();
    });

    on("are stopped by hand, whether anything was counted or not, once", async (database, store) => {
      await store.ledger.append(failed(3));
      const version = store.keys.version();
      const served = (await store.variants.list("acme/x"))[0]!.version;
      const other = await database.open();
      const stop = (variant: string) => other.variants.stop("acme/x", served, variant, start + 1_000);
      expect([await stop("next"), await stop("now"), await stop("next")]).toEqual([1, 1, 0]);
      await database.refresh?.(store);
      expect(store.keys.version()).toBeGreaterThan(version);
      // What is added later changes nothing.
      await store.ledger.append(failed(20));
      expect(await store.variants.stopped()).toMatchObject([
        { variant: "next", errors: 3, stoppedAt: start + 1_000, reason: "operator" },
        { variant: "now", errors: 0, stoppedAt: start + 1_000, reason: "operator" },
      ]);
      expect(await store.variants.resume("acme/x", "now", start)).toBe(1);
      await other.close();
    });

    on("count a line once, and go on when they are resumed", async (database, store) => {
      const lost = failed(8);
      for (let time = 0; time < 3; time += 1) await store.ledger.append(lost);
      expect(await store.variants.stopped()).toEqual([]);
      expect((await store.ledger.append(failed(1))).stopped).toBe(true);
      const reopened = await database.open();
      expect(await reopened.variants.stopped()).toHaveLength(1);
      const version = store.keys.version();
      expect(await reopened.variants.resume("acme/x", "now", start)).toBe(0);
      expect(await reopened.variants.resume("acme/x", "next", start + 5_000)).toBe(1);
      expect(await reopened.variants.resume("acme/x", "next", start + 5_000)).toBe(0);
      await database.refresh?.(store);
      expect(store.keys.version()).toBeGreaterThan(version);
      expect(await store.variants.list("acme/x")).toMatchObject([
        { ...{ variant: "next", calls: 0, errors: 0 }, stoppedAt: null },
      ]);
      await reopened.close();
    });

    on("compare with the others' calls, and stop alone where there are none", async (_, store) => {
      // All fail alike: nobody is worse.
      await store.ledger.append(Array.from({ length: 40 }, () => [...failed(1, "now"), ...failed(1)]).flat());
      expect(await store.variants.list("acme/x")).toMatchObject([
        { calls: 40, errors: 40, otherCalls: 40, stoppedAt: null },
      ]);
      const alone = (outcome: VariantOutcome) => lineOf({ ...callOf("next", outcome), version: "alone" });
      await store.ledger.append(Array.from({ length: 9 }, () => alone("refused")));
      expect(await store.variants.stopped()).toMatchObject([{ version: "alone", reason: "refusals", calls: 9 }]);
    });

    on("stop when their calls cost too much, and more than the others'", async (_, store) => {
      const costing = (variant: string, cost: number, version: string) =>
        Array.from({ length: 30 }, () => lineOf({ ...callOf(variant), version }, { cost }));
      await store.ledger.append([...costing("now", 2_000, "a"), ...costing("next", 2_000, "a")]);
      await store.ledger.append([...costing("now", 1_999, "b"), ...costing("next", 2_000, "b")]);
      expect(await store.variants.stopped()).toMatchObject([
        { version: "b", reason: "cost", calls: 21, cost: 42_000, otherCost: 59_970 },
      ]);
    });

    on("are forgotten when nothing is added, but for those that are stopped", async (_, store) => {
      await store.ledger.append([...fine(10), ...failed(9)]);
      await store.ledger.append([lineOf({ ...callOf("now"), version: "other" })]);
      expect(await store.variants.removeUnused(start)).toBe(0);
      expect(await store.variants.removeUnused(start + dayMs)).toBe(1);
      expect(await store.variants.list("acme/x")).toHaveLength(1);
    });
  });

  describe(`${name}: alerts`, () => {
    const message = (id: string, at = start) => ({ id, body: `{"id":"${id}"}`, at });

    on("of all that see a cause begin or end, in several processes, one tells of it", async (database, store) => {
      const other = await database.open();
      const stores = [store, other];
      const race = (act: "begin" | "end", of: string) =>
        Promise.all(
          Array.from({ length: 20 }, (_, at) => stores[at % 2]!.alerts[act]("c", message(of + at), ["d", "e"])),
        );
      expect((await race("end", "x")).filter((isFirst) => isFirst)).toHaveLength(0);
      expect((await race("begin", "a")).filter((isFirst) => isFirst)).toHaveLength(1);
      expect(await other.alerts.causes()).toEqual([{ cause: "c", since: start }]);
      expect((await race("end", "b")).filter((isFirst) => isFirst)).toHaveLength(1);
      expect(await store.alerts.causes()).toEqual([]);
      expect(await store.alerts.waiting()).toBe(4);
      await other.close();
    });

    on("a message is claimed by one, and again when its time is over", async (database, store) => {
      const other = await database.open();
      await store.alerts.begin("c", message("a"), ["d", "e"]);
      const claims = await Promise.all([store, other, store].map(({ alerts }) => alerts.claim(start, start + 100, 1)));
      const found = claims.flat();
      expect(found.map(({ destination }) => destination).sort()).toEqual(["d", "e"]);
      expect(found[0]).toEqual({ ...message("a"), destination: found[0]!.destination, attempts: 1 });
      expect(await store.alerts.claim(start + 99, start + 200, 9)).toEqual([]);
      expect(await other.alerts.queued(9)).toEqual([
        { id: "a", destination: "d", body: expect.any(String), at: start, attempts: 1, due: start + 100 },
        { id: "a", destination: "e", body: expect.any(String), at: start, attempts: 1, due: start + 100 },
      ]);
      expect(await other.alerts.queued(1)).toHaveLength(1);
      await store.alerts.remove({ id: "a", destination: "d" });
      await store.alerts.postpone({ id: "a", destination: "e" }, start + 500);
      expect(await other.alerts.claim(start + 499, start + 600, 9)).toEqual([]);
      expect(await other.alerts.claim(start + 500, start + 600, 9)).toMatchObject([{ destination: "e", attempts: 2 }]);
      await other.close();
    });

    on("only so many messages wait", async (_, store) => {
      const destinations = Array.from({ length: maxAlertMessages }, (__, at) => `d${at}`);
      await store.alerts.begin("c", message("a"), destinations);
      await store.alerts.begin("e", message("b"), ["d"]);
      expect(await store.alerts.waiting()).toBe(maxAlertMessages);
    });
  });

  describe(`${name}: facts`, () => {
    const list = (sha256: string, changes: Partial<FactsList> = {}): FactsList => ({
      ...{ sha256, asOf: "2027-01-01", source: "https://facts.test", isForced: 0, takenAt: start },
      content: new TextEncoder().encode(sha256),
      ...changes,
    });

    on("the list that one process takes counts for all, and another can be gone back to", async (database, store) => {
      const other = await database.open();
      expect([await store.facts.state(), await store.facts.lists()]).toEqual([undefined, []]);
      await store.facts.take(list("a"));
      await store.facts.take(list("b", { takenAt: start + 1, isForced: 1 }));
      expect(await other.facts.state()).toMatchObject({ inForce: "b", refused: null, due: 0, failure: null });
      const { content, ...info } = (await other.facts.get("b"))!;
      expect(new TextDecoder().decode(content)).toBe("b");
      expect((await other.facts.lists())[0]).toEqual(info);
      await other.facts.goBack("a", "b");
      expect(await store.facts.state()).toMatchObject({ inForce: "a", refused: "b" });
      await store.facts.goBack(null, "a");
      expect(await other.facts.state()).toMatchObject({ inForce: null, refused: "a" });
      await store.facts.take(list("b", { takenAt: start + 2 }));
      expect(await other.facts.state()).toMatchObject({ inForce: "b", refused: null });
      expect(await store.facts.get("c")).toBeUndefined();
      await other.close();
    });

    on("only some lists are kept, the newest and the one in force", async (_, store) => {
      for (let at = 0; at < maxFactsLists + 3; at += 1) await store.facts.take(list(`l${at}`, { takenAt: start - at }));
      const kept = (await store.facts.lists()).map(({ sha256 }) => sha256);
      expect(kept).toHaveLength(maxFactsLists);
      expect(kept).toContain(`l${maxFactsLists + 2}`);
    });

    on("of all that look for a newer one, in several processes, one does", async (database, store) => {
      const other = await database.open();
      const race = async (now: number) =>
        (
          await Promise.all(
            Array.from({ length: 12 }, (_, at) => (at % 2 === 0 ? store : other).facts.claim(now, now + 100)),
          )
        ).filter((isFirst) => isFirst).length;
      expect([await race(start), await race(start + 99), await race(start + 100)]).toEqual([1, 0, 1]);
      await other.facts.tried(start + 101, "it is a web page", start + 500);
      expect(await store.facts.state()).toMatchObject({
        triedAt: start + 101,
        failure: "it is a web page",
        due: start + 500,
      });
      expect([await race(start + 499), await race(start + 500)]).toEqual([0, 1]);
      await other.close();
    });

    on("the keys' version tells of a list that counts", async (database, store) => {
      const other = await database.open();
      const before = store.keys.version();
      await other.facts.take(list("a"));
      await database.refresh?.(store);
      expect(store.keys.version()).not.toBe(before);
      await other.close();
    });
  });

  describe(`${name}: runs`, () => {
    on("of all that race for an id, in several processes, one gets the lease", async (database, store) => {
      const stores = [store, await database.open(), await database.open()];
      const claims = await Promise.all(
        Array.from({ length: 30 }, (_, at) => stores[at % 3]!.runs.claim(newCall(`id-${at % 5}`))),
      );
      expect(claims.filter((lease) => lease !== undefined)).toHaveLength(5);
      expect(await store.runs.claim(newCall("id-1", "other"))).toBeDefined();
      for (const one of stores.slice(1)) await one.close();
    });

    on("a record tells who holds it, until it is finished", async (database, store) => {
      const other = await database.open();
      const lease = (await store.runs.claim(newCall("a")))!;
      const { call, run } = lease;
      expect(store.runs.holds(lease)).toBe(true);
      expect(await store.runs.find("s", "a")).toMatchObject({ call, run, state: "running", heldBy: "self" });
      expect(await other.runs.get(lease)).toMatchObject({ state: "running", heldBy: "other", headers: null });
      // As often as it is told: the first may have been carried out after its caller gave up.
      for (let times = 0; times < 2; times += 1) expect(await store.runs.finish(lease, finished())).toBe(true);
      expect(await other.runs.find("s", "a")).toMatchObject({ state: "finished", heldBy: null, status: 200 });
      expect(await other.runs.body(lease)).toEqual(bytes("body"));
      expect(await other.runs.find("s", "b")).toBeUndefined();
      await other.close();
    });

    on("a record gives way to a claim only as it was read", async (_, store) => {
      const lease = (await store.runs.claim(newCall("a")))!;
      const seen = (await store.runs.get(lease))!;
      await store.runs.finish(lease, finished());
      expect(await store.runs.claim(newCall("a"), seen)).toBeUndefined();
      const ended = (await store.runs.get(lease))!;
      const [one, two] = await Promise.all([
        store.runs.claim(newCall("a"), ended),
        store.runs.claim(newCall("a"), ended),
      ]);
      expect([one, two].filter((found) => found !== undefined)).toHaveLength(1);
      expect(await store.runs.get(lease)).toBeUndefined();
      expect(await store.runs.body(lease)).toBeUndefined();
    });

    on(
      "the calls of a process that was killed are interrupted, and its lease writes nothing",
      async (database, store) => {
        const dead = await database.open();
        const lease = (await dead.runs.claim(newCall("a")))!;
        expect(await dead.runs.append(lease, "{}", { firstId: 0, data: bytes("x") })).toBe(true);
        expect(await store.runs.interruptAbandoned(start)).toBe(0);
        await database.kill(dead);
        expect(await store.runs.get(lease)).toMatchObject({ state: "running", heldBy: "gone" });
        expect(await store.runs.interruptAbandoned(start)).toBe(1);
        expect(await store.runs.get(lease)).toMatchObject({ state: "interrupted", heldBy: null, expiresAt: start });
        expect(await store.runs.eventsAt(lease, 0)).toBeUndefined();
        await expectFenced(store, lease);
        const anew = (await store.runs.claim(newCall("a"), (await store.runs.get(lease))!))!;
        await expectFenced(store, lease);
        expect(await store.runs.get(anew)).toMatchObject({ state: "running", heldBy: "self" });
        expect(await store.runs.renew([lease, anew])).toEqual([lease]);
      },
    );

    on(
      "events are found by any number within them; a watched call is told to its owner alone",
      async (database, store) => {
        const other = await database.open();
        const lease = (await store.runs.claim(newCall("a")))!;
        await store.runs.append(lease, '{"x":"y"}', { firstId: 0, data: bytes("0-4") });
        await store.runs.append(lease, '{"x":"y"}', { firstId: 5, data: bytes("5-9") });
        const found = await Promise.all([0, 4, 5, 99].map((number) => other.runs.eventsAt(lease, number)));
        expect(found.map((events) => events?.firstId)).toEqual([0, 0, 5, 5]);
        expect(found[1]!.data).toEqual(bytes("0-4"));
        expect((await other.runs.get(lease))!.headers).toBe('{"x":"y"}');
        expect(await store.runs.watched()).toEqual([]);
        await other.runs.watch(lease);
        expect([await store.runs.watched(), await other.runs.watched()]).toEqual([[lease.call], []]);
        await other.close();
      },
    );

    on("release frees a running call, discard a finished one, and neither the other's", async (_, store) => {
      const running = (await store.runs.claim(newCall("a")))!;
      await store.runs.discard(running);
      expect(await store.runs.get(running)).toBeDefined();
      await store.runs.release(running);
      expect(await store.runs.get(running)).toBeUndefined();
      const ended = (await store.runs.claim(newCall("a")))!;
      await store.runs.finish(ended, finished());
      await store.runs.release(ended);
      expect(await store.runs.get(ended)).toBeDefined();
      await store.runs.discard(ended);
      expect(await store.runs.get(ended)).toBeUndefined();
    });
  });

  describe(`${name}: conversations`, () => {
    on("a turn is its key holder's, until it is deleted or its conversation ends", async (_, store) => {
      const { conversations } = store;
      const whole = turn("a", { metadata: '{"k":"v"}', upstreamAccount: "xai", upstreamId: "resp" });
      await conversations.insert(whole, whole.input, start + hourMs);
      expect(await conversations.find(me, "a", start)).toEqual(whole);
      expect(await conversations.find("key_2 gateway", "a", start)).toBeUndefined();
      expect(await conversations.find(me, "a", start + hourMs)).toBeUndefined();
      await conversations.touch("a", start + 2 * hourMs);
      await conversations.touch("a", start + hourMs);
      expect(await conversations.find(me, "a", start + hourMs)).toEqual(whole);
      expect(await conversations.setMetadata(me, "a", '{"n":"1"}', start)).toBe(true);
      expect(await conversations.setMetadata("key_2 gateway", "a", "{}", start)).toBe(false);
      expect(await conversations.markDeleted(me, "a", start)).toBe(true);
      expect(await conversations.markDeleted(me, "a", start)).toBe(false);
      expect(await conversations.find(me, "a", start)).toBeUndefined();
    });

    on("a chain has all that came before, deleted turns too; without them a turn stands alone", async (_, store) => {
      const { conversations, maintenance } = store;
      await conversations.insert(turn("a"), bytes("input a"), start + hourMs);
      await conversations.insert(turn("b", { parent: "a" }), bytes("b alone"), start + hourMs);
      await conversations.markDeleted(me, "a", start);
      const texts = async (id: string) =>
        (await conversations.chain(id)).map(({ input }) => new TextDecoder().decode(input));
      expect(await texts("b")).toEqual(["input a", "input b"]);
      expect(await maintenance.removeDeletedTurns(start, 9)).toBe(0);
      await conversations.markDeleted(me, "b", start);
      expect(await maintenance.removeDeletedTurns(start, 9)).toBe(1);
      expect(await maintenance.removeDeletedTurns(start, 9)).toBe(1);
      await conversations.insert(turn("c", { parent: "b" }), bytes("c alone"), start + hourMs);
      expect(await texts("c")).toEqual(["c alone"]);
    });

    on("a running turn ends once, whoever ends it, and then stands", async (database, store) => {
      const running = { format: "responses", state: "running", completion: bytes(""), shown: bytes("queued") } as const;
      for (const id of ["a", "b", "c"]) {
        await store.conversations.insert(turn(id, { ...running }), bytes("alone"), start + hourMs);
      }
      const other = await database.open();
      const { conversations } = other;
      expect(await conversations.stopped(["a", "b", "none"])).toEqual(["none"]);
      const how = { model: "m/3", upstreamAccount: "openai", upstreamId: "resp_1", completion: bytes("said") };
      const settled = { ...how, state: "finished", shown: bytes("done") } as const;
      for (let times = 0; times < 2; times += 1) expect(await conversations.settle("a", settled)).toBe(true);
      expect(await store.conversations.settle("a", { ...settled, state: "cancelled" })).toBe(false);
      expect(await store.conversations.find(me, "a", start)).toEqual(
        turn("a", { ...running, ...settled, input: bytes("alone") }),
      );
      await conversations.markDeleted(me, "b", start);
      expect(await store.conversations.settle("b", settled)).toBe(false);
      // A finished one may have its last events to store: whoever makes it is not to end it for that.
      expect(await store.conversations.stopped(["a", "b", "c"])).toEqual(["b"]);
      expect((await store.conversations.shownChain("a"))[0]).toEqual({
        id: "a",
        format: "responses",
        request: bytes("request"),
        input: bytes("alone"),
        completion: bytes("said"),
        shown: bytes("done"),
      });
      await other.close();
    });

    on("pages hold each turn once, in both orders, by model and metadata", async (_, store) => {
      const { conversations } = store;
      for (const id of ["a", "b", "c", "d"]) {
        const model = id === "d" ? "m/2" : "m/1";
        await conversations.insert(turn(id, { model, metadata: `{"id":"${id}"}` }), bytes(""), start + hourMs);
      }
      await conversations.insert(turn("e", { format: "responses" }), bytes(""), start + hourMs);
      const page = { keyHolder: me, format: "chat", now: start, model: null, metadata: "{}", after: null, limit: 2 };
      const ids = async (changes: object, order: "asc" | "desc" = "asc") =>
        (await conversations.list({ ...page, ...changes }, order))?.map(({ id }) => id);
      expect(await ids({})).toEqual(["a", "b"]);
      expect(await ids({ after: "b" })).toEqual(["c", "d"]);
      expect(await ids({ after: "c" }, "desc")).toEqual(["b", "a"]);
      expect(await ids({ model: "m/2" })).toEqual(["d"]);
      expect(await ids({ format: "responses" })).toEqual(["e"]);
      expect(await ids({ metadata: '{"id":"c"}' })).toEqual(["c"]);
      expect(await ids({ after: "none" })).toBeUndefined();
      expect(await ids({ keyHolder: "key_2 gateway" })).toEqual([]);
    });
  });

  describe(`${name}: ledger`, () => {
    on("a line comes back as it was written, and is written once", async (database, store) => {
      const whole = ledgerLine("req_1", {
        tags: ["a", 'b"'],
        persona: "p/q",
        personaVersion: "3",
        variant: "next",
        callOf: "req_0",
      });
      const bare = ledgerLine("req_1", {
        attempt: 2,
        at: start + 1,
        provider: null,
        upstreamModel: null,
        upstreamFormat: null,
        upstreamKey: "1a2b3c4d",
        upstreamEndpoint: "https://eu.example.com/v1",
        failure: "rate_limit",
        status: null,
        cost: null,
        costs: null,
        priceSource: "unknown",
        priceDate: null,
        priceNote: "none",
        firstTokenMs: null,
      });
      expect((await store.ledger.append([whole, bare, whole])).added).toBe(2);
      const other = await database.open();
      const again = [{ ...whole, cost: 1_000_000 }, ledgerLine("req_2", { at: start + 2 })];
      expect((await other.ledger.append(again)).added).toBe(1);
      await other.close();
      expect(await store.ledger.lines({ ...always, limit: 10 })).toEqual([
        ledgerLine("req_2", { at: start + 2 }),
        bare,
        whole,
      ]);
      expect(await store.ledger.lines({ ...always, requestId: bare.requestId, limit: 10 })).toEqual(
        [bare, whole].filter(({ requestId }) => requestId === bare.requestId),
      );
      const [sum] = await store.ledger.sums(always, [], { limit: 1 });
      expect(sum).toMatchObject({ calls: 3, cost: 720, unknownCosts: 1 });
    });

    on("sums are of several keys, by their ids", async (_, store) => {
      const at = 1_800_000_000_000;
      const lines = ["key_0a", "key_0b", "key_0c"].map((keyId, cost) =>
        ledgerLine(`req_several_${keyId}`, { at, keyId, cost, costs: null }),
      );
      await store.ledger.append(lines);
      const filter = { since: at, until: at + 1, where: { key: "key_0b,key_0c,key_0d" } };
      const sums = await store.ledger.sums(filter, ["key"], { limit: 10 });
      expect(sums.map(({ group, cost }) => [group[0], cost])).toEqual([
        ["key_0b", 1],
        ["key_0c", 2],
      ]);
    });

    on("sums are exact for any time, filter and grouping", async (_, store) => {
      const lines = manyLines(600);
      for (let at = 0; at < lines.length; at += 97) await store.ledger.append(lines.slice(at, at + 97));
      const midnight = Math.ceil(start / dayMs) * dayMs;
      const times = [
        [0, start * 2],
        [midnight, midnight + dayMs],
        [start + hourMs, start + 3 * dayMs + 5 * hourMs],
        [midnight - 5, midnight + 5],
        [midnight + hourMs, midnight + 2 * hourMs],
        [start + 9 * dayMs, start],
      ] as const;
      const filters: NonNullable<LedgerFilter["where"]>[] = [
        {},
        { key: "key_1" },
        { model: "it's", tag: "blue" },
        { persona: "troupe/guide" },
        { persona: "", tag: "" },
        { "metadata.team": "a", ended: "finished" },
        { "metadata.team": "" },
      ];
      const groupings: LedgerGroup[][] = [
        [],
        ...[...ledgerGroups, "metadata.team"].map((group) => [group]),
        ["day", "tag"],
        ["month", "user", "metadata.team"],
      ];
      for (const [at, [since, until]] of times.entries())
        for (const [which, where] of filters.entries())
          await Promise.all(
            some(groupings, 14, at * filters.length + which).map(async (by) => {
              const found = await store.ledger.sums({ since, until, where }, by, { limit: 1000 });
              expect(found).toEqual(byGroup(sumsOf(lines, { since, until, where }, by)));
              const withTimes = await store.ledger.sums({ since, until, where }, by, {
                limit: 1000,
                firstTokens: true,
              });
              expect(withTimes).toEqual(byGroup(sumsOf(lines, { since, until, where }, by, true)));
            }),
          );
    });

    on("sums are those of the lines for questions of all kinds, whichever rollup answers", async (_, store) => {
      const lines = manyLines(400);
      for (let at = 0; at < lines.length; at += 61) await store.ledger.append(lines.slice(at, at + 61));
      const random = new Random(11);
      const names = [...ledgerGroups, "metadata.team"];
      for (let number = 0; number < runs(150); number += 1) {
        const by = [...new Set(Array.from({ length: random.below(4) }, () => random.pick(names)))];
        const of = valuesOf(random.pick(lines));
        const filters = Array.from({ length: random.below(3) }, () => random.pick(names));
        const where = Object.fromEntries(
          filters.flatMap((name): [string, string][] =>
            name === "tag"
              ? [[name, random.pick(["", "blue", "red"])]]
              : (timeGroups as readonly string[]).includes(name)
                ? []
                : [[name, of[name]!]],
          ),
        );
        // Whole days, hours, and what is neither.
        const [unit, end] = random.pick([
          [dayMs, dayMs],
          [hourMs, dayMs],
          [1, hourMs],
          [1, 1],
        ] as const);
        const times = [unit, end].map((size) => Math.ceil((start + random.below(4 * dayMs)) / size) * size);
        const [since, until] = times.sort((a, b) => a - b) as [number, number];
        const found = await store.ledger.sums({ since, until, where }, by, { limit: 1000, firstTokens: true });
        const expected = byGroup(sumsOf(lines, { since, until, where }, by, true));
        expect({ by, where, since, until, found }).toEqual({ by, where, since, until, found: expected });
      }
    });

    on("sums come page by page in the order of their groups, each once", async (_, store) => {
      await store.ledger.append(manyLines(200));
      for (const by of [["hour", "model"], ["tag", "provider", "user"], ["day"]]) {
        const all = await store.ledger.sums(always, by, { limit: 1000 });
        const found: LedgerSum[] = [];
        for (;;) {
          const after = found.at(-1)?.group;
          const page = await store.ledger.sums(always, by, { limit: 7, ...(after && { after }) });
          found.push(...page);
          if (page.length < 7) break;
        }
        expect(found).toEqual(all);
        expect(found).toEqual(byGroup(found));
      }
    });

    on("whoever has left is read nothing", async (_, store) => {
      await store.ledger.append(manyLines(20));
      const signal = AbortSignal.abort(new Error("gone"));
      await expect(store.ledger.sums(always, ["day"], { limit: 9, signal })).rejects.toThrow("gone");
      const page = { ...always, where: { key: "key_1" }, limit: 9, signal };
      await expect(store.ledger.lines(page)).rejects.toThrow("gone");
    });

    const rich = ledgerLine("");
    const zeros = <T extends object>(kinds: T) => Object.fromEntries(Object.keys(kinds).map((kind) => [kind, 0])) as T;
    const common = {
      tokens: { ...zeros(rich.tokens), input: 3, output: 4 },
      costs: { ...zeros(rich.costs!), input: 5, output: 6 },
    };

    on("batches of like lines are written whole, and what is there already is not written again", async (_, store) => {
      const written: LedgerLine[] = [];
      for (let size = 1; size <= 45; size += 1) {
        const fresh = Array.from({ length: size }, (_, at) => {
          const number = written.length + at;
          const model = size % 3 === 0 && at % 4 === 0 ? "m/2" : "m/1";
          // Over midnight, which parts like lines into two days.
          const line = { at: start + number * hourMs, model, cost: number, totalMs: size };
          // Most lines have nothing of the rarer kinds, and may be written in another way.
          return ledgerLine(`req_${number}`, number % 7 < 4 ? { ...line, ...common } : line);
        });
        const known = size % 5 === 0 ? written.slice(-3).map((line) => ({ ...line, cost: 1_000_000 })) : [];
        expect((await store.ledger.append([...fresh.slice(1), ...known, fresh[0]!])).added).toBe(size);
        written.push(...fresh);
      }
      const later = { since: 0, until: start + 100 * dayMs };
      expect(await store.ledger.lines({ ...later, limit: 2000 })).toEqual(written.toReversed());
      for (const by of [["day"], ["day", "model"]] as const) {
        expect(byGroup(await store.ledger.sums(later, by, { limit: 2000 }))).toEqual(
          byGroup(sumsOf(written, later, by)),
        );
      }
    });

    on("lines come latest first, page by page, each once", async (_, store) => {
      const lines = manyLines(100).map((line) => ({ ...line, at: start + (line.at % 7) }));
      await store.ledger.append(lines);
      const latestFirst = (a: LedgerLine, b: LedgerLine) =>
        b.at - a.at || (a.requestId < b.requestId ? 1 : -1) || b.attempt - a.attempt;
      const filters: NonNullable<LedgerFilter["where"]>[] = [
        {},
        { key: "key_2" },
        { ended: "finished", surface: "gateway" },
        { tag: "red" },
        { model: "none" },
        { "metadata.team": "b", client: "curl" },
      ];
      for (const where of filters) {
        const wanted = lines.filter((line) => fits(line, where));
        const found: LedgerLine[] = [];
        for (;;) {
          const before = found.at(-1);
          const page = await store.ledger.lines({ ...always, where, limit: 7, ...(before && { before }) });
          found.push(...page);
          if (page.length < 7) break;
        }
        expect(found).toEqual(wanted.toSorted(latestFirst));
      }
    });

    on("lines are found by their own numbers, page by page, each once, as those in memory are", async (_, store) => {
      const lines = manyLines(120).map((line) => ({ ...line, at: start + (line.at % 7) }));
      await store.ledger.append(lines);
      const latestFirst = (a: LedgerLine, b: LedgerLine) =>
        b.at - a.at || (a.requestId < b.requestId ? 1 : -1) || b.attempt - a.attempt;
      const over = (from: number) => [[from, Number.MAX_SAFE_INTEGER]] as const;
      const filters: Pick<LedgerFilter, "where" | "own">[] = [
        { own: [{ member: "totalMs", ranges: over(25_000) }] },
        { own: [{ member: "firstTokenMs", ranges: over(1_200) }], where: { key: "key_2" } },
        { own: [{ member: "cost", ranges: over(500) }], where: { ended: "finished,broken", tag: "red" } },
        {
          own: [
            { member: "status", ranges: [[429, 429] as const, [500, 599] as const] },
            { member: "attempt", ranges: over(2) },
          ],
          where: { model: "it's", "metadata.team": "" },
        },
        { own: [{ member: "status", ranges: [[600, 700]] }] },
        { where: { ended: "refused,replayed", error_code: "overloaded" } },
        { where: { price_source: "unknown,list", error_code: "" }, own: [] },
        { where: { failure: "" } },
      ];
      for (const filter of filters) {
        const wanted = lines.filter((line) => isChosen(line, filter)).toSorted(latestFirst);
        const found: LedgerLine[] = [];
        for (;;) {
          const before = found.at(-1);
          const page = await store.ledger.search({ ...always, ...filter, limit: 7, ...(before && { before }) });
          expect(page.reached).toBeUndefined();
          found.push(...page.lines);
          if (page.lines.length < 7) break;
        }
        expect(found).toEqual(wanted);
      }
      const ends = lines.map(({ at, totalMs }) => at + totalMs).toSorted((a, b) => a - b);
      const endedSince = ends[100]!;
      expect((await store.ledger.search({ ...always, endedSince, limit: 200 })).lines).toEqual(
        lines.filter(({ at, totalMs }) => at + totalMs >= endedSince).toSorted(latestFirst),
      );
      expect(filters.map((filter) => lines.filter((line) => isChosen(line, filter)).length > 0)).toEqual(
        filters.map((_one, at) => at !== 4),
      );
    });

    on("a search that looks at too many lines says how far it came, and goes on from there", async (_, store) => {
      // Two of each moment.
      await store.ledger.append(
        Array.from({ length: 60 }, (_one, at) =>
          ledgerLine(`req_${String(at).padStart(2, "0")}`, {
            ...{ at: start + Math.floor(at / 2), totalMs: [6, 7].includes(at) ? 9 : 1 },
          }),
        ),
      );
      const slow = { ...always, own: [{ member: "totalMs", ranges: [[9, 9]] }], limit: 3 } as const;
      const found: string[] = [];
      let reached: number | undefined = start * 2;
      let searches = 0;
      for (; reached !== undefined; searches += 1) {
        const before = placeBefore(reached);
        const page: FoundLines = await store.ledger.search({ ...slow, before }, 20);
        found.push(...page.lines.map(({ requestId }) => requestId));
        expect(page.reached ?? 0).toBeLessThan(reached);
        reached = page.reached;
      }
      expect([found, searches]).toEqual([["req_07", "req_06"], 3]);
    });

    on("old days are removed whole, in steps", async (_, store) => {
      const midnight = Math.ceil(start / dayMs) * dayMs;
      const old = [1, 2, 3].map((at) => ledgerLine(`old_${at}`, { at: midnight - at }));
      const kept = ledgerLine("kept", { at: midnight });
      await store.ledger.append([...old, kept]);
      const remove = () => store.maintenance.removeLedgerDays(midnight + dayMs - 1, 2);
      let steps = 0;
      while ((await remove()) > 0) steps += 1;
      expect(steps).toBeGreaterThan(0);
      expect(await store.ledger.lines({ ...always, limit: 9 })).toEqual([kept]);
      expect(byGroup(await store.ledger.sums(always, ["day"], { limit: 9 }))).toEqual(sumsOf([kept], always, ["day"]));
    });
  });

  describe(`${name}: maintenance`, () => {
    on("removes what has expired, the earliest first and so many at a time, and never what runs", async (_, store) => {
      for (let at = 0; at < 5; at += 1) {
        const lease = (await store.runs.claim(newCall(`id-${at}`)))!;
        if (at < 4) await store.runs.finish(lease, finished({ expiresAt: start + at }));
      }
      const { maintenance } = store;
      expect(await maintenance.removeExpiredRuns(start + 2, 2)).toBe(2);
      expect(await store.runs.find("s", "id-1")).toBeUndefined();
      expect(await maintenance.removeExpiredRuns(start + 2, 9)).toBe(1);
      expect(await maintenance.runTotals()).toEqual({ running: 1, finished: 1, interrupted: 0, bytes: 4 });
      await store.conversations.insert(turn("a"), bytes(""), start + 1);
      await store.conversations.insert(turn("b"), bytes(""), start + 9);
      while ((await maintenance.removeExpiredTurns(start + 1, 1)) > 0);
      expect(await maintenance.conversationTotals()).toMatchObject({ conversations: 1, turns: 1, deleted: 0 });
      const response = turn("c", { format: "responses", shown: bytes("shown") });
      for (let at = 0; at < 2; at += 1) {
        await store.conversations.insert(response, bytes(""), start + 1);
        while ((await maintenance.removeExpiredTurns(start + 1, 9)) > 0);
        expect(await store.conversations.shownChain("c")).toEqual([]);
      }
    });

    on("copies all as it stands, checks, tells its size, and counts those that serve", async (database, store) => {
      await store.keys.insert(gatewayKey("a"));
      const target = database.copyTarget?.();
      if (target === undefined) {
        await expect(store.maintenance.copyTo("/nowhere/copy.db")).rejects.toBeInstanceOf(StorageError);
      } else {
        await store.maintenance.copyTo(target.path);
        await store.keys.insert(gatewayKey("b"));
        const copy = await target.open();
        expect((await copy.keys.list()).map(({ id }) => id)).toEqual(["a"]);
        await copy.close();
      }
      await store.maintenance.check();
      expect(await store.maintenance.damage()).toBeUndefined();
      expect((await store.maintenance.size()).bytes).toBeGreaterThan(0);
      expect(await store.maintenance.otherServers()).toBe(0);
      const other = await database.open();
      await other.runs.interruptAbandoned(start);
      expect(await store.maintenance.otherServers()).toBe(1);
      await other.close();
      expect(await store.maintenance.otherServers()).toBe(0);
    });

    on("once closed, every method rejects with StorageError, and closing again is nothing", async (_, store) => {
      await store.close();
      await store.close();
      for (const ask of Object.values(everyMethod(store))) await expect(ask()).rejects.toBeInstanceOf(StorageError);
    });
  });
}

const always: LedgerFilter = { since: 0, until: start * 2 };

/** Lines of four days, none like another, in no order; the same each time. */
function manyLines(count: number): LedgerLine[] {
  const pick = <T>(from: readonly T[], at: number) => from[at % from.length]!;
  return Array.from({ length: count }, (_, at) => {
    const hash = (at * 2_654_435_761) >>> 3;
    const cost = hash % 5 === 0 ? null : hash % 1000;
    const tokens = Object.fromEntries(tokenKinds.map((kind, place) => [kind, (hash >> place) % 100]));
    return ledgerLine(`req_${at}`, {
      attempt: 1 + (hash % 3),
      at: start + (hash % (4 * dayMs)),
      keyId: pick(["key_1", "key_2"], hash),
      tags: pick([[], ["blue"], ["blue", "red"]], hash >> 2),
      surface: pick(["gateway", "orchestrator"], hash >> 3),
      format: pick(["chat", "messages"], hash >> 4),
      model: pick(["a/1", "a/2", "it's"], hash >> 5),
      persona: pick([null, "troupe/guide"], hash >> 6),
      provider: pick(["a", "b", null], hash >> 7),
      upstreamModel: pick(["1", null], hash >> 8),
      ended: pick(callEnds, hash >> 9),
      errorCode: pick([null, null, "overloaded"], hash >> 15),
      errorText: pick([null, "it said so"], hash >> 16),
      status: pick([200, null, 429, 500, 503], hash >> 10),
      totalMs: hash % 50_000,
      counted: pick(["upstream", "estimated", "unknown"] as const, hash >> 10),
      client: pick(["curl", "OpenAI/Python", null], hash >> 11),
      user: pick(["u1", null], hash >> 12),
      metadata: pick(['{"team":"a"}', null, '{"area":"x","team":"b"}'], hash >> 13),
      tokens: tokens as LedgerLine["tokens"],
      firstTokenMs: pick([null, 0, 50, 51, 120, 1_200, 102_400, 102_401, 500_000], hash >> 14),
      cost,
      costs: cost === null ? null : { ...ledgerLine("").costs!, input: cost },
    });
  });
}

/** What a line stands under, by the names of reports. */
function valuesOf(line: LedgerLine): Record<string, string> {
  const time = new Date(line.at).toISOString();
  return {
    month: time.slice(0, 7),
    day: time.slice(0, 10),
    hour: `${time.slice(0, 13)}:00Z`,
    key: line.keyId,
    surface: line.surface,
    format: line.format,
    model: line.model,
    persona: line.persona ?? "",
    persona_version: line.personaVersion ?? "",
    variant: line.variant ?? "",
    provider: line.provider ?? "",
    upstream_model: line.upstreamModel ?? "",
    upstream_format: line.upstreamFormat ?? "",
    upstream_key: line.upstreamKey ?? "",
    upstream_endpoint: line.upstreamEndpoint ?? "",
    service_tier: line.serviceTier ?? "",
    client: line.client ?? "",
    user: line.user ?? "",
    ended: line.ended,
    failure: line.failure ?? "",
    error_code: line.errorCode ?? "",
    price_source: line.priceSource,
    "metadata.team": (JSON.parse(line.metadata ?? "{}") as { team?: string }).team ?? "",
  };
}

const fits = (line: LedgerLine, where: LedgerFilter["where"] = {}) =>
  Object.entries(where).every(([name, value]) => {
    if (name === "tag") return value === "" ? line.tags.length === 0 : line.tags.includes(value);
    return valuesOf(line)[name] === value;
  });

/** What `sums` must give, by adding up one line after the other. */
export function sumsOf(
  lines: readonly LedgerLine[],
  filter: LedgerFilter,
  by: readonly LedgerGroup[],
  firstTokens = false,
): LedgerSum[] {
  const zeros = <K extends string>(kinds: readonly K[]) =>
    Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<K, number>;
  const sums = new Map<string, ReturnType<typeof empty>>();
  const empty = (group: readonly string[]) => ({
    group,
    calls: 0,
    ended: zeros(callEnds),
    tokens: zeros(tokenKinds),
    cost: 0,
    costs: zeros(costKinds),
    unknownCosts: 0,
    estimated: 0,
    ...(firstTokens && { firstTokens: [0, ...firstTokenBounds].map(() => 0) }),
  });
  if (by.length === 0) sums.set("[]", empty([]));
  for (const line of lines) {
    if (line.at < filter.since || line.at >= filter.until) continue;
    if (!fits(line, filter.where)) continue;
    const named = valuesOf(line);
    const tags = !by.includes("tag") ? [""] : line.tags.length === 0 ? [""] : line.tags;
    for (const tag of tags) {
      if (filter.where?.["tag"] !== undefined && by.includes("tag") && tag !== filter.where["tag"]) continue;
      const group = by.map((name) => (name === "tag" ? tag : named[name]!));
      const id = JSON.stringify(group);
      const sum = sums.get(id) ?? empty(group);
      sums.set(id, sum);
      sum.calls += 1;
      sum.ended[line.ended] += 1;
      for (const kind of tokenKinds) sum.tokens[kind] += line.tokens[kind];
      sum.cost += line.cost ?? 0;
      for (const kind of costKinds) sum.costs[kind] += line.costs?.[kind] ?? 0;
      sum.unknownCosts += line.cost === null ? 1 : 0;
      sum.estimated += line.counted === "estimated" ? 1 : 0;
      const { firstTokenMs } = line;
      if (firstTokenMs === null || sum.firstTokens === undefined) continue;
      const span = firstTokenBounds.findIndex((bound) => firstTokenMs <= bound);
      sum.firstTokens[span === -1 ? firstTokenBounds.length : span]! += 1;
    }
  }
  return [...sums.values()];
}

export const byGroup = (sums: readonly LedgerSum[]) =>
  [...sums].sort((a, b) => (a.group.join("\0") < b.group.join("\0") ? -1 : 1));

type MethodOf<Part> = Exclude<keyof Part, "version" | "catchUp" | "leaseTerms" | "holds">;
type AnyMethod =
  | MethodOf<Store["keys"]>
  | MethodOf<Store["runs"]>
  | `conversations.${keyof Store["conversations"]}`
  | `budgets.${keyof Store["budgets"]}`
  | `audit.${keyof Store["audit"]}`
  | `alerts.${keyof Store["alerts"]}`
  | `personaVersions.${keyof PersonaVersionRepository}`
  | `previews.${keyof PreviewRepository}`
  | `testRuns.${keyof TestRunRepository}`
  | `ledger.${keyof Store["ledger"]}`
  | Exclude<keyof Store["maintenance"], "refusal" | "packLedgerDays">;

/** Every asynchronous method, called once; the type fails where one is missing. */
function everyMethod({
  keys,
  runs,
  conversations,
  budgets,
  audit,
  alerts,
  personaVersions,
  previews,
  testRuns,
  ledger,
  maintenance,
}: Store): Record<AnyMethod, () => Promise<unknown>> {
  const id = { call: 1, run: "00000001" };
  const page = { keyHolder: me, format: "chat", now: start, model: null, metadata: "{}", after: null, limit: 2 };
  const { model, upstreamAccount, upstreamId, completion } = turn("a");
  const settled = { state: "failed", model, upstreamAccount, upstreamId, completion, shown: completion } as const;
  return {
    list: () => keys.list(),
    changes: () => keys.changes(0),
    lastUses: () => keys.lastUses(),
    insert: () => keys.insert(gatewayKey("a")),
    insertFirst: () => keys.insertFirst(gatewayKey("a"), () => {}),
    revoke: () => keys.revoke("a", start),
    update: () => keys.update("a", {}),
    replaceSecret: () => keys.replaceSecret("a", "", "p", "h", null),
    touch: () => keys.touch(new Map([["a", start]])),
    claim: () => runs.claim(newCall("a")),
    renew: () => runs.renew([id]),
    interruptAbandoned: () => runs.interruptAbandoned(start),
    find: () => runs.find("s", "a"),
    get: () => runs.get(id),
    body: () => runs.body(id),
    watch: () => runs.watch(id),
    watched: () => runs.watched(),
    append: () => runs.append(id, "{}", { firstId: 0, data: bytes("x") }),
    eventsAt: () => runs.eventsAt(id, 0),
    finish: () => runs.finish(id, finished()),
    release: () => runs.release(id),
    discard: () => runs.discard(id),
    "conversations.find": () => conversations.find(me, "a", start),
    "conversations.chain": () => conversations.chain("a"),
    "conversations.shownChain": () => conversations.shownChain("a"),
    "conversations.settle": () => conversations.settle("a", settled),
    "conversations.stopped": () => conversations.stopped(["a"]),
    "conversations.touch": () => conversations.touch("a", start),
    "conversations.insert": () => conversations.insert(turn("a"), bytes(""), start),
    "conversations.list": () => conversations.list(page, "asc"),
    "conversations.setMetadata": () => conversations.setMetadata(me, "a", "{}", start),
    "conversations.markDeleted": () => conversations.markDeleted(me, "a", start),
    "budgets.list": () => budgets.list(),
    "budgets.set": () => budgets.set({ scope: "all", period: "day", limit: 1, updatedAt: start }),
    "budgets.add": () => budgets.add({ scope: "all", period: "day" }, 1, start),
    "budgets.remove": () => budgets.remove({ scope: "all", period: "day" }),
    "budgets.reserve": () => budgets.reserve(reservation("a", 1, 10)),
    "budgets.spending": () => budgets.spending([{ scope: "all", span: "prepaid" }]),
    "budgets.forgetSpending": () => budgets.forgetSpending("2026-11-22"),
    "audit.insert": () => audit.insert(act("a")),
    "audit.list": () => audit.list(acts()),
    "personaVersions.keep": () => personaVersions.keep(versionRow("a/b", 1)),
    "personaVersions.known": () => personaVersions.known(["a/b@1"]),
    "personaVersions.touch": () => personaVersions.touch(["a/b@1"], start),
    "personaVersions.get": () => personaVersions.get("a/b@1"),
    "personaVersions.list": () => personaVersions.list("a/b"),
    "personaVersions.labels": () => personaVersions.labels(),
    "personaVersions.moveLabel": () => personaVersions.moveLabel(labelRow("stable", 1), null, act("m")),
    "personaVersions.removeLabel": () => personaVersions.removeLabel(labelRow("stable", 1), act("r")),
    "previews.put": () => previews.put(previewRow("pr-1"), 9, act("p")),
    "previews.revision": () => previews.revision("pr-1", start),
    "previews.get": () => previews.get("pr-1", start),
    "previews.list": () => previews.list(start),
    "previews.drop": () => previews.drop("pr-1", start, act("d")),
    "testRuns.put": () =>
      testRuns.put({ persona: "a/b", version: "1", at: start, passed: 0, failed: 0, errors: 0, run: "{}" }),
    "testRuns.get": () => testRuns.get("a/b"),
    "testRuns.list": () => testRuns.list(),
    "alerts.causes": () => alerts.causes(),
    "alerts.begin": () => alerts.begin("c", { id: "a", body: "{}", at: start }, ["d"]),
    "alerts.end": () => alerts.end("c", { id: "b", body: "{}", at: start }, ["d"]),
    "alerts.claim": () => alerts.claim(start, start + 1, 1),
    "alerts.postpone": () => alerts.postpone({ id: "a", destination: "d" }, start),
    "alerts.remove": () => alerts.remove({ id: "a", destination: "d" }),
    "alerts.queued": () => alerts.queued(1),
    "alerts.waiting": () => alerts.waiting(),
    "ledger.append": () => ledger.append([ledgerLine("a")]),
    "ledger.interrupted": () => ledger.interrupted(),
    "ledger.sums": () => ledger.sums(always, [], { limit: 1 }),
    "ledger.search": () => ledger.search({ ...always, own: [{ member: "totalMs", ranges: [[1, 2]] }], limit: 1 }),
    "ledger.lines": () => ledger.lines({ ...always, limit: 1 }),
    removeLedgerDays: () => maintenance.removeLedgerDays(start, 1),
    size: () => maintenance.size(),
    check: () => maintenance.check(),
    damage: () => maintenance.damage(),
    copyTo: () => maintenance.copyTo("/nowhere/copy.db"),
    shrink: () => maintenance.shrink(1),
    removeExpiredRuns: () => maintenance.removeExpiredRuns(start, 1),
    removeExpiredTurns: () => maintenance.removeExpiredTurns(start, 1),
    removeDeletedTurns: () => maintenance.removeDeletedTurns(start, 1),
    removeUnusedVersions: () => maintenance.removeUnusedVersions(start, 1),
    removeEndedPreviews: () => maintenance.removeEndedPreviews(start, 1),
    runTotals: () => maintenance.runTotals(),
    conversationTotals: () => maintenance.conversationTotals(),
    otherServers: () => maintenance.otherServers(),
  };
}

/** That nothing can be written with a lease that was lost. */
async function expectFenced({ runs: repository }: Store, lease: Lease): Promise<void> {
  const before = await repository.find("s", "a");
  expect(await repository.append(lease, "{}", { firstId: 1, data: bytes("y") })).toBe(false);
  expect(await repository.finish(lease, finished({ body: bytes("stale") }))).toBe(false);
  await repository.release(lease);
  expect(await repository.find("s", "a")).toEqual(before!);
  expect(await repository.renew([lease])).toEqual([lease]);
}
