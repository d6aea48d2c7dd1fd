/** Finds gaps in the events' sequence numbers. Some servers give all events the same number, which is no gap. */
export class EventNumbers {
  #last: number | undefined;
  #areCounting = false;
  #areRepeated = false;
  #haveJumped = false;

  see(number: unknown): void {
    if (typeof number !== "number") {
      if (this.#last !== undefined) this.#haveJumped = true;
      return;
    }
    if (number === this.#last) this.#areRepeated = true;
    else if (this.#last !== undefined && number !== this.#last + 1) this.#haveJumped = true;
    else if (this.#last !== undefined) this.#areCounting = true;
    this.#last = number;
  }

  get haveGaps(): boolean {
    return this.#haveJumped || (this.#areCounting && this.#areRepeated);
  }
}
