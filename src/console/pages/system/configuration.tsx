/** The configuration in force, each value with where it came from. */
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button, Check, Field, TextInput } from "../../ui/form.tsx";
import { count } from "../../ui/format.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { type Column, Table } from "../../ui/table.tsx";
import { flat, valueText } from "./values.ts";

type Origin = { readonly where: "file" | "environment" | "command line"; readonly name: string };
type Configuration = {
  readonly version: string;
  readonly values: Readonly<Record<string, unknown>>;
  readonly origins: Readonly<Record<string, Origin>>;
};
type Setting = { readonly path: string; readonly value: string; readonly origin: Origin | undefined };

const columns: readonly Column<Setting>[] = [
  {
    id: "path",
    title: "Setting",
    cell: ({ path }) => <span class="mono">{path}</span>,
    sort: (a, b) => a.path.localeCompare(b.path),
  },
  { id: "value", title: "Value", cell: ({ value }) => <span class="mono whole">{value}</span> },
  {
    id: "origin",
    title: "From",
    cell: ({ origin }) =>
      origin === undefined ? (
        <span class="muted">default</span>
      ) : (
        <span class="whole">
          <Badge tone="quiet">{origin.where}</Badge> {origin.name}
        </span>
      ),
    sort: (a, b) => (a.origin?.name ?? "").localeCompare(b.origin?.name ?? ""),
  },
];

export function ConfigurationPanel() {
  const { query } = route.value;
  const search = query.get("q") ?? "";
  const onlySet = query.get("set") === "true";
  const configuration = useResource((signal) => get<Configuration>("v1/configuration", {}, { signal }), []);
  const isFound = ({ path, value, origin }: Setting) =>
    (!onlySet || origin !== undefined) &&
    `${path} ${value} ${origin?.where ?? "default"} ${origin?.name ?? ""}`.toLowerCase().includes(search.toLowerCase());
  return (
    <Panel
      title="Configuration"
      note="in force on the node that answers; secrets are masked"
      actions={<Curl path="v1/configuration" />}
    >
      <Bar label="Filters">
        <Field label="Search" hint="a setting, a value, or a file">
          <TextInput type="search" value={search} onInput={(q) => setQuery({ q }, { replace: true })} />
        </Field>
        <Check
          label="Only what is set"
          checked={onlySet}
          onChange={(set) => setQuery({ set: set ? "true" : undefined }, { replace: true })}
        />
      </Bar>
      <Loaded resource={configuration}>
        {({ version, values, origins }) => {
          const all = flat(values).map(([path, value]) => ({ path, value: valueText(value), origin: origins[path] }));
          const found = all.filter(isFound);
          return (
            <>
              <p class="muted" role="status">
                {count(found.length)} of {count(all.length)} settings, version <span class="mono">{version}</span>
              </p>
              <Table
                caption="Settings"
                columns={columns}
                rows={found}
                rowKey={({ path }) => path}
                empty={
                  <Empty title="No setting is like this.">
                    <Button onClick={() => setQuery({ q: undefined, set: undefined }, { replace: true })}>
                      Show all
                    </Button>
                  </Empty>
                }
              />
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
