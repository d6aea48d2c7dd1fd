/** The leases of processes. */
import type { Mutation } from "../mutations.ts";
import { changed, type Statement } from "./server.ts";

export class LeaseOwners {
  readonly #now: () => number;
  readonly #broken: ReadonlySet<Mutation>;
  #lapses = new Map<string, number>();

  constructor(now: () => number, broken: ReadonlySet<Mutation>) {
    this.#now = now;
    this.#broken = broken;
  }

  /** @returns how to go back to what is there now */
  copy(): () => void {
    const lapses = new Map(this.#lapses);
    return () => {
      this.#lapses = lapses;
    };
  }

  /** @param forMs how long ago it may have lapsed */
  isAlive(leaseOwner: string | null, forMs = 0): boolean {
    if (this.#broken.has("early-lapse")) forMs -= 11_000;
    return leaseOwner !== null && (this.#lapses.get(leaseOwner) ?? Number.NEGATIVE_INFINITY) > this.#now() - forMs;
  }

  readonly statements: readonly Statement[] = [
    [
      "insert into troupe.lease_owners",
      ([leaseOwner, ms]) => {
        if (!this.#lapses.has(leaseOwner as string))
          this.#lapses.set(leaseOwner as string, this.#now() + (ms as number));
        return changed(1);
      },
    ],
    [
      "update troupe.lease_owners",
      ([leaseOwner, ms]) => {
        if (!this.isAlive(leaseOwner as string)) return changed(0);
        this.#lapses.set(leaseOwner as string, this.#now() + (ms as number));
        return changed(1);
      },
    ],
    ["delete from troupe.lease_owners", ([leaseOwner]) => changed(Number(this.#lapses.delete(leaseOwner as string)))],
  ];
}
