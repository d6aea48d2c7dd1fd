/** One pool of money as a node sees it: what it has spent of it, what its calls hold, and what the desk is yet to be told. */
import type { PoolReply, PoolWord } from "../store/budget-pools.ts";

type Install = NonNullable<PoolWord["install"]>;
type Raise = NonNullable<PoolWord["raise"]>;
type Booked = NonNullable<PoolWord["booked"]>;

/** How soon it is looked at again, where the books are to be told of it; else so that nobody is left alone with it. */
const newsMs = 650;
const restMs = 5_100;

export class NodePool {
  readonly id: string;
  /** All that this node has spent of it; only grows. */
  spent = 0;
  /** By calls under way. */
  held = 0;
  /** What the books know of `spent`. */
  told = 0;
  /** The most that a call asked of it lately. */
  largest = 1;
  install: Install | undefined;
  raise: Raise | undefined;
  booked: Booked | undefined;
  isClosing = false;
  wantsLook = false;
  /** Whether the desk does not know it any more: what is spent of it goes to the books from here. */
  isLost = false;
  /** A monotonic reading: when the desk is to be asked about it again. */
  lookAt = 0;
  /** As the desk told last. */
  reply: PoolReply | undefined;

  constructor(id: string) {
    this.id = id;
  }

  /** Whether this node is the only one that can tell what it knows. */
  get isAtStake(): boolean {
    return this.held > 0 || this.spent > this.told;
  }

  word(limit: number | undefined): PoolWord {
    return {
      pool: this.id,
      spent: this.spent,
      held: this.held,
      ...(limit !== undefined && { limit }),
      ...(this.install && { install: this.install }),
      ...(this.raise && { raise: this.raise }),
      ...(this.booked && { booked: this.booked }),
      ...(this.isClosing && { close: true }),
      ...(this.wantsLook && { look: true }),
    };
  }

  /** @param word what the desk was told */
  answered(word: PoolWord, reply: PoolReply | undefined, now: number): void {
    this.reply = reply;
    if (this.install === word.install) this.install = undefined;
    if (this.raise === word.raise) this.raise = undefined;
    if (this.booked === word.booked) this.booked = undefined;
    if (word.close === true) this.isClosing = false;
    if (word.look === true) this.wantsLook = false;
    if (reply === undefined) return;
    if (reply.isBooked) this.told = Math.max(this.told, word.spent);
    const isNews = this.spent > this.told || reply.due !== undefined || (!reply.isOpen && this.isAtStake);
    this.lookAt = now + (isNews ? newsMs : restMs);
  }
}
