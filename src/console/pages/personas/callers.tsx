/** Who calls a persona, by which of its names: pins of versions that are no longer in service stand first. */

import { useResource } from "../../data.ts";
import { askedTime, linkedTime, rangeWords } from "../../range.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count } from "../../ui/format.tsx";
import { Badge, Panel } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { moneyColumn, Table } from "../../ui/table.tsx";
import { getSums, type Row } from "../spend/sums.ts";
import type { PersonaDetails } from "./types.ts";

/** A row, by the names that it was asked for. */
const called = (row: Row) => {
  const of = (name: string) => String(row[name] ?? "");
  return { ...row, model: of("model"), key: of("key"), persona_version: of("persona_version") };
};
type Called = ReturnType<typeof called>;

export function Callers({ persona: { id, version } }: { readonly persona: PersonaDetails }) {
  const time = askedTime();
  const query = { persona: id, by: "model,key,persona_version", ...time, limit: "10000" };
  const sums = useResource(async (signal) => (await getSums(query, signal)).data.map(called), [query]);
  const isPin = ({ model }: Called) => model.includes("@");
  const isOld = (row: Called) => isPin(row) && row.persona_version !== version;
  return (
    <Panel title="Who calls it, and by what name" note={rangeWords()} actions={<Curl path="v1/usage" query={query} />}>
      <Loaded resource={sums}>
        {(data) => {
          const old = data.filter(isOld);
          const asking = new Set(old.map(({ key }) => key)).size;
          return (
            <>
              {old.length > 0 ? (
                <p class="notice warn">
                  {asking === 1 ? "One key still asks" : `${count(asking)} keys still ask`} for versions that are not in
                  service.
                </p>
              ) : (
                data.length > 0 && <p>Nobody asks for an old version.</p>
              )}
              <Table
                caption="Callers"
                columns={[
                  { id: "model", title: "Asked for", cell: ({ model }) => <code>{model}</code> },
                  {
                    id: "version",
                    title: "Answered by",
                    cell: (row) => (
                      <>
                        <code>{row.persona_version || "unknown"}</code>{" "}
                        {isOld(row) ? (
                          <Badge tone="warn">old pin</Badge>
                        ) : (
                          row.persona_version === version && <Badge tone="ok">in service</Badge>
                        )}
                      </>
                    ),
                  },
                  {
                    id: "key",
                    title: "Key",
                    cell: ({ key, key_name: name }) => <a href={href("keys", [key])}>{name ?? key}</a>,
                  },
                  {
                    id: "calls",
                    title: "Attempts",
                    align: "end",
                    cell: ({ calls }) => count(calls),
                    sort: (a, b) => a.calls - b.calls,
                  },
                  moneyColumn<Called>("cost", "Cost", (row) => row.cost_micro_dollars),
                ]}
                rows={[...old, ...data.filter((row) => !isOld(row))]}
                rowKey={(row) => [row.model, row.key, row.persona_version].join(" ")}
                rowHref={({ model, key, persona_version: asked }) =>
                  href("calls", [], { persona: id, model, key, persona_version: asked, ...linkedTime() })
                }
                rowTone={(row) => (isOld(row) ? "warn" : undefined)}
                empty={<Empty title="Nobody called it in this time.">Its id is the model's name in any client.</Empty>}
              />
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
