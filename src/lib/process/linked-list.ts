/**
 * A list in the order of adding, from whose middle anything is taken at once. For what comes and goes thousands of times a second, in place of Set
 * and Map: these move to a new store again and again, each old one refers to the next, and the short collections of garbage, which do not
 * look at what is old, keep all of them with everything that stood in them when they were left, until a full one.
 */

/** The place of a value in a list. */
export class Link<T> {
  before: Link<T> | undefined;
  after: Link<T> | undefined;
  readonly value: T;
  /** A number that belongs to it, as when it is due. */
  at: number;

  constructor(value: T, at: number) {
    this.value = value;
    this.at = at;
  }
}

export class LinkedList<T> {
  first: Link<T> | undefined;
  #last: Link<T> | undefined;

  add(value: T, at: number): Link<T> {
    const link = new Link(value, at);
    const last = this.#last;
    link.before = last;
    if (last === undefined) this.first = link;
    else last.after = link;
    this.#last = link;
    return link;
  }

  /** @param link of this list; once */
  delete(link: Link<T>): void {
    const { before, after } = link;
    if (before === undefined) this.first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    // What is old refers to nothing younger.
    link.before = undefined;
    link.after = undefined;
  }

  *[Symbol.iterator](): Generator<Link<T>> {
    for (let link = this.first; link !== undefined; link = link.after) yield link;
  }
}
