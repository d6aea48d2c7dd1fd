/**
 * Windows of tokens per minute as a node sees them: what it has admitted itself in the last minute, so that it can keep to its share while
 * nobody counts for all, and tell it when somebody does again.
 */
import type { WindowWord } from "../store/budget-pools.ts";
import type { TokenWindow } from "../store/store.ts";

/** Uses of half a second, as of its end. `told`: how many of them the counter knows. */
type Use = { readonly at: number; tokens: number; told: number };
type Fix = readonly [at: number, tokens: number];

const windowMs = 60_000;
const gatheredMs = 500;

export class NodeTokens {
  readonly key: string;
  limit = 0;
  readonly #uses: Use[] = [];
  #fixes: Fix[] = [];

  constructor(key: string) {
    this.key = key;
  }

  get isIdle(): boolean {
    return this.#uses.length === 0 && this.#fixes.length === 0;
  }

  get hasNews(): boolean {
    return this.#fixes.length > 0 || this.#uses.some(({ tokens, told }) => tokens > told);
  }

  expire(now: number): void {
    while (this.#uses.length > 0 && this.#uses[0]!.at <= now - windowMs) this.#uses.shift();
  }

  /** @param isTold whether the counter has counted them */
  use(now: number, tokens: number, isTold: boolean): Use {
    const at = Math.ceil(now / gatheredMs) * gatheredMs;
    let use = this.#uses.at(-1);
    if (use?.at !== at) {
      use = { at, tokens: 0, told: 0 };
      this.#uses.push(use);
    }
    use.tokens += tokens;
    if (isTold) use.told += tokens;
    return use;
  }

  /** Corrects a use by what it came to. @param countedAt when the counter counted it; absent: it did not */
  correct(use: Use, now: number, tokens: number, countedAt: number | undefined): void {
    if (tokens === 0) return;
    if (countedAt !== undefined) {
      this.#fixes.push([countedAt, tokens]);
      use.told += tokens;
      use.tokens += tokens;
    } else if (use.at > now - windowMs) use.tokens += tokens;
  }

  /** As if this node were alone with so much. */
  byShare(now: number, share: number, tokens: number): TokenWindow {
    this.expire(now);
    const used = this.#uses.reduce((sum, use) => sum + Math.max(0, use.tokens), 0);
    const left = (at: number) => Math.max(0, at + windowMs - now);
    const emptyMs = left(this.#uses.at(-1)?.at ?? now - windowMs);
    if (used + tokens <= share) return { used: used + tokens, emptyMs: windowMs, waitMs: 0 };
    let gone = 0;
    for (const use of tokens <= share ? this.#uses : []) {
      gone += Math.max(0, use.tokens);
      if (gone >= used + tokens - share) return { used, emptyMs, waitMs: Math.max(1, left(use.at)) };
    }
    return { used, emptyMs, waitMs: Number.POSITIVE_INFINITY };
  }

  /** The counter has lost its windows: all is to be told once more. */
  retell(): void {
    for (const use of this.#uses) use.told = 0;
    // They name times of the windows that are gone; more than was counted counts from now on.
    this.#fixes = this.#fixes.filter(([, tokens]) => tokens > 0).map(([, tokens]) => [0, tokens]);
  }

  word(now: number): { word: WindowWord; answered: () => void } {
    const told = this.#uses
      .filter(({ tokens, told }) => tokens > told)
      .map((use) => [use, use.tokens - use.told] as const);
    const fixes = this.#fixes;
    const word = {
      key: this.key,
      limit: this.limit,
      // Of the end of its half second it is not known yet how long ago it was.
      uses: told.map(([{ at }, tokens]) => [Math.max(0, now - at), tokens] as const),
      fixes,
    };
    const answered = () => {
      for (const [use, tokens] of told) use.told += tokens;
      this.#fixes = this.#fixes.slice(fixes.length);
    };
    return { word, answered };
  }
}

export type TokenUse = Use;
