/** Tables, fields and sizes as text for people. */

/** Rows as aligned text below the columns' names in capitals. @param rows each with a text for every column; undefined shows as "-" */
export function formatTable(columns: readonly string[], rows: readonly (readonly (string | undefined)[])[]): string {
  const all = [columns.map((column) => column.toUpperCase()), ...rows.map((row) => row.map((cell) => cell ?? "-"))];
  return formatRows(all);
}

/** `name  value` lines, one for each that has a value. */
export function formatFields(fields: Readonly<Record<string, string | undefined>>): string {
  return formatRows(Object.entries(fields).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])));
}

function formatRows(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) => Math.max(...rows.map((row) => Bun.stringWidth(row[at]!))));
  const lines = rows.map((row) =>
    row
      .map((cell, at) => cell + " ".repeat(widths[at]! - Bun.stringWidth(cell)))
      .join("  ")
      .trimEnd(),
  );
  return lines.map((line) => `${line}\n`).join("");
}

export const megabytes = (bytes: number): string => `${(bytes / 1_000_000).toFixed(1)} MB`;
