/** Matches responses with their calls: by the id, and where clients leave ids out, by the function's name and the order. */
type Open = { readonly id: string; readonly given: string | undefined; readonly name: string; readonly turn: number };

type Response = { readonly id?: string | null | undefined; readonly name?: string | null | undefined };

const isOf = ({ id, name }: Response, call: Open): boolean => (id ? id === call.given : name === call.name);

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

  /** @param responses of one content @returns the ids of the calls that they answer; undefined where none is open, or several may be meant */
  answered(responses: readonly Response[]): (string | undefined)[] {
    const isUnnamed = ({ id, name }: Response) => !id && !name;
    if (responses.some(isUnnamed)) {
      // Their order says it, where there is one for each call.
      const latest = this.#open.at(-1)?.turn;
      const left = this.#open.filter(({ turn }) => turn === latest);
      const isEach = left.length === responses.length;
      if (isEach && left.every((call, at) => isUnnamed(responses[at]!) || isOf(responses[at]!, call)))
        return left.map((call) => this.#take(this.#open.indexOf(call)));
    }
    return responses.map((one) => (isUnnamed(one) ? undefined : this.#named(one.id, one.name ?? "")));
  }

  #take(at: number): string {
    return this.#open.splice(at, 1)[0]!.id;
  }

  #named(given: string | null | undefined, name: string): string | undefined {
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
      if (at >= 0) return this.#take(at);
    }
    return undefined;
  }
}
