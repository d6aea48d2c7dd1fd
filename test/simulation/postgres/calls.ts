/** Calls that carry an id, and the events of their streams. */
import type { Mutation } from "../mutations.ts";
import type { LeaseOwners } from "./lease-owners.ts";
import { changed, none, type Result, type Statement, type Value } from "./server.ts";

type Call = {
  readonly call: number;
  readonly scope: string;
  readonly requestId: string;
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
  /** Batches of events by the number of their first one, and the run that they are of. */
  batches: Map<number, { readonly run: string; readonly data: Uint8Array }>;
};

const unanswered = {
  watched: false,
  expiresAt: null,
  status: null,
  headers: null,
  events: null,
  bodyFrom: null,
  body: null,
};

export class CallTables {
  readonly #leaseOwners: LeaseOwners;
  readonly #broken: ReadonlySet<Mutation>;
  readonly #byNumber = new Map<number, Call>();
  readonly #byId = new Map<string, Call>();
  readonly #byOwner = new Map<string, Set<Call>>();
  #numbers = 0;
  #appended = 0;
  /** Told of each answer that is stored. */
  onFinished: (requestId: string, run: string, headers: string) => void = () => {};
  /** Told of each id of which something was lost. */
  onLost: (requestId: string) => void = () => {};

  constructor(leaseOwners: LeaseOwners, broken: ReadonlySet<Mutation>) {
    this.#leaseOwners = leaseOwners;
    this.#broken = broken;
  }

  /** @returns how to go back to what is there now, which gives the ids of what was lost */
  copy(): () => string[] {
    const rows = [...this.#byNumber.values()].map((row) => ({ ...row, batches: new Map(row.batches) }));
    return () => {
      const kept = new Map(rows.map((row) => [row.call, row]));
      const lost = [...this.#byNumber.values()].filter(({ call, run, state, batches }) => {
        const old = kept.get(call);
        return old?.run !== run || old.state !== state || old.batches.size !== batches.size;
      });
      for (const all of [this.#byNumber, this.#byId, this.#byOwner]) all.clear();
      for (const row of rows) {
        const { owner } = row;
        row.owner = null;
        this.#byNumber.set(row.call, row);
        this.#byId.set(`${row.scope}\0${row.requestId}`, row);
        this.#give(row, owner);
      }
      return lost.map(({ requestId }) => requestId);
    };
  }

  #of(call: Value, run: Value): Call | undefined {
    const found = this.#byNumber.get(call as number);
    return found?.run === run ? found : undefined;
  }

  #withId(scope: Value, requestId: Value): Call | undefined {
    return this.#byId.get(`${scope}\0${requestId}`);
  }

  #ownedBy(owner: Value): readonly Call[] {
    return [...(this.#byOwner.get(owner as string) ?? [])];
  }

  #give(row: Call, owner: string | null): void {
    if (row.owner !== null) {
      const owned = this.#byOwner.get(row.owner);
      owned?.delete(row);
      if (owned?.size === 0) this.#byOwner.delete(row.owner);
    }
    row.owner = owner;
    if (owner === null) return;
    const owned = this.#byOwner.get(owner) ?? new Set();
    owned.add(row);
    this.#byOwner.set(owner, owned);
  }

  #remove(row: Call | undefined): Result {
    if (row === undefined) return changed(0);
    this.#give(row, null);
    this.#byNumber.delete(row.call);
    this.#byId.delete(`${row.scope}\0${row.requestId}`);
    return changed(1);
  }

  #shown(row: Call | undefined): Result {
    if (row === undefined) return none;
    const { call, run, fingerprint, state, owner, expiresAt, status, headers, events, bodyFrom } = row;
    const isAlive = this.#leaseOwners.isAlive(owner);
    return { rows: [{ call, run, fingerprint, state, owner, expiresAt, status, headers, events, bodyFrom, isAlive }] };
  }

  #claimNew([scope, requestId, fingerprint, run, , owner]: readonly Value[]): Result {
    const isHolding = this.#leaseOwners.isAlive(owner as string);
    let there = this.#withId(scope!, requestId!);
    if (this.#broken.has("claim-of-a-held-id") && there?.run !== run) {
      this.#remove(there);
      there = undefined;
    }
    let call: number | null = null;
    if (isHolding && there === undefined) {
      const row: Call = {
        ...unanswered,
        call: ++this.#numbers,
        scope: scope as string,
        requestId: requestId as string,
        fingerprint: fingerprint as string,
        run: run as string,
        state: "running",
        owner: null,
        batches: new Map(),
      };
      this.#byNumber.set(row.call, row);
      this.#byId.set(`${scope}\0${requestId}`, row);
      this.#give(row, owner as string);
      call = row.call;
    } else if (isHolding && there!.run === run && there!.owner === owner && there!.state === "running") {
      call = there!.call;
    }
    return { rows: [{ call, isHolding }] };
  }

  #claimOld(values: readonly Value[]): Result {
    const [scope, requestId, fingerprint, run, , owner, call, oldRun, oldState] = values;
    const isHolding = this.#leaseOwners.isAlive(owner as string);
    const there = this.#withId(scope!, requestId!);
    const isOld = there?.call === call && there?.run === oldRun && there?.state === oldState;
    const isOwn = there?.call === call && there?.run === run && there?.owner === owner && there?.state === "running";
    if (there === undefined || !isHolding || !(isOld || isOwn)) return { rows: [{ call: null, isHolding }] };
    Object.assign(there, unanswered, { fingerprint, run, state: "running" });
    this.#give(there, owner as string);
    for (const [first, batch] of there.batches) if (batch.run === oldRun) there.batches.delete(first);
    return { rows: [{ call: there.call, isHolding }] };
  }

  #finish([call, run, status, headers, events, bodyFrom, body, , expiresAt]: readonly Value[]): Result {
    const row = this.#broken.has("finish-without-fence") ? this.#byNumber.get(call as number) : this.#of(call!, run!);
    const isDone = row?.state === "finished" && !this.#broken.has("own-answers-are-unknown");
    const isOpen = row?.state === "running" || isDone;
    if (row === undefined || !(isOpen || this.#broken.has("finish-without-fence"))) return changed(0);
    Object.assign(row, { state: "finished", watched: false, status, headers, events, bodyFrom, body, expiresAt });
    this.#give(row, null);
    // How a call failed is no answer: it is told to those who wait, and has expired before it began.
    if (expiresAt !== 0) this.onFinished(row.requestId, row.run, headers as string);
    return changed(1);
  }

  #interrupt([expiresAt]: readonly Value[]): Result {
    if (this.#broken.has("abandoned-calls-stay")) return changed(0);
    let count = 0;
    for (const owner of [...this.#byOwner.keys()]) {
      if (this.#leaseOwners.isAlive(owner)) continue;
      for (const row of this.#ownedBy(owner)) {
        if (row.state !== "running") continue;
        Object.assign(row, { state: "interrupted", watched: false, expiresAt });
        this.#give(row, null);
        for (const [first, batch] of row.batches) if (batch.run === row.run) row.batches.delete(first);
        count += 1;
      }
    }
    return changed(count);
  }

  #append([call, run, headers, firstId, data]: readonly Value[]): Result {
    const row = this.#of(call!, run!);
    if (row?.state !== "running") return { rows: [{ isHeld: false }] };
    Object.assign(row, { status: 200, headers });
    this.#appended += 1;
    if (this.#broken.has("events-get-lost") && this.#appended % 10 === 0) return { rows: [{ isHeld: true }] };
    row.batches.set(firstId as number, { run: row.run, data: data as Uint8Array });
    return { rows: [{ isHeld: true }] };
  }

  #eventsAt([call, run, number]: readonly Value[]): Result {
    const row = this.#of(call!, run!);
    if (row === undefined || row.state === "interrupted") return none;
    let firstId = -1;
    for (const [first, batch] of row.batches) {
      if (first <= (number as number) && first > firstId && batch.run === run) firstId = first;
    }
    return firstId < 0 ? none : { rows: [{ firstId, data: row.batches.get(firstId)!.data }] };
  }

  /** What is removed only in that state. */
  #removeIn(state: Call["state"], row: Call | undefined): Result {
    return this.#remove(row?.state === state ? row : undefined);
  }

  readonly statements: readonly Statement[] = [
    ["insert into troupe.kept_calls as k", (values) => this.#claimNew(values)],
    ["where call = $7::bigint and scope", (values) => this.#claimOld(values)],
    ["state = 'interrupted', owner = null", (values) => this.#interrupt(values)],
    ["insert into troupe.kept_events", (values) => this.#append(values)],
    ["select first_id as", (values) => this.#eventsAt(values)],
    ["set state = 'finished'", (values) => this.#finish(values)],
    ["run = $2::text and state = 'running'", ([call, run]) => this.#removeIn("running", this.#of(call!, run!))],
    ["run = $2::text and state = 'finished'", ([call, run]) => this.#removeIn("finished", this.#of(call!, run!))],
    [
      "set watched = true",
      ([call, run]) => {
        const row = this.#of(call!, run!);
        if (row !== undefined) row.watched = true;
        return changed(Number(row !== undefined));
      },
    ],
    [
      "and watched",
      ([owner]) => ({
        rows: this.#ownedBy(owner!)
          .filter(({ watched }) => watched)
          .map(({ call }) => ({ call })),
      }),
    ],
    [
      "owner = $1::text and state = 'running'",
      ([owner]) => ({
        rows: this.#ownedBy(owner!)
          .filter(({ state }) => state === "running")
          .map(({ call, run }) => ({ call, run })),
      }),
    ],
    ["where scope = $1::text and request_id", ([scope, id]) => this.#shown(this.#withId(scope!, id!))],
    [
      "select body from",
      ([call, run]) => {
        const row = this.#of(call!, run!);
        return row === undefined ? none : { rows: [{ body: row.body }] };
      },
    ],
    ["where call = $1::bigint and run", ([call, run]) => this.#shown(this.#of(call!, run!))],
  ];
}
