/** The configuration in force, each value with where it came from. */
import type { Configuration } from "../../../api/system.ts";
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

type Setting = {
  readonly path: string;
  readonly value: string;
  readonly origin: Configuration["origins"][string] | undefined;
};

/** What is set stands first, then the parts as they are written; of a part all together. */
const partOf = ({ path }: Setting) => path.split(/[.[]/, 1)[0]!;

type Part = { readonly name: string; readonly settings: readonly Setting[]; readonly set: number };

function partsOf(all: readonly Setting[]): readonly Part[] {
  const parts = [...Map.groupBy(all, partOf)].map(([name, own]) => ({
    name,
    settings: own.toSorted((a, b) => Number(b.origin !== undefined) - Number(a.origin !== undefined)),
    set: own.filter(({ origin }) => origin !== undefined).length,
  }));
  return parts.toSorted((a, b) => Number(b.set > 0) - Number(a.set > 0) || a.name.localeCompare(b.name));
}

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
              {found.length === 0 && (
                <Empty title="No setting is like this.">
                  <Button onClick={() => setQuery({ q: undefined, set: undefined }, { replace: true })}>
                    Show all
                  </Button>
                </Empty>
              )}
              <section aria-label="Settings">
                {partsOf(found).map(({ name, settings, set }) => (
                  // Where something is looked for, all that was found is to be seen.
                  <details key={`${name} ${search}`} class="part" open={set > 0 || search !== ""}>
                    <summary>
                      <strong class="mono">{name}</strong>{" "}
                      <span class="muted">
                        {set > 0
                          ? `${count(set)} of ${count(settings.length)} set`
                          : `${count(settings.length)}, all by default`}
                      </span>
                    </summary>
                    <Table
                      caption={`Settings of ${name}`}
                      columns={columns}
                      rows={settings}
                      rowKey={({ path }) => path}
                      empty={null}
                    />
                  </details>
                ))}
              </section>
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
