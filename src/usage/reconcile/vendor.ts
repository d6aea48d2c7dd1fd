/** What reports of a vendor are read by. */
import type { Static, TSchema } from "@sinclair/typebox";
import { ReportError, type Reported, type ReportedLine, type ReportKind } from "./reported.ts";

/** Whole days in UTC, Unix milliseconds; projects or workspaces, none: all. */
export type Question = { readonly since: number; readonly until: number; readonly projects: readonly string[] };

/** A row of a file, by its columns' names. */
export type Cells = Readonly<Record<string, string | undefined>>;

export type Vendor<Page extends TSchema = TSchema> = {
  readonly name: "openai" | "anthropic";
  /** An account there is at this host, or below it. */
  readonly host: string;
  /** The environment's variable with a key that may read reports. */
  readonly variable: string;
  /** A page of any of its reports: its buckets in `data`, and where it goes on. */
  readonly page: Page;
  headers(key: string): Record<string, string>;
  /** Its reports, by addresses below that of its API. */
  asked(span: Question): readonly {
    readonly kind: ReportKind;
    readonly path: string;
    readonly query: readonly (readonly [string, string])[];
  }[];
  /** Adds what a page says. @throws ReportError */
  lines(page: Static<Page>, place: string, report: Reported, projects: readonly string[]): void;
  /** Its files, told by a column that no other has. */
  readonly files: readonly {
    readonly kind: ReportKind;
    readonly column: string;
    lines(row: Cells, place: string): ReportedLine[];
  }[];
};

/** A number of a file, 0 where it has none. @throws ReportError */
export function number(row: Cells, column: string, place: string): number {
  const text = row[column] ?? "";
  const value = Number(text);
  if (!Number.isFinite(value))
    throw new ReportError(`${place}: ${column} is '${text.slice(0, 40)}', which is no number`);
  return value;
}
