/** Names of functions as other formats take them, which allow fewer letters than Google: `^[a-zA-Z0-9_-]{1,64}$`. */
const maxLength = 64;

export class FunctionNames {
  readonly #inner = new Map<string, string>();
  /** The caller's own names of those that had to be changed. */
  readonly own = new Map<string, string>();

  /** @param name the caller's @returns the same one whenever it is asked for */
  inner(name: string): string {
    const known = this.#inner.get(name);
    if (known !== undefined) return known;
    const plain = name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, maxLength);
    let inner = plain;
    for (let copy = 2; this.#isTaken(inner, name); copy++) inner = `${plain.slice(0, maxLength - 4)}_${copy}`;
    this.#inner.set(name, inner);
    if (inner !== name) this.own.set(inner, name);
    return inner;
  }

  #isTaken(inner: string, name: string): boolean {
    return this.own.has(inner) || (inner !== name && this.#inner.get(inner) === inner);
  }
}
