import { InvalidAnswer } from "../../protocols/errors.ts";

/** Finds gaps in the events' sequence numbers. Some servers give all events the same number, which is no gap. */
export class EventNumbers {
  #last: number | undefined;
  #hasSeen = false;
  #areCounting = false;
  #areRepeated = false;
  #haveJumped = false;

  /** @param isBeginning true for the event that begins an answer, which some servers give a 1 (https://github.com/openai/openai-ruby has it in its tests) @throws InvalidAnswer where events before the first are missing */
  see(number: unknown, isBeginning: boolean): void {
    if (typeof number === "number" && number > (isBeginning ? 1 : 0) && !this.#hasSeen)
      throw new InvalidAnswer("a stream that begins in the middle of an answer");
    this.#hasSeen = true;
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
