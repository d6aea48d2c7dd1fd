/** Runs the statements in SQLite that both databases share; each does its work before it returns. */
import type { Database, SQLQueryBindings, Statement } from "bun:sqlite";
import { asStorageError, located } from "../contract/storage-error.ts";
import { faultPlace } from "../sql/fault-place.ts";
import { type Parameter, type Rows, type Sql, sqliteText } from "../sql/sql.ts";

export type Run = <R>(text: string, given: readonly Parameter[]) => Rows<R>;

export type SqliteSql = Sql & {
  /** Runs `work` as one transaction. */
  atomically<T>(work: (run: Run) => T): Promise<T>;
};

/** @param before runs first, and may throw */
export function sqliteSql(database: Database, path: string, before: () => void): SqliteSql {
  const statements = new Map<string, Statement<unknown, SQLQueryBindings[]>>();
  /** Prepared when it is first run: a start and most commands need few of them. */
  const prepared = (text: string) => {
    let statement = statements.get(text);
    if (statement === undefined) {
      statement = database.prepare(sqliteText(text));
      statements.set(text, statement);
    }
    return statement;
  };
  const run: Run = <R>(text: string, given: readonly Parameter[]) => {
    try {
      const statement = prepared(text);
      const values = given.slice(0, statement.paramsCount);
      if (statement.columnNames.length === 0)
        return Object.assign([], { count: statement.run(...values).changes }) as Rows<R>;
      const rows = statement.all(...values) as R[];
      return Object.assign(rows, { count: rows.length });
    } catch (error) {
      throw located(asStorageError(error, path), faultPlace(text, given));
    }
  };
  const transaction = database.transaction((work: (run: Run) => unknown) => work(run));
  const checked = async <T>(work: () => T): Promise<T> => {
    try {
      before();
      return work();
    } catch (error) {
      throw asStorageError(error, path);
    }
  };
  const atomically = <T>(work: (run: Run) => T) => checked(() => transaction.immediate(work) as T);
  return {
    run: (text, parameters = []) =>
      checked(() => run(text, typeof parameters === "function" ? parameters(false) : parameters)),
    runBoth: (change, next, parameters) =>
      atomically(() => {
        if (run(change, parameters).count === 0) return false;
        run(next.replace("from changed", "from (select 1) changed"), parameters);
        return true;
      }),
    atomically,
  };
}
