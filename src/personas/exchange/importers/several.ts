/** Files that hold several personas: one of them that can't come over leaves the others be. */
import type { Imported, Omission } from "./draft.ts";
import { ImportError } from "./source.ts";

/**
 * @returns what was read; parts that can't become personas are listed as left out with the first
 * @throws ImportError of the first part where none can be read
 */
export function readEach<T>(parts: readonly T[], read: (part: T, at: number) => Imported[]): Imported[] {
  const imported: Imported[] = [];
  const failures: ImportError[] = [];
  for (const [at, part] of parts.entries()) {
    try {
      imported.push(...read(part, at));
    } catch (error) {
      if (!(error instanceof ImportError)) throw error;
      failures.push(error);
    }
  }
  const [first, ...others] = imported;
  if (first !== undefined) return [{ ...first, omitted: [...failures.map(leftOut), ...first.omitted] }, ...others];
  if (failures[0] !== undefined) throw failures[0];
  return [];
}

const leftOut = ({ place, message }: ImportError): Omission => ({ place, message: `${message}; it is left out` });
