/**
 * The statements of src/store/postgres that hold calls, as a database does them: each at once, when it arrives. A statement that is
 * not known here is an error, so that a new one is modelled too.
 */
import type { SQL } from "bun";
import type { Machine, World } from "./world.ts";

type Value = string | number | boolean | null | Uint8Array;
type Call = {
  call: number;
  scope: string;
  requestId: string;
  fingerprint: string;
  run: string;
  state: "running" | "finished" | "interrupted";
  owner: string | null;
  watched: boolean;
  expiresAt: number | null;
  status: number | null;
  headers: string | null;
  events: number | null;
  bodyFrom: number | null;
  body: Uint8Array | null;
};

/** Chances in a thousand, for each statement. */
export type NetworkFaults = { lostRequest: number; lostAnswer: number; silence: number; slow: number };

export class ModelledPostgres {
  readonly #world: World;
  readonly #faults: NetworkFaults;
  readonly #holders = new Map<string, number>();
  readonly #calls = new Map<number, Call>();
  readonly #byId = new Map<string, Call>();
  #numbers = 0;
  #awayUntil = 0;
  statements = 0;
  /** Told of each answer that is stored. */
  onFinished: (requestId: string, run: string) => void = () => {};

  constructor(world: World, faults: NetworkFaults) {
    this.#world = world;
    this.#faults = faults;
  }

  restart(ms: number): void {
    this.#world.note(`the database is away for ${ms}`);
    this.#awayUntil = this.#world.now + ms;
  }

  /** What Bun's client is to the store: a pool, which is thrown away where a statement is late. */
  client(machine: Machine): SQL {
    const open = new Set<(error: unknown) => void>();
    const away = () => Object.assign(new Error("closed"), { code: "ERR_POSTGRES_CONNECTION_CLOSED" });
    const unsafe = (text: string, values: Value[]) => {
      const { promise, resolve, reject } = Promise.withResolvers<unknown>();
      open.add(reject);
      this.#send(machine, text, values, (rows) => {
        machine.deliver(() => {
          open.delete(reject);
          if (rows === undefined) reject(away());
          else resolve(rows);
        });
      });
      return promise;
    };
    const close = async () => {
      for (const reject of open) reject(away());
    };
    return { unsafe, close } as unknown as SQL;
  }

  /** @param answered is given nothing where the connection broke; never called where there is silence */
  #send(machine: Machine, text: string, values: Value[], answered: (rows: unknown) => void): void {
    const world = this.#world;
    const chance = (perMille: number) => world.random.below(1000) < perMille;
    const { lostRequest, lostAnswer, silence, slow } = this.#faults;
    const delay = () => (chance(slow) ? world.between(50, 3_000) : world.between(0, 2));
    world.after(delay(), () => {
      if (machine.isCut || chance(silence)) return;
      if (world.now < this.#awayUntil || chance(lostRequest)) return answered(undefined);
      const rows = this.#run(text, values);
      world.after(delay(), () => {
        if (machine.isCut) return;
        answered(chance(lostAnswer) ? undefined : rows);
      });
    });
  }

  #isAlive(owner: string | null): boolean {
    return owner !== null && (this.#holders.get(owner) ?? Number.NEGATIVE_INFINITY) > this.#world.now;
  }

  #run(text: string, values: Value[]): unknown {
    this.statements += 1;
    const found = statements.find(([words]) => text.includes(words));
    if (found === undefined) throw new Error(`no model of: ${text}`);
    const rows = found[1](this.#tables, values);
    return Object.assign([...rows.rows], { count: rows.count ?? rows.rows.length });
  }

  readonly #tables: Tables = {
    now: () => this.#world.now,
    holders: this.#holders,
    isAlive: (owner) => this.#isAlive(owner),
    byId: (scope, requestId) => this.#byId.get(`${scope}\0${requestId}`),
    byCall: (call, run) => {
      const found = this.#calls.get(call as number);
      return found?.run === run ? found : undefined;
    },
    all: () => this.#calls.values(),
    insert: (call) => {
      const row = { ...call, call: ++this.#numbers };
      this.#calls.set(row.call, row);
      this.#byId.set(`${row.scope}\0${row.requestId}`, row);
      return row;
    },
    remove: (row) => {
      this.#calls.delete(row.call);
      this.#byId.delete(`${row.scope}\0${row.requestId}`);
    },
    finished: (row) => this.onFinished(row.requestId, row.run),
  };
}

type Tables = {
  now(): number;
  holders: Map<string, number>;
  isAlive(owner: string | null): boolean;
  byId(scope: Value, requestId: Value): Call | undefined;
  byCall(call: Value, run: Value): Call | undefined;
  all(): Iterable<Call>;
  insert(call: Omit<Call, "call">): Call;
  remove(row: Call): void;
  finished(row: Call): void;
};
type Result = { readonly rows: readonly object[]; readonly count?: number };

const none: Result = { rows: [] };
const changed = (count: number): Result => ({ rows: [], count });
const empty = {
  expiresAt: null,
  status: null,
  headers: null,
  events: null,
  bodyFrom: null,
  body: null,
  watched: false,
};

const shown = (tables: Tables, row: Call | undefined): Result => {
  if (row === undefined) return none;
  const { call, run, fingerprint, state, owner, expiresAt, status, headers, events, bodyFrom } = row;
  const isAlive = tables.isAlive(owner);
  return { rows: [{ call, run, fingerprint, state, owner, expiresAt, status, headers, events, bodyFrom, isAlive }] };
};

function claimNew(tables: Tables, [scope, requestId, fingerprint, run, , owner]: Value[]): Result {
  const isHolding = tables.isAlive(owner as string);
  const there = tables.byId(scope!, requestId!);
  let call: number | null = null;
  if (isHolding && there === undefined)
    call = tables.insert({
      ...empty,
      scope: scope as string,
      requestId: requestId as string,
      fingerprint: fingerprint as string,
      run: run as string,
      owner: owner as string,
      state: "running",
    }).call;
  else if (isHolding && there !== undefined && there.run === run && there.owner === owner && there.state === "running")
    call = there.call;
  return { rows: [{ call, isHolding }] };
}

function claimOld(
  tables: Tables,
  [scope, requestId, fingerprint, run, , owner, call, oldRun, oldState]: Value[],
): Result {
  const isHolding = tables.isAlive(owner as string);
  const there = tables.byId(scope!, requestId!);
  const isOld = there?.call === call && there?.run === oldRun && there?.state === oldState;
  const isOwn = there !== undefined && there.call === call && there.run === run && there.owner === owner;
  if (there === undefined || !isHolding || !(isOld || (isOwn && there?.state === "running")))
    return { rows: [{ call: null, isHolding }] };
  Object.assign(there, empty, { fingerprint, run, state: "running", owner });
  return { rows: [{ call: there.call, isHolding }] };
}

function finish(
  tables: Tables,
  [call, run, status, headers, events, bodyFrom, body, , expiresAt, again]: Value[],
): Result {
  const row = tables.byCall(call!, run!);
  if (row === undefined || !(row.state === "running" || (again === true && row.state === "finished")))
    return { rows: [{ isDone: false }] };
  Object.assign(row, {
    state: "finished",
    owner: null,
    watched: false,
    status,
    headers,
    events,
    bodyFrom,
    body,
    expiresAt,
  });
  tables.finished(row);
  return { rows: [{ isDone: true }] };
}

function interrupt(tables: Tables, [at]: Value[]): Result {
  const gone = [...tables.all()].filter(
    ({ owner, state }) => owner !== null && state === "running" && !tables.isAlive(owner),
  );
  for (const row of gone) Object.assign(row, { state: "interrupted", owner: null, watched: false, expiresAt: at });
  return changed(gone.length);
}

/** What a claim left behind whose answer was lost. */
function removeStray(tables: Tables, [scope, requestId, run]: Value[]): Result {
  const row = tables.byId(scope!, requestId!);
  if (row?.run !== run || row?.state !== "running") return changed(0);
  tables.remove(row);
  return changed(1);
}

function removeIn(state: Call["state"], tables: Tables, [call, run]: Value[]): Result {
  const row = tables.byCall(call!, run!);
  if (row?.state !== state) return changed(0);
  tables.remove(row);
  return changed(1);
}

/** By words that no other statement has. */
const statements: readonly [words: string, (tables: Tables, values: Value[]) => Result][] = [
  [
    "insert into troupe.holders",
    (tables, [holder, ms]) => {
      if (!tables.holders.has(holder as string)) tables.holders.set(holder as string, tables.now() + (ms as number));
      return changed(1);
    },
  ],
  [
    "update troupe.holders",
    (tables, [holder, ms]) => {
      if (!tables.isAlive(holder as string)) return changed(0);
      tables.holders.set(holder as string, tables.now() + (ms as number));
      return changed(1);
    },
  ],
  ["delete from troupe.holders", (tables, [holder]) => changed(Number(tables.holders.delete(holder as string)))],
  ["request_id = $2::text and run = $3::text", removeStray],
  ["insert into troupe.kept_calls as k", claimNew],
  ["where call = $7::bigint and scope", claimOld],
  ["state = 'interrupted', owner = null", interrupt],
  ["set state = 'finished'", finish],
  ["run = $2::text and state = 'running'", (tables, values) => removeIn("running", tables, values)],
  ["run = $2::text and state = 'finished'", (tables, values) => removeIn("finished", tables, values)],
  [
    "set watched = true",
    (tables, [call, run]) => {
      const row = tables.byCall(call!, run!);
      if (row !== undefined) row.watched = true;
      return changed(Number(row !== undefined));
    },
  ],
  [
    "and watched",
    (tables, [owner]) => ({
      rows: [...tables.all()].filter((row) => row.owner === owner && row.watched).map(({ call }) => ({ call })),
    }),
  ],
  [
    "owner = $1::text and state = 'running'",
    (tables, [owner]) => ({
      rows: [...tables.all()]
        .filter((row) => row.owner === owner && row.state === "running")
        .map(({ call, run }) => ({ call, run })),
    }),
  ],
  ["where scope = $1::text and request_id", (tables, [scope, id]) => shown(tables, tables.byId(scope!, id!))],
  [
    "select body from",
    (tables, [call, run]) => {
      const row = tables.byCall(call!, run!);
      return row === undefined ? none : { rows: [{ body: row.body }] };
    },
  ],
  ["where call = $1::bigint and run", (tables, [call, run]) => shown(tables, tables.byCall(call!, run!))],
];
