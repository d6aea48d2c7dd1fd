/** A table whose columns can be sorted and chosen. It draws a part of many rows, and more when asked. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Button, Check } from "./form.tsx";
import { Bar } from "./layout.tsx";

export type Column<T> = {
  readonly id: string;
  readonly title: string;
  readonly cell: (row: T) => ComponentChildren;
  readonly align?: "end";
  readonly sort?: (a: T, b: T) => number;
  /** Whether it is shown only to who chooses it. */
  readonly hidden?: boolean;
};

type TableProps<T> = {
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowKey: (row: T) => string;
  /** Where the first column leads, and with it the whole row. */
  readonly rowHref?: (row: T) => string;
  /** Whether that row is open beside the table. */
  readonly isOpen?: (row: T) => boolean;
  readonly rowTone?: (row: T) => "bad" | "warn" | undefined;
  readonly empty: ComponentChildren;
  /** Whether there are more rows than these: to sort a part of them would show other first ones than there are. */
  readonly isPart?: boolean;
  /** For screen readers. */
  readonly caption: string;
  /** Under which name the chosen columns are kept; absent: they can't be chosen. */
  readonly choose?: string;
  /** Rows that are drawn before more are asked for. */
  readonly atFirst?: number;
};

/** The ids of columns whose visibility was changed, kept in this browser. */
function useChanged(name: string | undefined): [ReadonlySet<string>, (id: string) => void] {
  const key = `troupe.columns.${name}`;
  const [changed, setChanged] = useState<ReadonlySet<string>>(() => {
    const kept = name === undefined ? null : localStorage.getItem(key);
    return new Set(kept?.split(","));
  });
  const change = (id: string) => {
    const next = new Set(changed);
    if (!next.delete(id)) next.add(id);
    localStorage.setItem(key, [...next].join(","));
    setChanged(next);
  };
  return [changed, change];
}

/** @returns a text that a cell may have no room for, which is cut there */
const longer = (content: ComponentChildren) =>
  typeof content === "string" && content.length > 30 ? content : undefined;

export function Table<T>({
  columns,
  rows,
  rowKey,
  rowHref,
  isOpen,
  rowTone,
  empty,
  isPart = false,
  caption,
  choose,
  atFirst = 100,
}: TableProps<T>) {
  const [changed, change] = useChanged(choose);
  const [sorting, setSorting] = useState<{ readonly id: string; readonly descending: boolean }>();
  const [drawn, setDrawn] = useState(atFirst);
  if (rows.length === 0) return <>{empty}</>;
  const isShown = ({ id, hidden = false }: Column<T>) => hidden === changed.has(id);
  const shown = columns.filter(isShown);
  const compare = isPart ? undefined : columns.find(({ id }) => id === sorting?.id)?.sort;
  const sorted =
    compare === undefined ? rows : rows.toSorted((a, b) => (sorting!.descending ? compare(b, a) : compare(a, b)));
  const sortBy = (id: string) =>
    setSorting(
      sorting?.id === id ? (sorting.descending ? { id, descending: false } : undefined) : { id, descending: true },
    );
  // What is open is drawn, however far down it is.
  const opened = isOpen === undefined ? -1 : sorted.findLastIndex(isOpen);
  const last = Math.max(drawn, opened + 1);
  return (
    <>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="table" tabIndex={0} aria-label={caption}>
        <table>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {shown.map(({ id, title, align, sort }) => (
                <th
                  key={id}
                  scope="col"
                  class={align}
                  aria-sort={
                    sorting?.id === id && !isPart ? (sorting.descending ? "descending" : "ascending") : undefined
                  }
                >
                  {sort === undefined || isPart ? (
                    title
                  ) : (
                    <button type="button" onClick={() => sortBy(id)}>
                      {title}
                      <span aria-hidden="true">{sorting?.id === id ? (sorting.descending ? " ↓" : " ↑") : ""}</span>
                    </button>
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, last).map((row) => (
              <tr
                key={rowKey(row)}
                class={`${rowTone?.(row) ?? ""} ${rowHref === undefined ? "" : "opens"}`.trim() || undefined}
                aria-current={isOpen?.(row) ? "true" : undefined}
              >
                {shown.map(({ id, cell, align }, index) => {
                  const content = cell(row);
                  return (
                    <td key={id} class={align} title={longer(content)}>
                      {index === 0 && rowHref !== undefined ? (
                        <a href={rowHref(row)} data-opens>
                          {content}
                        </a>
                      ) : (
                        content
                      )}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {rows.length > last && (
        <Bar>
          <Button onClick={() => setDrawn(drawn + 200)}>{`Show more of ${rows.length}`}</Button>
        </Bar>
      )}
      {choose !== undefined && (
        <details class="columns-choice">
          <summary>Columns</summary>
          <fieldset>
            <legend class="unseen">Columns</legend>
            {columns.slice(1).map((column) => (
              <Check
                key={column.id}
                label={column.title}
                checked={isShown(column)}
                onChange={() => change(column.id)}
              />
            ))}
          </fieldset>
        </details>
      )}
    </>
  );
}
