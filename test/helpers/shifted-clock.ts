/** Sets the clock of the process that it is loaded into wrong, by `CLOCK_SHIFT_MS`. What is monotonic stays as it is. */
const shiftMs = Number(process.env["CLOCK_SHIFT_MS"] ?? 0);
const RealDate = Date;

class ShiftedDate extends RealDate {
  constructor(...given: unknown[]) {
    if (given.length === 0) super(ShiftedDate.now());
    else super(...(given as [number]));
  }

  static override now(): number {
    return RealDate.now() + shiftMs;
  }
}

globalThis.Date = ShiftedDate as DateConstructor;
