/** A map of what comes and goes thousands of times a second: what was deleted is garbage at once. See `LinkedList` for why that of a Map is not. */
export class BriefMap<T extends object> {
  /** Emptied as they are deleted. */
  readonly #cells = new Map<string, { value: T | undefined }>();

  get size(): number {
    return this.#cells.size;
  }

  has(key: string): boolean {
    return this.#cells.has(key);
  }

  get(key: string): T | undefined {
    return this.#cells.get(key)?.value;
  }

  /** @param key that it does not have */
  set(key: string, value: T): void {
    this.#cells.set(key, { value });
  }

  delete(key: string): void {
    const cell = this.#cells.get(key);
    if (cell === undefined) return;
    cell.value = undefined;
    this.#cells.delete(key);
  }

  clear(): void {
    for (const key of this.#cells.keys()) this.delete(key);
  }

  *values(): Generator<T> {
    for (const { value } of this.#cells.values()) yield value!;
  }
}
