/** Idempotency records in memory, for several nodes on one world of time: leases by the server's clock, and a way that may fail. */
import { StorageError } from "../../src/store/contract/storage-error.ts";
import type { CallId, IdempotencyRecord, Lease, RunRepository, StoredEvents } from "../../src/store/contract/store.ts";
import type { Machine } from "../simulation/machine.ts";
import type { World } from "../simulation/world.ts";

export const modelLeaseMs = 3_000;
const deadlineMs = 1_000;

type Row = IdempotencyRecord & {
  readonly scope: string;
  readonly requestId: string;
  watched: boolean;
  body: Uint8Array | undefined;
  readonly batches: Map<number, Uint8Array>;
};

export class ModelledRuns {
  readonly #world: World;
  readonly #rows: Row[] = [];
  readonly #lapses = new Map<string, number>();
  #calls = 0;
  statements = 0;
  /** How many batches of events were written. */
  appended = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** @param machine whose way to the database may be cut */
  of(machine: Machine): RunRepository {
    const world = this.#world;
    const owner = machine.newId();
    let heldUntil = Number.NEGATIVE_INFINITY;
    const ask = <T>(work: () => T): Promise<T> => {
      this.statements += 1;
      const { promise, resolve, reject } = Promise.withResolvers<T>();
      const cancel = machine.setTimer(deadlineMs, () =>
        reject(new StorageError("away", "model", "The model is away.")),
      );
      world.after(world.between(0, 3), () => {
        if (machine.isCutFrom("database")) return;
        const answer = work();
        world.after(world.between(0, 3), () => {
          if (machine.isCutFrom("database")) return;
          machine.deliver(() => {
            cancel();
            resolve(answer);
          });
        });
      });
      return promise;
    };
    const isAlive = (name: string) => (this.#lapses.get(name) ?? 0) > world.now;
    const shown = (row: Row | undefined): IdempotencyRecord | undefined => {
      if (row === undefined) return undefined;
      const { scope: _, requestId: __, watched: ___, body: ____, batches: _____, owner: by, ...rest } = row;
      const heldBy = by === undefined ? null : by === owner ? "self" : isAlive(by) ? "other" : "gone";
      return { ...rest, heldBy, ...(by !== undefined && { owner: by }) };
    };
    const find = ({ call, run }: CallId) => this.#rows.find((row) => row.call === call && row.run === run);
    const held = (lease: Lease) => {
      const row = find(lease);
      return row?.state === "running" ? row : undefined;
    };
    const register = () => {
      const sentAt = world.now;
      return ask(() => {
        if (this.#lapses.has(owner) && !isAlive(owner)) return false;
        this.#lapses.set(owner, world.now + modelLeaseMs);
        return true;
      }).then((isHeld) => {
        heldUntil = isHeld ? sentAt + modelLeaseMs : Number.NEGATIVE_INFINITY;
      });
    };
    return {
      leaseTerms: { renewMs: modelLeaseMs / 3, lapseMs: modelLeaseMs },
      holds: () => world.now < heldUntil,
      claim: async ({ scope, requestId, fingerprint, run }) => {
        await register();
        return ask(() => {
          if (!isAlive(owner)) return undefined;
          const there = this.#rows.findIndex((row) => row.scope === scope && row.requestId === requestId);
          if (there >= 0 && this.#rows[there]!.state !== "interrupted") return undefined;
          if (there >= 0) this.#rows.splice(there, 1);
          const call = ++this.#calls;
          const nothing = {
            expiresAt: null,
            status: null,
            headers: null,
            events: null,
            bodyFrom: null,
            body: undefined,
          };
          const state = { state: "running", heldBy: null, owner, watched: false } as const;
          this.#rows.push({ call, run, fingerprint, scope, requestId, ...state, ...nothing, batches: new Map() });
          return { call, run, owner };
        });
      },
      renew: async (leases) => {
        await register();
        return leases.filter((lease) => held(lease) === undefined);
      },
      interruptAbandoned: (at) =>
        ask(() => {
          const gone = this.#rows.filter(({ state, owner: by }) => state === "running" && !isAlive(by!));
          for (const row of gone) {
            Object.assign(row, { state: "interrupted", expiresAt: at, watched: false });
            delete row.owner;
            row.batches.clear();
          }
          return gone.length;
        }),
      find: (scope, requestId) =>
        ask(() => shown(this.#rows.find((row) => row.scope === scope && row.requestId === requestId))),
      get: (id) => ask(() => shown(find(id))),
      body: (id) => ask(() => find(id)?.body),
      watch: (id) =>
        ask(() => {
          const row = find(id);
          if (row !== undefined) row.watched = true;
        }),
      watched: () =>
        ask(() => this.#rows.filter(({ watched, owner: by }) => watched && by === owner).map(({ call }) => call)),
      append: (lease, headers, { firstId, data }) =>
        ask(() => {
          const row = held(lease);
          if (row === undefined) return false;
          this.appended += 1;
          row.headers = headers;
          row.batches.set(firstId, data);
          return true;
        }),
      eventsAt: (id, number) =>
        ask((): StoredEvents | undefined => {
          const firsts = [...(find(id)?.batches.keys() ?? [])].filter((firstId) => firstId <= number);
          if (firsts.length === 0) return undefined;
          const firstId = Math.max(...firsts);
          return { firstId, data: find(id)!.batches.get(firstId)! };
        }),
      finish: (lease, { body, status, headers, events, bodyFrom, expiresAt }) =>
        ask(() => {
          const row = held(lease);
          if (row === undefined) return find(lease)?.state === "finished";
          Object.assign(row, { state: "finished", status, headers, events, bodyFrom, expiresAt, body });
          delete row.owner;
          return true;
        }),
      release: (lease) =>
        ask(() => {
          const row = held(lease);
          if (row !== undefined) this.#rows.splice(this.#rows.indexOf(row), 1);
        }),
      discard: (id) =>
        ask(() => {
          const row = find(id);
          if (row?.state === "finished") this.#rows.splice(this.#rows.indexOf(row), 1);
        }),
    };
  }
}
