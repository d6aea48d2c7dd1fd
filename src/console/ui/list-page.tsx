/** A list: the line of its filters, its rows, what is said where there are none, and the way to its next page. Each page gives what differs. */
import type { ComponentChildren } from "preact";
import type { Listed } from "../../api/shape.ts";
import type { Resource } from "../data.ts";
import { everything, range, rangeWords, setRange } from "../range.ts";
import { href, type Query, route, setQuery } from "../router.ts";
import { FilterBar, type FilterBarProps, inForceOf } from "./filter-bar.tsx";
import { Button } from "./form.tsx";
import { Bar } from "./layout.tsx";
import { Empty, Loaded } from "./states.tsx";
import { type ServerOrder, Table, type TableProps } from "./table.tsx";

type ListPageProps<T, D extends object> = Omit<TableProps<T>, "rows" | "empty" | "isPart" | "order"> & {
  readonly list: Resource<D>;
  /** Where they are not all that came, or more. */
  readonly rows?: (came: D) => readonly T[];
  readonly filters?: Omit<FilterBarProps, "dropped">;
  /** Whether only what is of the chosen time is listed. */
  readonly isOfTime?: boolean;
  /** Said where there is nothing at all. */
  readonly none: { readonly title: string; readonly hint?: ComponentChildren };
  /** Said of filters that nothing fits. */
  readonly hint?: ComponentChildren;
  /** How the server sorts, unless the address says otherwise, such as `created_at.desc`. */
  readonly order?: string;
  /** Parameters that hold of the first page alone. */
  readonly firstAlone?: readonly string[];
  /** Beside the way to the next page. */
  readonly foot?: (came: D) => ComponentChildren;
  readonly olderWords?: (came: D) => string;
};

const pageNames = ["after"];

/** How the server is asked to sort: what the address says, else nothing, so that the usual order is its own. */
export function askedOrder(): Query {
  const [sort, order] = (route.value.query.get("order") ?? "").split(".");
  return sort && order ? { sort, order } : {};
}

function orderOf(usual: string): ServerOrder {
  const [by = "", direction] = (route.value.query.get("order") || usual).split(".");
  return {
    by,
    descending: direction === "desc",
    set: (next, descending) =>
      setQuery({ order: `${next}.${descending ? "desc" : "asc"}`, after: undefined }, { replace: true }),
  };
}

/** The address of this list with other parameters. */
const here = (changes: Query) => {
  const { page, rest, query } = route.value;
  return href(page, rest, { ...Object.fromEntries(query), ...changes });
};
const without = (names: readonly string[]): Query => Object.fromEntries(names.map((name) => [name, undefined]));

type NothingProps = Pick<ListPageProps<never, object>, "isOfTime" | "none" | "hint"> & {
  readonly inForce: readonly string[];
};

function Nothing({ inForce, isOfTime = false, none, hint }: NothingProps) {
  const isFiltered = inForce.length > 0;
  const isPast = isOfTime && range().since !== everything.since;
  return (
    <Empty title={isFiltered ? "Nothing fits these filters." : none.title}>
      {isOfTime && (
        <>
          Looked for in: {rangeWords()}.{" "}
          {isPast && <Button onClick={() => setRange(everything)}>Look in all that is kept</Button>}{" "}
        </>
      )}
      {isFiltered ? (
        <>
          {hint} <a href={here(without([...inForce, ...pageNames]))}>Without filters</a>
        </>
      ) : (
        none.hint
      )}
    </Empty>
  );
}

export function ListPage<T, D extends object = Listed<T>>({
  list,
  rows = (came) => (came as Partial<Listed<T>>).data ?? [],
  filters,
  isOfTime,
  none,
  hint,
  order,
  firstAlone = [],
  foot,
  olderWords,
  ...table
}: ListPageProps<T, D>) {
  const isLater = route.value.query.has("after");
  const isByTime = table.columns.some(({ isOrder }) => isOrder);
  const inForce = filters === undefined ? [] : inForceOf(filters.filters);
  return (
    <>
      {filters !== undefined && <FilterBar {...filters} dropped={pageNames} />}
      <Loaded resource={list} shape="table">
        {(came) => {
          const { has_more: hasMore = false, last_id: last } = came as Partial<Listed<T>>;
          return (
            <>
              <Table<T>
                {...table}
                rows={rows(came)}
                isPart={order !== undefined || isByTime || hasMore || isLater}
                {...(order !== undefined && { order: orderOf(order) })}
                empty={<Nothing {...{ inForce, isOfTime, none, hint }} />}
              />
              {(isLater || hasMore || foot !== undefined) && (
                <Bar>
                  {isLater && <a href={here(without(pageNames))}>{isByTime ? "Newest" : "First page"}</a>}
                  {foot?.(came)}
                  {hasMore && (
                    <a href={here({ ...without(firstAlone), after: last ?? undefined })}>
                      {olderWords?.(came) ?? (isByTime ? "Older" : "Next page")}
                    </a>
                  )}
                </Bar>
              )}
            </>
          );
        }}
      </Loaded>
    </>
  );
}
