/** A table whose columns can be sorted and chosen. It draws a part of many rows, and more when asked. */
import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ActionMenu, type RowAction } from "./action-menu.tsx";
import { Button, Check } from "./form.tsx";
import { largest, Money } from "./format.tsx";
import { Icon } from "./icon.tsx";
import { Bar } from "./layout.tsx";
import { Menu } from "./menu.tsx";
import "./table.css";

export type Column<T> = {
  readonly id: string;
  readonly title: string;
  readonly cell: (row: T, shownRows: readonly T[]) => ComponentChildren;
  readonly align?: "end";
  readonly sort?: (a: T, b: T) => number;
  /** Whether it is shown only to who chooses it. */
  readonly hidden?: boolean;
  /** Whether the server gives the rows in its order: the newest or the highest first. */
  readonly isOrder?: boolean;
  /** The name by which the server sorts by it: times with the newest first. */
  readonly sortsBy?: string;
};

/** How the server sorts: all rows, of which these are some. */
export type ServerOrder = {
  readonly by: string;
  readonly descending: boolean;
  readonly set: (by: string, descending: boolean) => void;
};

/** A column of sums in millionths of a dollar (null: unknown): all have as many digits as the largest of them needs, and their exact value behind them. */
export function moneyColumn<T>(
  id: string,
  title: string,
  of: (row: T) => number | null,
  wrap: (words: ComponentChildren, row: T) => ComponentChildren = (words) => words,
): Column<T> {
  return {
    ...{ id, title, align: "end" as const },
    sort: (a, b) => (of(a) ?? -1) - (of(b) ?? -1),
    cell: (row, rows) => wrap(<Money micro={of(row)} most={largest(rows.map(of))} />, row),
  };
}

export type TableProps<T> = {
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly rowKey: (row: T) => string;
  /** Where the first column leads, and with it the whole row. */
  readonly rowHref?: (row: T) => string | undefined;
  /** Whether that row is open beside the table. */
  readonly isOpen?: (row: T) => boolean;
  /** What can be done with it, in a menu at its end. @property of whose they are */
  readonly actions?: (row: T) => { readonly of: string; readonly all: readonly RowAction[] };
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
  readonly order?: ServerOrder;
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

/** Where a table has no room it scrolls sideways, or in a narrow window its rows are cards; where it has, its head stays in sight. */
function useRoom() {
  const place = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    const own = place.current;
    if (own === null) return;
    const measure = () => {
      own.classList.remove("wide");
      own.classList.toggle("wide", own.scrollWidth > own.clientWidth);
    };
    measure();
    const sizes = new ResizeObserver(measure);
    sizes.observe(own);
    return () => sizes.disconnect();
  });
  return place;
}

type HeadProps<T> = {
  readonly column: Column<T>;
  readonly sorted: "ascending" | "descending" | undefined;
  readonly sort: (() => void) | undefined;
};

function Head<T>({ column: { title, align }, sorted, sort }: HeadProps<T>) {
  const arrow = sorted === undefined ? "" : sorted === "descending" ? " ↓" : " ↑";
  const words = (
    <>
      {title}
      <span aria-hidden="true">{arrow}</span>
    </>
  );
  return (
    <th scope="col" class={align} aria-sort={sorted}>
      {sort === undefined ? (
        words
      ) : (
        <button type="button" onClick={sort}>
          {words}
        </button>
      )}
    </th>
  );
}

type RowProps<T> = Pick<TableProps<T>, "rowHref" | "isOpen" | "rowTone" | "actions"> & {
  readonly row: T;
  readonly sorted: readonly T[];
  readonly shown: readonly Column<T>[];
};

function Row<T>({ row, sorted, shown, rowHref, isOpen, rowTone, actions }: RowProps<T>) {
  const to = rowHref?.(row);
  const { of, all = [] } = actions?.(row) ?? {};
  return (
    <tr
      class={`${rowTone?.(row) ?? ""} ${to === undefined ? "" : "opens"}`.trim() || undefined}
      aria-current={isOpen?.(row) ? "true" : undefined}
    >
      {shown.map(({ id, title, cell, align }, index) => {
        const content = cell(row, sorted);
        return (
          <td key={id} class={align} title={longer(content)} data-title={title}>
            {index === 0 && to !== undefined ? (
              <a href={to} data-opens>
                {content}
              </a>
            ) : (
              content
            )}
          </td>
        );
      })}
      {actions !== undefined && <td class="acts">{all.length > 0 && <ActionMenu of={of!} actions={all} />}</td>}
    </tr>
  );
}

const columnsIcon = "M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10";

export function Table<T>({
  columns,
  rows,
  rowKey,
  rowHref,
  isOpen,
  rowTone,
  actions,
  empty,
  isPart = false,
  caption,
  choose,
  atFirst = 100,
  order,
}: TableProps<T>) {
  const place = useRoom();
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
  const headOf = ({ id, sort, isOrder, sortsBy }: Column<T>): Omit<HeadProps<T>, "column"> => {
    if (sortsBy !== undefined && order !== undefined) {
      const isBy = order.by === sortsBy;
      return {
        sorted: isBy ? (order.descending ? "descending" : "ascending") : undefined,
        sort: () => order.set(sortsBy, isBy ? !order.descending : sortsBy.endsWith("_at")),
      };
    }
    if (sort === undefined || isPart) return { sorted: isOrder ? "descending" : undefined, sort: undefined };
    const own = sorting?.id === id ? (sorting.descending ? "descending" : "ascending") : undefined;
    return { sorted: own ?? (isOrder && sorting === undefined ? "descending" : undefined), sort: () => sortBy(id) };
  };
  // What is open is drawn, however far down it is.
  const opened = isOpen === undefined ? -1 : sorted.findLastIndex(isOpen);
  const last = Math.max(drawn, opened + 1);
  return (
    <div class={choose === undefined ? undefined : "with-choice"}>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard */}
      <section class="table" tabIndex={0} aria-label={caption} ref={place}>
        <table>
          <caption class="unseen">{caption}</caption>
          <thead>
            <tr>
              {shown.map((column) => (
                <Head key={column.id} column={column} {...headOf(column)} />
              ))}
              {actions !== undefined && (
                <th scope="col" class="end">
                  <span class="unseen">Actions</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, last).map((row) => (
              <Row key={rowKey(row)} {...{ row, sorted, shown, rowHref, isOpen, rowTone, actions }} />
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
        <div class="choice-of-columns">
          <Menu title={<Icon path={columnsIcon} />} label="Columns">
            {columns.slice(1).map((column) => (
              <Check
                key={column.id}
                label={column.title}
                checked={isShown(column)}
                onChange={() => change(column.id)}
              />
            ))}
          </Menu>
        </div>
      )}
    </div>
  );
}
