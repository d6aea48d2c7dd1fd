/**
 * Statements that both databases run, written once, as PostgreSQL reads them. SQLite has no schemas, no casts and no row locks, and needs none:
 * they are left out for it.
 */

export type Parameter = string | number | boolean | null | Uint8Array;
/** The rows, and how many were returned or changed. */
export type Rows<R> = readonly R[] & { readonly count: number };
/** @param again whether the statement may have been applied before */
export type Parameters = readonly Parameter[] | ((again: boolean) => readonly Parameter[]);

export interface Sql {
  /** Runs one statement that may be sent twice. @throws StorageError: `away` when it may have been applied or not */
  run<R>(text: string, parameters?: Parameters): Promise<Rows<R>>;
  /**
   * Runs a second statement where the first one changed a row: both or neither.
   * @param next selects from `changed`, which has one row
   * @returns whether the first one changed any
   */
  runBoth(change: string, next: string, parameters: readonly Parameter[]): Promise<boolean>;
}

const translations: readonly (readonly [pattern: RegExp, sqlite: string])[] = [
  // One writer at a time is all that it has.
  [/\btroupe\.locked_(\w+)\(\)/g, "$1"],
  [/\btroupe\./g, ""],
  [/::\w+(\[\])?/g, ""],
  [/\$(?=\d)/g, "?"],
  [/ for update( of \w+)?( skip locked)?/g, ""],
  [/\bgreatest\(/g, "max("],
  [/\bjsonb_array_elements_text\(/g, "json_each("],
  [/\bjsonb_each_text\(/g, "json_each("],
  // The functions above name their columns themselves.
  [/\((key, )?value\)/g, ""],
];

/** @returns the statement as SQLite reads it */
export const sqliteText = (text: string): string =>
  translations.reduce((sql, [pattern, words]) => sql.replaceAll(pattern, words), text);
