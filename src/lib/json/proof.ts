/** Follows a JSON text that comes in pieces to its end, by its brackets and quotes alone: nothing is held or parsed. */
import { JsonScan, noLimits } from "./scan.ts";

const [openBracket, openBrace] = [0x5b, 0x7b];
/** The bytes of a byte order mark. */
const markBytes = new Set([0xef, 0xbb, 0xbf]);

export class JsonProof {
  readonly #scan = new JsonScan(noLimits);
  #first: number | undefined;

  push(bytes: Uint8Array): void {
    this.#first ??= bytes.find((byte) => byte > 0x20 && !markBytes.has(byte));
    this.#scan.push(bytes);
  }

  /** True for an object or a list that is closed. Cut anywhere, it is not. */
  get isWhole(): boolean {
    return (this.#first === openBrace || this.#first === openBracket) && this.#scan.isClosed;
  }
}
