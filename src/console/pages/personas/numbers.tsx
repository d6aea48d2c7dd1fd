/** How each version and variant of a persona does, and how far each variant is from stopping itself. */
import type { Variants as VariantList } from "../../../api/variants.ts";
import type { PersonaNumbersRow, Times } from "../../../api/versions.ts";
import { get, post } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { askedTime, linkedTime, rangeWords } from "../../range.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button } from "../../ui/form.tsx";
import { count, duration, Time } from "../../ui/format.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { moneyColumn, Table } from "../../ui/table.tsx";
import { useUndo } from "../../ui/undo.tsx";
import { type PersonaDetails, pathOf } from "./types.ts";

const both = ({ p50, p95 }: Times) => (p50 === null ? "–" : `${duration(p50)} / ${duration(p95)}`);
const perCall = ({ cost_micro_dollars: cost, calls, unknown_cost_calls: unknown }: PersonaNumbersRow) =>
  calls > unknown ? Math.round(cost / (calls - unknown)) : null;

function Variants({ persona, onChange }: { readonly persona: PersonaDetails; readonly onChange: () => void }) {
  const path = `${pathOf(persona.id)}/variants`;
  const variants = useResource((signal) => get<VariantList>(path, {}, { signal }), [path, persona.version]);
  const { busy, error, run } = useAction();
  const { notice, offer } = useUndo();
  const make = async (acts: readonly (readonly [name: string, what: "resume" | "stop" | "promote"])[]) => {
    const isDone = await run(async () => {
      for (const [name, what] of acts) await post(`${path}/${encodeURIComponent(name)}/${what}`);
    });
    variants.reload();
    onChange();
    return isDone;
  };
  const act = async (name: string, what: "resume" | "stop" | "promote") => {
    const before = variants.data?.data ?? [];
    if (!(await make([[name, what]])) || what === "resume") return;
    const wasStopped = before.some((one) => one.name === name && one.state === "stopped");
    const others = before.filter((one) => one.name !== name && one.state === "serving");
    offer(
      what === "stop"
        ? { words: `${name} is stopped.`, undo: () => make([[name, "resume"]]) }
        : {
            words: `${name} has all callers.`,
            // Those that served do so again, before the one that had stopped does no more.
            undo: () =>
              make([
                ...others.map((one) => [one.name, "resume"] as const),
                ...(wasStopped ? [[name, "stop"] as const] : []),
              ]),
          },
    );
  };
  return (
    <Panel title="Variants" note="shares of the callers" actions={<Curl path={path} />}>
      {error !== undefined && <Failure error={error} />}
      {notice}
      <p>
        Stopping lasts until a variant goes on or the file changes; to keep it,{" "}
        <a href={href("personas", [persona.id, "source"])}>change the weights</a>.
      </p>
      <Loaded resource={variants}>
        {({ data }) => (
          <Table
            caption="Variants"
            columns={[
              { id: "name", title: "Variant", cell: ({ name }) => name },
              { id: "share", title: "Share", align: "end", cell: ({ share }) => `${(share * 100).toFixed(1)} %` },
              {
                id: "state",
                title: "State",
                cell: ({ state, reason, stopped_at: at }) =>
                  state === "serving" ? (
                    <Badge tone="ok">serving</Badge>
                  ) : (
                    <>
                      <Badge tone="bad">{reason === "operator" ? "stopped by hand" : "stopped itself"}</Badge>{" "}
                      {reason !== "operator" && `${reason?.replaceAll("_", " ")}, `}
                      <Time at={at} />
                    </>
                  ),
              },
              {
                id: "window",
                title: "Judged by",
                cell: ({ window }) =>
                  window === null ? "nothing: it never stops" : `${count(window.calls)} of ${count(window.of)} calls`,
              },
              {
                id: "act",
                title: "Act",
                cell: ({ name, state }) => (
                  <Bar>
                    {state === "stopped" ? (
                      <Button busy={busy} onClick={() => act(name, "resume")}>
                        Let {name} go on
                      </Button>
                    ) : (
                      <Button busy={busy} onClick={() => act(name, "stop")}>
                        Stop {name}
                      </Button>
                    )}
                    {data.length > 1 && data.some((one) => (one.name === name) === (one.state === "stopped")) && (
                      <Button busy={busy} onClick={() => act(name, "promote")}>
                        Give {name} all callers
                      </Button>
                    )}
                  </Bar>
                ),
              },
            ]}
            rows={data}
            rowKey={({ name }) => name}
            rowHref={({ name }) => href("calls", [], { persona: persona.id, variant: name })}
            rowTone={({ state }) => (state === "stopped" ? "bad" : undefined)}
            empty={<Empty title="It has no variants." />}
          />
        )}
      </Loaded>
    </Panel>
  );
}

export function Numbers({ persona, onChange }: { readonly persona: PersonaDetails; readonly onChange: () => void }) {
  const { id, version } = persona;
  const path = `${pathOf(id)}/numbers`;
  const time = askedTime();
  const numbers = useResource(
    (signal) => get<{ readonly data: readonly PersonaNumbersRow[] }>(path, time, { signal }),
    [path, time],
  );
  return (
    <>
      {persona.variants.length > 0 && <Variants persona={persona} onChange={onChange} />}
      <Panel title="By version and variant" note={rangeWords()} actions={<Curl path={path} query={time} />}>
        <Loaded resource={numbers}>
          {({ data }) => (
            <Table
              caption="Numbers by version and variant"
              columns={[
                {
                  id: "version",
                  title: "Version",
                  cell: (row) => (
                    <>
                      <code>{row.version || "unknown"}</code>
                      {row.version === version && " in service"}
                    </>
                  ),
                },
                { id: "variant", title: "Variant", cell: ({ variant }) => variant || "–" },
                {
                  id: "calls",
                  title: "Attempts",
                  align: "end",
                  cell: ({ calls }) => count(calls),
                  sort: (a, b) => a.calls - b.calls,
                },
                {
                  id: "errors",
                  title: "Errors",
                  align: "end",
                  cell: ({ errors, calls }) =>
                    `${count(errors)}${calls > 0 ? ` (${((100 * errors) / calls).toFixed(1)} %)` : ""}`,
                  sort: (a, b) => a.errors - b.errors,
                },
                { id: "first", title: "First token p50 / p95", align: "end", cell: (row) => both(row.first_token_ms) },
                { id: "total", title: "Whole answer p50 / p95", align: "end", cell: (row) => both(row.total_ms) },
                moneyColumn("each", "Cost each", perCall),
                moneyColumn<PersonaNumbersRow>(
                  "cost",
                  "Cost",
                  (row) => row.cost_micro_dollars,
                  (words, { unknown_cost_calls: unknown }) => (
                    <>
                      {words}
                      {unknown > 0 && ` + ${count(unknown)} unknown`}
                    </>
                  ),
                ),
              ]}
              rows={data}
              rowKey={(row) => `${row.version} ${row.variant}`}
              rowHref={(row) =>
                href("calls", [], { persona: id, persona_version: row.version, variant: row.variant, ...linkedTime() })
              }
              empty={
                <Empty title="Nobody called it in this time.">Choose a longer time, or try it in the playground.</Empty>
              }
            />
          )}
        </Loaded>
      </Panel>
    </>
  );
}
