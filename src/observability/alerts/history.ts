/** The latest messages that this process sent, in memory: the store keeps those alone that wait for their delivery. */
import type { QueuedAlert } from "../../store/contract/store.ts";

type DeliveryState = "waiting" | "delivered" | "given_up" | "dropped";

export type Delivery = {
  /** The origin of an address; undefined: the configuration names it no more. */
  readonly target: string | undefined;
  /** `dropped`: the configuration names another address now. */
  readonly state: DeliveryState;
  readonly attempts: number;
  /** Why the latest try failed, in words without the address. */
  readonly failure?: string;
  /** The time of the latest try, in Unix milliseconds. */
  readonly at?: number;
  /** The time of the next. */
  readonly nextAt?: number;
};

export type SentAlert = {
  readonly id: string;
  readonly at: number;
  /** As it is sent. */
  readonly body: string;
  readonly deliveries: readonly Delivery[];
};

type Outcome = { readonly state: DeliveryState; readonly at: number; readonly failure?: string };
type Noted = QueuedAlert & Omit<Outcome, "at"> & { readonly triedAt: number };
type Waiting = QueuedAlert & { readonly due: number };

const maxNoted = 200;

export class AlertHistory {
  readonly #noted = new Map<string, Noted>();

  /** Unix milliseconds. */
  readonly since: number;

  constructor(since: number) {
    this.since = since;
  }

  /** Notes how a try to deliver a message ended. */
  note({ id, destination, body, at: made, attempts }: QueuedAlert, { at, state, failure }: Outcome): void {
    const key = keyOf({ id, destination });
    this.#noted.delete(key);
    const message = { id, destination, body, attempts };
    this.#noted.set(key, { ...message, at: made, state, triedAt: at, ...(failure !== undefined && { failure }) });
    for (const oldest of this.#noted.keys()) {
      if (this.#noted.size <= maxNoted) return;
      this.#noted.delete(oldest);
    }
  }

  /** @param waiting those that are not delivered yet @param originOf what may be shown of an address @returns all, the newest first */
  with(waiting: readonly Waiting[], originOf: (destination: string) => string | undefined): SentAlert[] {
    const all = new Map<string, SentAlert & { deliveries: Delivery[] }>();
    const add = ({ id, at, body }: Pick<QueuedAlert, "id" | "at" | "body">, delivery: Delivery) => {
      const one = all.get(id) ?? { id, at, body, deliveries: [] };
      one.deliveries.push(delivery);
      all.set(id, one);
    };
    const open = new Set(waiting.map(keyOf));
    for (const one of waiting) {
      const noted = this.#noted.get(keyOf(one));
      const { failure, triedAt } = noted ?? {};
      add(one, {
        ...{ target: originOf(one.destination), state: "waiting", attempts: noted?.attempts ?? one.attempts },
        ...(failure !== undefined && { failure }),
        ...(triedAt !== undefined && { at: triedAt }),
        nextAt: one.due,
      });
    }
    for (const [key, one] of this.#noted) {
      // Another process has delivered what this one could not.
      if (open.has(key) || one.state === "waiting") continue;
      const { destination, state, attempts, failure, triedAt } = one;
      const target = originOf(destination);
      add(one, { target, state, attempts, at: triedAt, ...(failure !== undefined && { failure }) });
    }
    return [...all.values()].toSorted((a, b) => b.at - a.at || (a.id < b.id ? 1 : -1));
  }
}

const keyOf = ({ id, destination }: Pick<QueuedAlert, "id" | "destination">) => `${id} ${destination}`;
