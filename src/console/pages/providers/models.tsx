/** The models of a provider, those that end first. */
import type { ModelPage } from "../../../api/models.ts";
import { href, route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Field, TextInput } from "../../ui/form.tsx";
import { ago, count, Time } from "../../ui/format.tsx";
import { Badge, Panel } from "../../ui/layout.tsx";
import { Table } from "../../ui/table.tsx";

export type Models = ModelPage;
type Model = Models["data"][number];

/** Of the end of a model, by its state. */
export const endTones = { ended: "bad", ends_soon: "warn", later: "quiet" } as const;
const words: Readonly<Record<string, string>> = { ended: "ended", ends_soon: "ends soon", later: "ends later" };
const endOf = ({ shutdown_date: date }: Model) => (date === undefined ? Number.POSITIVE_INFINITY : Date.parse(date));

/** @returns a model's name without its provider */
export const bare = ({ id }: Pick<Model, "id">): string => id.slice(id.indexOf("/") + 1);

export const modelsQuery = (provider: string) => ({ provider, limit: "1000" });

export function ModelsPanel({ provider, models }: { readonly provider: string; readonly models: Models }) {
  const find = route.value.query.get("model") ?? "";
  const list = models.lists.find((one) => one.provider === provider);
  const rows = models.data
    .filter(({ id }) => id.toLowerCase().includes(find.toLowerCase()))
    .toSorted((a, b) => endOf(a) - endOf(b) || a.id.localeCompare(b.id));
  const note =
    list?.listed_at == null ? (
      "named in the configuration or well known"
    ) : (
      <>list of {ago(Date.parse(list.listed_at))}</>
    );
  return (
    <Panel title="Models" note={note} actions={<Curl path="v1/models" query={modelsQuery(provider)} />}>
      {list?.failure && <p class="notice warn upstream-text">The list was not read: {list.failure}</p>}
      <Field label="Find a model">
        <TextInput
          type="search"
          value={find}
          onInput={(model) => setQuery({ model: model || undefined }, { replace: true })}
        />
      </Field>
      <Table
        caption={`Models of ${provider}`}
        rows={rows}
        rowKey={({ id }) => id}
        rowTone={({ end_state: state }) => (state === "ended" ? "bad" : state === "ends_soon" ? "warn" : undefined)}
        empty={
          <p class="muted">
            {find === ""
              ? "No model is known: any name can be called, and goes to the provider as it is."
              : "None is named so."}
          </p>
        }
        columns={[
          {
            ...{ id: "model", title: "Model" },
            cell: (model) => <a href={href("calls", [], { provider, upstream_model: bare(model) })}>{bare(model)}</a>,
          },
          {
            ...{ id: "end", title: "End" },
            cell: ({ end_state: state, shutdown_date: date }) =>
              state === null || date === undefined ? (
                <span class="muted">none announced</span>
              ) : (
                <>
                  <Badge tone={endTones[state]!}>{words[state]}</Badge> <Time at={date} /> ({date.slice(0, 10)})
                </>
              ),
          },
          {
            ...{ id: "context", title: "Context", align: "end" },
            cell: ({ context_length: tokens }) => (tokens == null ? "–" : count(tokens)),
          },
          {
            ...{ id: "spend", title: "Spend" },
            cell: ({ id }) => (
              <a href={href("spend", [], { model: id, by: "key" })}>
                who pays<span class="unseen"> for {id}</span>
              </a>
            ),
          },
        ]}
      />
      {models.has_more && <p class="muted">The provider has more than these {count(models.data.length)}.</p>}
    </Panel>
  );
}
