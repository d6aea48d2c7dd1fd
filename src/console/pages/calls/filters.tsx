/** By what calls are chosen: all of it stands in the address, and the list, the live one and the calls under way read it there. */
import { get } from "../../api.ts";
import { askedTime } from "../../range.ts";
import { href, type Query, route, setQuery } from "../../router.ts";
import type { Filter } from "../../ui/filter-bar.tsx";
import { Button } from "../../ui/form.tsx";
import { Tabs } from "../../ui/layout.tsx";
import type { KeyPage } from "../keys/types.ts";
import { failedEnds, getSums } from "../spend/sums.ts";
import { failureWords } from "./explain.ts";

/** Values that calls have had of late, those that cost most first. */
const ofLedger = (name: string) => (signal: AbortSignal) =>
  getSums({ by: name, since: "30d", top: "100" }, signal).then(({ data }) =>
    data.map((row) => ({ value: String(row[name] ?? "") })).filter(({ value }) => value !== ""),
  );
/** All keys, however long ago one called: those that were used last first. */
const ofKeys = (signal: AbortSignal, search: string) =>
  get<KeyPage>(
    "v1/keys",
    { search: search || undefined, sort: "last_used_at", order: "desc", limit: "50" },
    { signal },
  ).then(({ data }) => data.map(({ id, name }) => ({ value: id, title: name })));
const seconds = (value: string) => `${Number(value) / 1_000} s or more`;
const dollars = (value: string) => `$${Number(value) / 1e6} or more`;
const given =
  (of: readonly string[], title: (value: string) => string = String) =>
  () =>
    of.map((value) => ({ value, title: title(value) }));
const failures = Object.keys(failureWords);
const statuses = ["4xx", "5xx", "400", "401", "403", "404", "429", "500", "503", "504"];

const filters: readonly Filter[] = [
  { name: "model", title: "Model", suggest: ofLedger("model") },
  { name: "key", title: "Key", suggest: ofKeys, isClosed: true, isSearched: true },
  { name: "status", title: "Status", suggest: given(statuses) },
  { name: "persona", title: "Persona", suggest: ofLedger("persona") },
  { name: "provider", title: "Provider", suggest: ofLedger("provider") },
  { name: "tag", title: "Tag", suggest: ofLedger("tag") },
  { name: "client", title: "Client", suggest: ofLedger("client") },
  { name: "error_code", title: "What its error was called" },
  { name: "failure", title: "Why a provider failed", suggest: given(failures) },
  {
    ...{ name: "min_first_token_ms", title: "First token", isClosed: true },
    suggest: given(["1000", "3000", "10000", "30000"], seconds),
  },
  {
    ...{ name: "min_total_ms", title: "Took", isClosed: true },
    suggest: given(["5000", "30000", "120000", "600000"], seconds),
  },
  {
    ...{ name: "min_cost_micro_dollars", title: "Cost", isClosed: true },
    suggest: given(["10000", "100000", "1000000", "10000000"], dollars),
  },
  // Set by links from elsewhere.
  ...["ended", "price_source", "persona_version", "upstream_model", "variant", "surface", "service_tier", "user"].map(
    (name) => ({ name, title: name, isGiven: true }),
  ),
  { name: "min_attempt", title: "min_attempt", isGiven: true },
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

const names: readonly string[] = filters.map(({ name }) => name);
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
const others: readonly string[] = ["live", "after", "call", "since", "until"];

const words = (name: string) => name.replaceAll("_", " ");
const chosen = (of: readonly string[]): Query =>
  Object.fromEntries(of.map((name) => [name, route.value.query.get(name) ?? undefined]));

/** What the address chooses, by the parameters of the API. */
export const chosenCalls = (): Query => ({
  ...chosen(names),
  ...askedTime(),
  ...Object.fromEntries([...route.value.query].filter(([name]) => name.startsWith("metadata."))),
});
/** The part of it that holds of calls that have no end and no time. */
export const chosenLive = (): Query => ({ ...chosenCalls(), since: undefined, until: undefined });
export const chosenOpen = (): Query => chosen(openNames);
export const isChosen = (): boolean => [...route.value.query.keys()].some(isKnown);
/** Filters by what a call has at its end alone: none that is under way can fit them. */
export const endFilters = (): readonly string[] =>
  [...route.value.query.keys()]
    .filter((name) => (isKnown(name) || name === "until") && !openNames.includes(name))
    .map(words);

/** @param keyName of the key that is chosen, once it is known */
export const callFilters = (keyName: string | undefined) => ({
  filters,
  shown: (name: string, value: string) =>
    name === "key"
      ? keyName
      : name.endsWith("_ms")
        ? seconds(value)
        : name === "min_cost_micro_dollars"
          ? dollars(value)
          : undefined,
});

/** By how they ended, and what of the address chooses nothing. */
export function Ends() {
  const { query } = route.value;
  const of = (name: string) => query.get(name) ?? "";
  const kept = { ...Object.fromEntries(query), after: undefined };
  const same = (one: string) => one.split(",").toSorted().join();
  const current = ends.findLast(({ query: own }) =>
    Object.entries(own).every(([name, value]) => same(of(name)) === same(value!)),
  )!;
  const unknown = [...query.keys()].filter((name) => !isKnown(name) && !others.includes(name));
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
