/**
 * The statements of src/store/postgres as a database does them: each at once, when it arrives. One that is not known here is an
 * error, so that a new one is modelled too.
 */
import type { SQL } from "bun";
import { windowMs } from "../../../src/limits/limiter.ts";
import { goodForMs } from "../../../src/store/contract/windows.ts";
import { ModelWindows } from "../../helpers/model-windows.ts";
import type { Machine } from "../machine.ts";
import { epoch } from "../machine.ts";
import type { Mutation } from "../mutations.ts";
import { Network, type Weather } from "../network.ts";
import type { World } from "../world.ts";
import { BudgetTables } from "./budgets.ts";
import { CallTables } from "./calls.ts";
import { LeaseOwners } from "./lease-owners.ts";
import { NodeTable } from "./nodes.ts";
import { windowStatements } from "./windows.ts";

export type Value = string | number | boolean | null | Uint8Array;
export type Result = { readonly rows: readonly object[]; readonly count?: number };
/** Words that no other statement has, and what it does. */
export type Statement = readonly [words: string, run: (values: readonly Value[]) => Result];

export const none: Result = { rows: [] };
export const changed = (count: number): Result => ({ rows: [], count });

/** No node's clock is the server's. */
const serverAheadMs = 1_234_567;

export class ModelledPostgres {
  readonly network: Network;
  readonly leaseOwners: LeaseOwners;
  readonly calls: CallTables;
  readonly budgets: BudgetTables;
  readonly windows: ModelWindows;
  readonly #statements: readonly Statement[];
  /** By their whole text. */
  readonly #known = new Map<string, Statement[1]>();
  statements = 0;
  /** When it lost its windows, which are not logged. */
  readonly losses: number[] = [];
  readonly #world: World;

  constructor(world: World, weather: Weather, broken: ReadonlySet<Mutation>) {
    this.#world = world;
    this.network = new Network(world, "database", weather);
    this.leaseOwners = new LeaseOwners(() => world.now, broken);
    this.calls = new CallTables(this.leaseOwners, broken);
    this.budgets = new BudgetTables(() => epoch + world.now, this.leaseOwners, broken);
    this.windows = new ModelWindows(() => world.now + serverAheadMs, windowMs + goodForMs, broken);
    this.#statements = [
      ...this.leaseOwners.statements,
      ...this.budgets.statements,
      ...windowStatements(this.windows),
      ...new NodeTable(() => world.now, broken).statements,
      ...this.calls.statements,
    ];
  }

  /** As a crash does. */
  crash(awayMs: number): void {
    this.network.restart(awayMs);
    this.windows.wipe();
    this.losses.push(this.#world.now);
  }

  /** @returns how to fail over to a server that has what this one has now; of calls and leases alone */
  copy(): (awayMs: number) => void {
    const [calls, leaseOwners] = [this.calls.copy(), this.leaseOwners.copy()];
    return (awayMs) => {
      this.crash(awayMs);
      leaseOwners();
      for (const id of calls()) this.calls.onLost(id);
    };
  }

  /** What Bun's client is to the store: a pool, which is thrown away where a statement is late. */
  client(machine: Machine): SQL {
    const open = new Set<(error: unknown) => void>();
    const unsafe = (text: string, values: readonly Value[]) => {
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      open.add(reject);
      const work = () => this.#run(text, values);
      this.network.ask(machine, work, (rows) => {
        open.delete(reject);
        if (rows === undefined) reject(closed());
        else resolve(rows);
      });
      return promise;
    };
    const close = async () => {
      for (const reject of open) reject(closed());
      open.clear();
    };
    return { unsafe, close } as unknown as SQL;
  }

  #run(text: string, values: readonly Value[]): object {
    this.statements += 1;
    const { rows, count = rows.length } = this.#statementOf(text)(values);
    return Object.assign([...rows], { count });
  }

  #statementOf(text: string): Statement[1] {
    let known = this.#known.get(text);
    if (known === undefined) {
      known = this.#statements.find(([words]) => text.includes(words))?.[1];
      if (known === undefined) throw new Error(`no model of: ${text}`);
      this.#known.set(text, known);
    }
    return known;
  }
}

const closed = () => Object.assign(new Error("closed"), { code: "ERR_POSTGRES_CONNECTION_CLOSED" });
