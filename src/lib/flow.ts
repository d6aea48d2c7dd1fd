/**
 * The protocol between the stages of a stream: a source pushes pieces into a sink, in the turn of the event loop in which
 * they came, until it is told to wait. No promise stands between two stages, so a piece costs a call.
 */

/** Controls who gives pieces: to be called at any time, any number of times. */
export interface Flow {
  /** Nothing more is wanted for now. What is under way already may still be pushed. */
  pause(): void;
  /** More is wanted again. It may be pushed before this returns, unless this was called within a push. */
  resume(): void;
  /** Nothing is wanted any more: nothing is pushed from now on, not even the end. */
  cancel(): void;
}

/** Takes pieces in order: any number of `push`, one inside another never; then one `end` or `fail`, and nothing more. */
export interface Sink<T, E = void> {
  push(piece: T): void;
  /** All pieces were pushed. @param how what the last stage knows of the end */
  end(how: E): void;
  /** Comes instead of the end, behind the pieces that came before it. */
  fail(error: unknown): void;
}

export interface Source<T, E = void> extends Flow {
  /** To be called once: pushes into the sink, beginning before this returns with what is there. */
  flow(sink: Sink<T, E>): void;
}

/**
 * A stage that holds pieces back while its sink is not there or waits. Its source is told to wait once `max` pieces are held
 * before the sink has come, and at the first piece that comes while the sink waits: a sink that waits for a moment only
 * costs its source nothing.
 */
export class Buffered<T, E = void> implements Source<T, E>, Sink<T, E> {
  readonly #source: Flow;
  readonly #max: number;
  #sink: Sink<T, E> | undefined;
  #held: T[] = [];
  #isPaused = false;
  #isFlushing = false;
  /** Tells the sink of the end, once it is there. */
  #ending: ((sink: Sink<T, E>) => void) | undefined;

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

  /** Drops what is held but for the pieces that `isWanted`. */
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
    this.#ending = (sink) => sink.end(how);
    this.#flush();
  }

  fail(error: unknown): void {
    this.#ending = (sink) => sink.fail(error);
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
    this.#ending(sink);
  }
}

/** A source of what is all there, or is made as it is asked for. */
export class IterableSource<T, E = void> implements Source<T, E> {
  readonly #pieces: Iterator<T>;
  readonly #how: E;
  #sink: Sink<T, E> | undefined;
  #isPaused = false;
  #isFlushing = false;

  /** @param how the end of its flow */
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

/** Asks a source for one piece at a time: the source waits between two of them. */
export class Pulled<T, E = void> implements Sink<T, E> {
  readonly #source: Source<T, E>;
  /** Pushed before it was asked for. */
  readonly #ahead: ((asked: PromiseWithResolvers<IteratorResult<T, E>>) => void)[] = [];
  #asked: PromiseWithResolvers<IteratorResult<T, E>> | undefined;
  #flows = false;

  constructor(source: Source<T, E>) {
    this.#source = source;
  }

  /** To be called again once it has settled, and not after the end. @throws what the source failed with */
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

/** Adds up the pieces of a flow. Each of its methods may throw what the result is rejected with. */
export interface Fold<T, E, R> {
  push(piece: T): void;
  end(how: E): R;
  /** What came of a flow that failed, where that is a result all the same. */
  fail?(error: unknown): R;
}

/** What a whole flow amounts to. @throws what it failed with, or what the fold threw: then the source is cancelled */
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

/** The same flow. @param onEnd called before its sink is told of its end or failure; not where it is cancelled */
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
