import type { Io } from "../../lib/process/io.ts";

export function printJson({ stdout }: Pick<Io, "stdout">, value: unknown): void {
  stdout.write(`${JSON.stringify(value, null, 2)}\n`);
}
