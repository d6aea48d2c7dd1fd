/** A persona's versions, and what changed between two of them. */
import type { Listed } from "../../../api/shape.ts";
import type { PersonaVersionText } from "../../../api/versions.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href, route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Diff } from "../../ui/diff.tsx";
import { Field, Select } from "../../ui/form.tsx";
import { Time } from "../../ui/format.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { pathOf, type Version } from "./types.ts";

const titleOf = ({ id, in_service: inService, labels }: Version) =>
  [id, ...(inService ? ["in service"] : []), ...labels].join(", ");

function Between({ id, versions }: { readonly id: string; readonly versions: readonly Version[] }) {
  const { query } = route.value;
  const served = versions.find((one) => one.in_service) ?? versions[0]!;
  const known = (name: string) => versions.find((one) => one.id === query.get(name))?.id;
  const after = known("to") ?? served.id;
  const before = known("from") ?? versions.find((one) => one.id !== after)!.id;
  const load = (version: string) => (signal: AbortSignal) =>
    get<PersonaVersionText>(`${pathOf(id)}/versions/${version}`, {}, { signal });
  const one = useResource(load(before), [id, before]);
  const other = useResource(load(after), [id, after]);
  const options = versions.map((version) => ({ value: version.id, title: titleOf(version) }));
  return (
    <Panel title="What changed" note="includes in place">
      <Bar label="Versions to compare">
        <Field label="From">
          <Select value={before} options={options} onChange={(from) => setQuery({ from })} />
        </Field>
        <Field label="To">
          <Select value={after} options={options} onChange={(to) => setQuery({ to })} />
        </Field>
        <a href={href("playground", [], { model: `${id}@${before}`, b: `${id}@${after}` })}>Ask both, side by side</a>
      </Bar>
      <Loaded resource={one}>
        {(left) => (
          <Loaded resource={other}>{(right) => <Diff before={left.resolved} after={right.resolved} />}</Loaded>
        )}
      </Loaded>
    </Panel>
  );
}

export function Versions({ id }: { readonly id: string }) {
  const path = `${pathOf(id)}/versions`;
  const versions = useResource((signal) => get<Listed<Version>>(path, { limit: "1000" }, { signal }), [id]);
  return (
    <Loaded resource={versions}>
      {({ data }) => (
        <>
          {data.length > 1 ? (
            <Between id={id} versions={data} />
          ) : (
            <Empty title="There is one version so far.">What is saved next is compared with it here.</Empty>
          )}
          <Panel title="Versions" note="each that has served is kept" actions={<Curl path={path} />}>
            <Table
              caption="Versions"
              columns={[
                { id: "id", title: "Version", cell: (one) => <code>{one.id}</code> },
                {
                  id: "names",
                  title: "Names",
                  cell: (one) => (
                    <>
                      {one.in_service && <Badge tone="ok">in service</Badge>} {one.labels.join(", ")}
                    </>
                  ),
                },
                { id: "created", title: "Since", cell: (one) => <Time at={one.created_at} /> },
                { id: "used", title: "Last used", cell: (one) => <Time at={one.used_at} /> },
                {
                  id: "try",
                  title: "Try",
                  cell: (one) =>
                    one.in_service ? (
                      <a href={href("playground", [], { model: id })}>Try it</a>
                    ) : (
                      <a href={href("playground", [], { model: `${id}@${one.id}`, b: id })}>
                        Beside what is in service
                      </a>
                    ),
                },
                {
                  id: "calls",
                  title: "Attempts",
                  cell: (one) => (
                    <a href={href("calls", [], { persona: id, persona_version: one.id })}>Attempts of {one.id}</a>
                  ),
                },
              ]}
              rows={data}
              rowKey={(one) => one.id}
              rowHref={(one) => href("personas", [id, "versions"], { from: one.id })}
              empty={<Empty title="None is kept." />}
            />
          </Panel>
        </>
      )}
    </Loaded>
  );
}
