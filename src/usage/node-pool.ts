/** One pool of money as a node sees it: what it has spent of it, what its calls hold, and what the counter is yet to be told. */
import type { PoolReply, PoolWord } from "../store/budget-pools.ts";

type Install = NonNullable<PoolWord["install"]>;
type Raise = NonNullable<PoolWord["raise"]>;
type Recorded = NonNullable<PoolWord["recorded"]>;

/** How soon it is looked at again, where the database is to be told of it; else so that nobody is left alone with it. */
const newsMs = 650;
const restMs = 5_100;

export class NodePool {
  readonly id: string;
  /** All that this node has spent of it; only grows. */
  spent = 0;
  /** By calls under way. */
  held = 0;
  /** What the database knows of `spent`. */
  told = 0;
  /** The most that a call asked of it lately. */
  largest = 1;
  install: Install | undefined;
  raise: Raise | undefined;
  recorded: Recorded | undefined;
  isClosing = false;
  wantsLook = false;
  /** Whether the counter does not know it any more: what is spent of it goes to the database from here. */
  isLost = false;
  /** A monotonic reading: when the counter is to be asked about it again. */
  lookAt = 0;
  /** As the counter told last. */
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
      ...(this.recorded && { recorded: this.recorded }),
      ...(this.isClosing && { close: true }),
      ...(this.wantsLook && { look: true }),
    };
  }

  /** @param word what the counter was told */
  answered(word: PoolWord, reply: PoolReply | undefined, now: number): void {
    this.reply = reply;
    if (this.install === word.install) this.install = undefined;
    if (this.raise === word.raise) this.raise = undefined;
    if (this.recorded === word.recorded) this.recorded = undefined;
    if (word.close === true) this.isClosing = false;
    if (word.look === true) this.wantsLook = false;
    if (reply === undefined) return;
    if (reply.isRecorded) this.told = Math.max(this.told, word.spent);
    const isNews = this.spent > this.told || reply.due !== undefined || (!reply.isOpen && this.isAtStake);
    this.lookAt = now + (isNews ? newsMs : restMs);
  }
}
