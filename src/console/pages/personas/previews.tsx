/** Previews of branches: a part of the list of personas, while there are any. */
import type { PersonaPreview, PersonaPreviewList } from "../../../api/previews.ts";
import { ApiFailure, get, remove } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Time } from "../../ui/format.tsx";
import { Panel } from "../../ui/layout.tsx";
import { Failure } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";

const mostNamed = 5;

function Named({ label, personas }: PersonaPreview) {
  const more = personas.length - mostNamed;
  return (
    <span class="wraps">
      {personas.slice(0, mostNamed).map(({ id }) => (
        <>
          <a
            href={href("playground", [], { model: `${id}@${label}`, b: id })}
            title="Ask it beside the one that is served"
          >
            {id}
          </a>{" "}
        </>
      ))}
      {more > 0 && `and ${more} more`}
    </span>
  );
}

export function Previews() {
  const load = (signal: AbortSignal) => get<PersonaPreviewList>("v1/previews", {}, { signal });
  const previews = useResource(load, [], { everyMs: 60_000 });
  const dropping = useAction();
  const drop = async (label: string) => {
    await dropping.run(() =>
      remove(`v1/previews/${label}`).catch((error) => {
        // One that has ended meanwhile is what was asked for.
        if (!(error instanceof ApiFailure) || error.status !== 404) throw error;
      }),
    );
    previews.reload();
  };
  const rows = previews.data?.data ?? [];
  if (rows.length === 0) return null;
  return (
    <Panel title="Previews" note="of branches, called as <persona>@<label>">
      {dropping.error && <Failure error={dropping.error} />}
      <Table
        caption="Previews"
        columns={[
          { id: "label", title: "Label", cell: ({ label }) => <code>{label}</code> },
          { id: "personas", title: "Personas", cell: (row) => <Named {...row} /> },
          { id: "by", title: "Pushed by", cell: ({ key, key_name }) => <a href={href("keys", [key])}>{key_name}</a> },
          { id: "until", title: "Until", cell: ({ ends_at }) => <Time at={ends_at} /> },
        ]}
        rows={rows}
        rowKey={({ label }) => label}
        actions={({ label }) => ({
          of: label,
          all: [{ title: "Drop it", run: () => drop(label), isDanger: true }],
        })}
        empty={null}
      />
    </Panel>
  );
}
