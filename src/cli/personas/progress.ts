/** Progress of many calls: a bar on a terminal, else a line for each. */
import type { Output } from "../../lib/process/io.ts";

const width = 24;
const clearLine = "\r\u001b[2K";

export class Progress {
  readonly #output: Output;
  readonly #total: number;
  #done = 0;
  readonly #counts = new Map<string, number>();

  constructor(output: Output, total: number) {
    this.#output = output;
    this.#total = total;
    this.#draw();
  }

  /** @param kind is counted beside the bar, but for `pass` */
  add(kind: string, line: string): void {
    this.#done += 1;
    this.#counts.set(kind, (this.#counts.get(kind) ?? 0) + 1);
    if (!this.#output.isTerminal) this.#output.write(`${this.#done}/${this.#total} ${line}\n`);
    this.#draw();
  }

  /** Removes the bar. */
  end(): void {
    if (this.#output.isTerminal) this.#output.write(clearLine);
  }

  #draw(): void {
    if (!this.#output.isTerminal) return;
    const filled = this.#total === 0 ? width : Math.floor((this.#done / this.#total) * width);
    const counts = [...this.#counts].filter(([kind]) => kind !== "pass").map(([kind, count]) => `, ${count} ${kind}`);
    const bar = "█".repeat(filled) + "░".repeat(width - filled);
    this.#output.write(`${clearLine}${bar} ${this.#done}/${this.#total}${counts.join("")}`);
  }
}
