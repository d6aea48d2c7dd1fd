/** A turn under way on a connection, which its client may cancel until the last event went out. */
import type { JsonObject } from "../../lib/json/json.ts";
import type { SocketTurn } from "./message.ts";

export class RunningTurn {
  readonly turn: SocketTurn;
  readonly #call = new AbortController();
  /** The response as it began, with the id that the client knows; undefined until that was sent. */
  begun: JsonObject | undefined;
  /** The number of the event that comes next. */
  events = 0;
  /** True once an event went out that ends the response. */
  hasEnded = false;

  constructor(turn: SocketTurn) {
    this.turn = turn;
  }

  /** Aborts with the turn, or with its connection. */
  get signal(): AbortSignal {
    return this.#call.signal;
  }

  get isAborted(): boolean {
    return this.#call.signal.aborted;
  }

  /** Ends its call, and with it the upstream's. */
  abort(): void {
    this.#call.abort();
  }

  /** @param id of the response that is to be cancelled; undefined: whichever is under way */
  mayCancel(id: string | undefined): boolean {
    return !this.hasEnded && !this.isAborted && (id === undefined || id === this.begun?.["id"]);
  }
}
