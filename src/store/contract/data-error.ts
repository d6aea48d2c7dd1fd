/** A request about stored data that can't be met; the message says why. */
export class DataError extends Error {
  override readonly name = "DataError";
}
