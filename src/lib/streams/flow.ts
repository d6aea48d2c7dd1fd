/**
 * Push streams with back-pressure: a source pushes pieces into a sink in the turn of the event loop in which they arrived, until
 * the sink pauses it. There are no promises between stages, so a piece costs one call.
 */

/** Controls a source. Each method may be called at any time, any number of times. */
export interface Flow {
  /** Asks the source to stop for now. Pieces under way may still be pushed. */
  pause(): void;
  /** Asks for more. Pieces may be pushed before this returns, unless it is called within a push. */
  resume(): void;
  /** Ends the source: nothing is pushed from now on, not even the end. */
  cancel(): void;
}

/** Receives pieces in order: any number of `push`, never nested; then one `end` or `fail`, and nothing more. */
export interface Sink<T, E = void> {
  push(piece: T): void;
  /** All pieces were pushed. @param how the source's result, such as whether it finished */
  end(how: E): void;
  /** Called in place of `end`, after the pieces before the error. */
  fail(error: unknown): void;
}

export interface Source<T, E = void> extends Flow {
  /** Starts pushing into the sink, synchronously with the pieces already there. Called once. */
  flow(sink: Sink<T, E>): void;
}

/**
 * Buffers pieces while its sink is absent or paused. It pauses its source once `max` pieces are held before the sink is attached,
 * and at the first piece that arrives while the sink is paused, so that a short pause does not reach the source.
 */
export class Buffered<T, E = void> implements Source<T, E>, Sink<T, E> {
  readonly #source: Flow;
  readonly #max: number;
  #sink: Sink<T, E> | undefined;
  #held: T[] = [];
  #isPaused = false;
  #isFlushing = false;
  /** Set once the source has ended. */
  #ending: "end" | "fail" | undefined;
  #how: E | undefined;
  #error: unknown;

  constructor(source: Flow, max: number) {
    this.#source = source;
    this.#max = max;
  }

  get held(): readonly T[] {
    return this.#held;
  }

  get isPaused(): boolean {
    return this.#isPaused;
  }

  /** Drops the held pieces that are not `isWanted`. */
  filterHeld(isWanted: (piece: T) => boolean): void {
    this.#held = this.#held.filter(isWanted);
  }

  flow(sink: Sink<T, E>): void {
    this.#sink = sink;
    this.#flush();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    if (!this.#isPaused) return;
    this.#isPaused = false;
    this.#flush();
  }

  cancel(): void {
    this.#sink = undefined;
    this.#held = [];
    this.#source.cancel();
  }

  push(piece: T): void {
    if (this.#sink !== undefined && !this.#isPaused && !this.#isFlushing) {
      this.#sink.push(piece);
      return;
    }
    this.#held.push(piece);
    if (this.#isPaused || this.#held.length >= this.#max) this.#source.pause();
  }

  end(how: E): void {
    this.#ending = "end";
    this.#how = how;
    this.#flush();
  }

  fail(error: unknown): void {
    this.#ending = "fail";
    this.#error = error;
    this.#flush();
  }

  #flush(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    try {
      while (this.#sink !== undefined && !this.#isPaused && this.#held.length > 0) this.#sink.push(this.#held.shift()!);
    } finally {
      this.#isFlushing = false;
    }
    const sink = this.#sink;
    if (sink === undefined || this.#isPaused) return;
    if (this.#ending === undefined) {
      this.#source.resume();
      return;
    }
    this.#sink = undefined;
    if (this.#ending === "end") sink.end(this.#how as E);
    else sink.fail(this.#error);
  }
}

/** A source over an iterable, which is read as the sink takes pieces. */
export class IterableSource<T, E = void> implements Source<T, E> {
  readonly #pieces: Iterator<T>;
  readonly #how: E;
  #sink: Sink<T, E> | undefined;
  #isPaused = false;
  #isFlushing = false;

  /** @param how given to `end` */
  constructor(pieces: Iterable<T>, how: E) {
    this.#pieces = pieces[Symbol.iterator]();
    this.#how = how;
  }

  flow(sink: Sink<T, E>): void {
    this.#sink = sink;
    this.#flush();
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#flush();
  }

  cancel(): void {
    this.#sink = undefined;
  }

  #flush(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    try {
      while (this.#sink !== undefined && !this.#isPaused) this.#next(this.#sink);
    } finally {
      this.#isFlushing = false;
    }
  }

  #next(sink: Sink<T, E>): void {
    let next: IteratorResult<T>;
    try {
      next = this.#pieces.next();
    } catch (error) {
      this.#sink = undefined;
      sink.fail(error);
      return;
    }
    if (next.done !== true) sink.push(next.value);
    else {
      this.#sink = undefined;
      sink.end(this.#how);
    }
  }
}

/** Pulls a source one piece at a time; the source is paused in between. */
export class Pulled<T, E = void> implements Sink<T, E> {
  readonly #source: Source<T, E>;
  /** Pieces that were pushed before `next` was called. */
  readonly #ahead: ((asked: PromiseWithResolvers<IteratorResult<T, E>>) => void)[] = [];
  #asked: PromiseWithResolvers<IteratorResult<T, E>> | undefined;
  #flows = false;

  constructor(source: Source<T, E>) {
    this.#source = source;
  }

  /** Must not be called before the last call settled, nor after the end. @throws what the source failed with */
  next(): Promise<IteratorResult<T, E>> {
    const asked = Promise.withResolvers<IteratorResult<T, E>>();
    const settle = this.#ahead.shift();
    if (settle !== undefined) settle(asked);
    else {
      this.#asked = asked;
      if (this.#flows) this.#source.resume();
      else {
        this.#flows = true;
        this.#source.flow(this);
      }
    }
    return asked.promise;
  }

  push(value: T): void {
    this.#source.pause();
    this.#settle((asked) => asked.resolve({ value, done: false }));
  }

  end(value: E): void {
    this.#settle((asked) => asked.resolve({ value, done: true }));
  }

  fail(error: unknown): void {
    this.#settle((asked) => asked.reject(error));
  }

  #settle(settle: (asked: PromiseWithResolvers<IteratorResult<T, E>>) => void): void {
    const asked = this.#asked;
    this.#asked = undefined;
    if (asked === undefined) this.#ahead.push(settle);
    else settle(asked);
  }
}

/** Reduces the pieces of a source to a result, which is rejected with what any of the methods throws. */
interface Fold<T, E, R> {
  push(piece: T): void;
  end(how: E): R;
  /** The result of a source that failed, where there is one. */
  fail?(error: unknown): R;
}

/** Folds a whole source. @throws what it failed with, or what the fold threw, which cancels the source */
export function folded<T, E, R>(source: Source<T, E>, fold: Fold<T, E, R>): Promise<R> {
  return new Promise((resolve, reject) => {
    const settle = (result: () => R) => {
      try {
        resolve(result());
      } catch (error) {
        reject(error);
      }
    };
    source.flow({
      push(piece) {
        try {
          fold.push(piece);
        } catch (error) {
          source.cancel();
          reject(error);
        }
      },
      end: (how) => settle(() => fold.end(how)),
      fail: (error) => (fold.fail === undefined ? reject(error) : settle(() => fold.fail!(error))),
    });
  });
}

/** Wraps a source. @param onEnd called before the sink's `end` or `fail`; not on `cancel` */
export function withEndCallback<T, E>(source: Source<T, E>, onEnd: () => void): Source<T, E> {
  return {
    flow: (sink) =>
      source.flow({
        push: (piece) => sink.push(piece),
        end(how) {
          onEnd();
          sink.end(how);
        },
        fail(error) {
          onEnd();
          sink.fail(error);
        },
      }),
    pause: () => source.pause(),
    resume: () => source.resume(),
    cancel: () => source.cancel(),
  };
}
