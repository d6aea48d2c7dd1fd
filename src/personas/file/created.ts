/** Reads when a persona came to be, from its file. */

/**
 * For a file that does not say: the day this format began. A file's own times change with every checkout and copy, and what
 * clients see of a persona must not.
 */
export const createdByDefault = Date.UTC(2026, 10, 21) / 1000;

const written = /^(\d{4}-\d\d-\d\d)(T\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d))?$/;

/** @returns Unix time in whole seconds; undefined for what is no date. A day alone begins at midnight UTC. */
export function parseCreated(value: number | string): number | undefined {
  if (typeof value === "number") return value;
  const day = written.exec(value)?.[1];
  const time = day === undefined ? Number.NaN : Date.parse(value);
  // A day that its month does not have would be read as one of the next month.
  const exists = !Number.isNaN(time) && new Date(`${day}T00:00:00Z`).toISOString().startsWith(day!);
  return exists && time >= 0 ? Math.floor(time / 1000) : undefined;
}
