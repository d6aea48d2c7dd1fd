/** The nodes that serve, and in what they differ from the one that answers. */
import type { Node, Nodes } from "../../../api/nodes.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { Curl } from "../../ui/copy.tsx";
import { count } from "../../ui/format.tsx";
import { Badge, Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/table.tsx";

const parts = ["program", "configuration", "personas"] as const;

const columns: readonly Column<Node>[] = [
  {
    id: "id",
    title: "Node",
    cell: ({ id, is_this }) => (
      <>
        {id === "this" ? "This one" : id} {is_this && id !== "this" && <Badge tone="ok">this one answers</Badge>}
      </>
    ),
  },
  ...parts.map(
    (part): Column<Node> => ({
      id: part,
      title: part[0]!.toUpperCase() + part.slice(1),
      cell: ({ [part]: version, differs }) => (
        <>
          <span class="mono">{version}</span> {differs.includes(part) && <Badge tone="warn">differs</Badge>}
        </>
      ),
    }),
  ),
];

/** What to do about a difference. */
function Advice({
  store,
  differing,
  all,
}: {
  readonly store: string;
  readonly differing: number;
  readonly all: number;
}) {
  if (store === "sqlite")
    return <p>There is one node: its data is in a folder. Several share a database on PostgreSQL.</p>;
  if (differing === 0) return <p>{all === 1 ? "There is one node." : `All ${count(all)} nodes serve the same.`}</p>;
  return (
    <p class="notice warn">
      {count(differing)} of {count(all)} nodes serve something else than this one. Personas and configuration are files
      on each node: bring the same to all. While nodes are replaced this is usual.
    </p>
  );
}

export function NodesPanel() {
  const nodes = useResource((signal) => get<Nodes>("v1/nodes", {}, { signal }), [], { everyMs: 10_000 });
  return (
    <Panel title="Nodes" note="that have reported within the last minute" actions={<Curl path="v1/nodes" />}>
      <Loaded resource={nodes}>
        {({ store, data }) => (
          <>
            <Advice store={store} all={data.length} differing={data.filter((one) => one.differs.length > 0).length} />
            <Table
              caption="Nodes and the versions of what they serve"
              columns={columns}
              rows={data}
              rowKey={({ id }) => id}
              rowTone={({ differs }) => (differs.length > 0 ? "warn" : undefined)}
              empty=""
            />
          </>
        )}
      </Loaded>
    </Panel>
  );
}
