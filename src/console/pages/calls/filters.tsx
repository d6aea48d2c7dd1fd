/** By what calls are chosen: all of it stands in the address, and the list, the live one and the calls under way read it there. */
import { href, type Query, route, setQuery } from "../../router.ts";
import { Button, Field, Select, TextInput } from "../../ui/form.tsx";
import { Bar, Tabs } from "../../ui/layout.tsx";
import { failedEnds } from "../spend/sums.ts";

const typed = ["model", "provider", "persona", "tag", "client", "error_code"] as const;

type Choice = {
  readonly name: string;
  readonly title: string;
  readonly any: string;
  readonly values: readonly string[];
  readonly of?: (value: string) => string;
};
const seconds = (value: string) => `${Number(value) / 1_000} s or more`;
const choices: readonly Choice[] = [
  {
    ...{ name: "since", title: "Since", any: "all that is kept", values: ["1h", "24h", "7d"] },
    of: (value) => ({ "1h": "1 hour", "24h": "24 hours", "7d": "7 days" })[value] ?? value,
  },
  {
    name: "status",
    title: "Status",
    any: "any",
    values: ["4xx", "5xx", "400", "401", "403", "404", "429", "500", "503", "504"],
  },
  {
    name: "min_first_token_ms",
    title: "First token",
    any: "any",
    values: ["1000", "3000", "10000", "30000"],
    of: seconds,
  },
  {
    name: "min_total_ms",
    title: "Took",
    any: "any",
    values: ["5000", "30000", "120000", "600000"],
    of: seconds,
  },
  {
    name: "min_cost_micro_dollars",
    title: "Cost",
    any: "any",
    values: ["10000", "100000", "1000000", "10000000"],
    of: (value) => `$${Number(value) / 1e6} or more`,
  },
];
/** Set by links from elsewhere. */
const chips = [
  ...["key", "ended", "failure", "price_source", "persona_version", "upstream_model", "variant", "surface"],
  ...["service_tier", "user", "min_attempt", "until"],
];
const ends: readonly { readonly id: string; readonly title: string; readonly query: Query }[] = [
  { id: "", title: "All", query: {} },
  { id: "failed", title: "Failed", query: { ended: failedEnds.join(",") } },
  { id: "refused", title: "Refused", query: { ended: "refused" } },
  { id: "broken", title: "Broken off", query: { ended: "broken" } },
  { id: "abandoned", title: "Given up", query: { ended: "abandoned" } },
  { id: "rerouted", title: "Rerouted", query: { min_attempt: "2" } },
  { id: "unknown", title: "Unknown cost", query: { price_source: "unknown" } },
];
const tabNames = { ended: undefined, price_source: undefined, min_attempt: undefined };

const names: readonly string[] = [...typed, ...choices.map(({ name }) => name), ...chips];
/** Known of a call before its end. */
const openNames = [
  ...[
    "model",
    "provider",
    "persona",
    "tag",
    "client",
    "key",
    "persona_version",
    "upstream_model",
    "variant",
    "surface",
  ],
  ...["user", "min_attempt", "min_total_ms"],
];

/** Members of what a caller said of its calls are asked for by their names. */
const isKnown = (name: string) => names.includes(name) || name.startsWith("metadata.");
/** What else an address of this page may say. */
const others: readonly string[] = ["live", "after", "call"];

const words = (name: string) => name.replaceAll("_", " ");
const chosen = (of: readonly string[]): Query =>
  Object.fromEntries(of.map((name) => [name, route.value.query.get(name) ?? undefined]));

/** What the address chooses, by the parameters of the API. */
export const chosenCalls = (): Query => ({
  ...chosen(names),
  ...Object.fromEntries([...route.value.query].filter(([name]) => name.startsWith("metadata."))),
});
/** The part of it that holds of calls that have no end and no time. */
export const chosenLive = (): Query => ({ ...chosenCalls(), since: undefined, until: undefined });
export const chosenOpen = (): Query => chosen(openNames);
export const isChosen = (): boolean => [...route.value.query.keys()].some(isKnown);
/** Filters by what a call has at its end alone: none that is under way can fit them. */
export const endFilters = (): readonly string[] =>
  [...route.value.query.keys()].filter((name) => isKnown(name) && ![...openNames, "since"].includes(name)).map(words);

/** @param keyName of the key that is chosen, once it is known */
export function Filters({ keyName }: { readonly keyName: string | undefined }) {
  const { query } = route.value;
  const of = (name: string) => query.get(name) ?? "";
  const kept = { ...Object.fromEntries(query), after: undefined };
  const choose = (name: string) => (value: string) => setQuery({ [name]: value, after: undefined }, { replace: true });
  const same = (one: string) => one.split(",").toSorted().join();
  const current = ends.findLast(({ query: own }) =>
    Object.entries(own).every(([name, value]) => same(of(name)) === same(value!)),
  )!;
  const unknown = [...query.keys()].filter((name) => !isKnown(name) && !others.includes(name));
  const metadata = [...query.keys()].filter((name) => name.startsWith("metadata."));
  // A field that is empty does not say that those without a value are asked for.
  const without = typed.filter((name) => query.get(name) === "");
  return (
    <>
      <Tabs
        label="Ended"
        current={current.id}
        tabs={ends.map(({ id, title, query: own }) => ({
          ...{ id, title },
          href: href("calls", [], { ...kept, ...tabNames, ...own }),
        }))}
      />
      <Bar label="Filters">
        {typed.map((name) => (
          <Field key={name} label={name[0]!.toUpperCase() + words(name).slice(1)}>
            <TextInput type="search" size={13} value={of(name)} placeholder="the whole name" onInput={choose(name)} />
          </Field>
        ))}
        {choices.map(({ name, title, any, values, of: shown = String }) => (
          <Field key={name} label={title}>
            <Select
              value={of(name)}
              options={[
                { value: "", title: any },
                ...[...new Set([...values, of(name)])].filter(Boolean).map((value) => ({ value, title: shown(value) })),
              ]}
              onChange={choose(name)}
            />
          </Field>
        ))}
        {[...chips, ...metadata, ...without].map((name) =>
          query.has(name) ? (
            <Button key={name} onClick={() => setQuery({ [name]: undefined, after: undefined })}>
              {words(name)}: {(name === "key" && keyName) || of(name).replaceAll(",", ", ") || "none"}{" "}
              <span aria-hidden="true">✕</span>
              <span class="unseen">, remove this filter</span>
            </Button>
          ) : null,
        )}
      </Bar>
      {unknown.length > 0 && (
        <p class="notice warn" role="status">
          There is no filter {unknown.map((name) => `'${name}'`).join(", ")}: the calls below are not chosen by it.{" "}
          <Button onClick={() => setQuery(Object.fromEntries(unknown.map((name) => [name, undefined])))}>
            Remove it
          </Button>
        </p>
      )}
    </>
  );
}
