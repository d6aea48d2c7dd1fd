/** Matches responses with their calls: by the id, and where clients leave ids out, by the function's name and the order. */
type Open = { readonly id: string; readonly given: string | undefined; readonly name: string; readonly turn: number };

export class Calls {
  readonly #open: Open[] = [];
  readonly #ids = new Set<string>();
  #turn = 0;

  /** The model speaks again: the calls before are older ones. */
  nextTurn(): void {
    this.#turn += 1;
  }

  /** @param given the id that the call came with @returns one that no other call of the conversation has */
  called(given: string | null | undefined, name: string): string {
    let id = given || `call_${this.#ids.size}`;
    for (let copy = 2; this.#ids.has(id); copy++) id = `${given || "call"}_${copy}_${this.#ids.size}`;
    this.#ids.add(id);
    this.#open.push({ id, given: given || undefined, name, turn: this.#turn });
    return id;
  }

  /** @returns the id of the call that is answered; undefined where none is open */
  answered(given: string | null | undefined, name: string): string | undefined {
    const latest = this.#open.at(-1)?.turn;
    const rules: readonly ((call: Open) => boolean)[] = [
      (call) => Boolean(given) && call.given === given,
      // Some clients write the call's id in the place of the name.
      (call) => call.given === name,
      (call) => call.turn === latest && call.name === name,
      (call) => call.name === name,
    ];
    for (const isIt of rules) {
      const at = this.#open.findIndex(isIt);
      if (at >= 0) return this.#open.splice(at, 1)[0]!.id;
    }
    return undefined;
  }
}
