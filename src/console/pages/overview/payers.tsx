/** Who spends most: by key, persona, model and tag. */
import { useResource } from "../../data.ts";
import { askedTime, linkedTime, rangeWords } from "../../range.ts";
import { href, route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Segments } from "../../ui/form.tsx";
import { count } from "../../ui/format.tsx";
import { Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { type Column, moneyColumn, Table } from "../../ui/table.tsx";
import { getSums, groups, nameOf, ownPageOf, type Row } from "../spend/sums.ts";

const shown = 6;
const choices = groups.slice(0, 4);

const columnsOf = (by: string, title: string, total: number): readonly Column<Row>[] => [
  { id: "name", title, cell: (row) => nameOf(row, by) },
  moneyColumn("cost", "Cost", (row) => row.cost_micro_dollars),
  {
    ...{ id: "share", title: "Share", align: "end" },
    cell: (row) => (total === 0 ? "–" : `${((100 * row.cost_micro_dollars) / total).toFixed(0)} %`),
  },
  {
    ...{ id: "calls", title: "Attempts", align: "end" },
    cell: (row) => (
      <a href={href("calls", [], { [by]: String(row[by]), ...linkedTime() })}>
        {count(row.calls)}
        <span class="unseen"> attempts of {nameOf(row, by)}</span>
      </a>
    ),
  },
];

export function Payers() {
  const asked = route.value.query.get("pays");
  const by: string = choices.find(({ id }) => id === asked)?.id ?? "key";
  const query = { by, ...askedTime(), top: String(shown) };
  const sums = useResource((signal) => getSums(query, signal), [query], { everyMs: 15_000 });
  const page = ownPageOf(by);
  return (
    <Panel title="Who spends most" note={rangeWords()} actions={<Curl path="v1/usage" query={query} />}>
      <Segments label="By" of={choices} chosen={by} onChoose={(id) => setQuery({ pays: id }, { replace: true })} />
      <Loaded resource={sums}>
        {({ data, total }) => (
          <>
            <Table
              caption={`Who spends most, by ${by}`}
              isPart
              columns={columnsOf(by, groups.find(({ id }) => id === by)!.title, total.cost_micro_dollars)}
              rows={data}
              rowKey={(row) => String(row[by])}
              rowHref={(row) => {
                const value = String(row[by]);
                return page !== undefined && value !== ""
                  ? href(page, [value])
                  : href("spend", [], { by: "time", ...linkedTime(), [by]: value });
              }}
              empty={<p class="muted">There was no call in this time.</p>}
            />
            <a href={href("spend", [], { by, ...linkedTime() })}>All of the spend</a>
          </>
        )}
      </Loaded>
    </Panel>
  );
}
