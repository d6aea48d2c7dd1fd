/**
 * Sets the clock of the process that it is loaded into wrong, by the milliseconds in the file that `CLOCK_SHIFT` names, which
 * another process may change at any time. What is monotonic stays as it is.
 */
import { existsSync, writeFileSync } from "node:fs";

/** The number in such a file. */
export class ClockShift {
  readonly path: string;
  readonly #shift: Float64Array;

  constructor(path: string) {
    this.path = path;
    if (!existsSync(path)) writeFileSync(path, new Float64Array(1));
    this.#shift = new Float64Array(Bun.mmap(path).buffer, 0, 1);
  }

  get ms(): number {
    return this.#shift[0]!;
  }

  set ms(shift: number) {
    this.#shift[0] = shift;
  }
}

const path = process.env["CLOCK_SHIFT"];
if (path !== undefined) {
  const shift = new ClockShift(path);
  const RealDate = Date;

  class ShiftedDate extends RealDate {
    constructor(...given: unknown[]) {
      if (given.length === 0) super(ShiftedDate.now());
      else super(...(given as [number]));
    }

    static override now(): number {
      return RealDate.now() + shift.ms;
    }
  }

  globalThis.Date = ShiftedDate as DateConstructor;
}
