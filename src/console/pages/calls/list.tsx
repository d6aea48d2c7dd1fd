/** All calls, failed and rerouted ones too: chosen by what the address says, live, and those under way. */

import { useEffect, useState } from "preact/hooks";
import type { CallPage, OpenCalls } from "../../../api/calls.ts";
import type { Key } from "../../../api/keys.ts";
import { get, type StreamState, stream } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href, type Query, route, setQuery } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { Button } from "../../ui/form.tsx";
import { count, duration, Time } from "../../ui/format.tsx";
import { Badge, Page, Panel, State } from "../../ui/layout.tsx";
import { ListPage } from "../../ui/list-page.tsx";
import { isFree, moveRow } from "../../ui/rows.ts";
import { Failure } from "../../ui/states.tsx";
import { type Column, moneyColumn, Table } from "../../ui/table.tsx";
import { serverWords } from "../../workers.ts";
import { CallPane } from "../call.tsx";
import { getSums } from "../spend/sums.ts";
import { callFilters, chosenCalls, chosenLive, chosenOpen, Ends, endFilters, isChosen } from "./filters.tsx";
import { type Call, endWords, type OpenCall, targetOf } from "./line.ts";

/** Rows that a live list keeps, and how many a second it asks for: nobody reads more, and a browser takes a while for each. */
const maxLive = 500;
const maxASecond = 200;
const pageSize = 50;
/** Questions of one list: a search that finds little goes on by itself so often. */
const maxSearches = 10;

async function search(asked: Query, signal: AbortSignal): Promise<CallPage> {
  let found = await get<CallPage>("v1/calls", asked, { signal });
  for (let more = 1; more < maxSearches && found.searched_since !== null && found.data.length < pageSize; more += 1) {
    const rest = { ...asked, limit: String(pageSize - found.data.length), after: found.last_id ?? undefined };
    const next = await get<CallPage>("v1/calls", rest, { signal });
    found = { ...next, data: [...found.data, ...next.data] };
  }
  return found;
}

const optional = (id: string, title: string, of: (call: Call) => string | null, hidden = true): Column<Call> => ({
  ...{ id, title, hidden },
  cell: (call) => of(call) ?? "–",
});

const columns: readonly Column<Call>[] = [
  { id: "at", title: "Begun", isOrder: true, cell: ({ at }) => <Time at={at} exact="brief" /> },
  {
    ...{ id: "ended", title: "Ended" },
    cell: ({ ended, status, failure, error_code: code }) => (
      <>
        <State tone={endWords[ended].tone}>{ended}</State> {(failure ?? code)?.replaceAll("_", " ") ?? ""}{" "}
        {status !== null && status !== 200 && status}
      </>
    ),
  },
  { id: "model", title: "Model", cell: ({ model }) => <a href={href("calls", [], { model })}>{model}</a> },
  {
    ...{ id: "target", title: "Answered by" },
    cell: (call) => (
      <>
        {targetOf(call) ?? "–"} {call.attempt > 1 && <Badge tone="warn">attempt {call.attempt}</Badge>}
      </>
    ),
  },
  { id: "key", title: "Key", cell: ({ key, key_name }) => <a href={href("keys", [key])}>{key_name ?? key}</a> },
  {
    ...{ id: "first", title: "First token", align: "end" },
    cell: ({ first_token_ms: ms }) => duration(ms),
  },
  {
    ...{ id: "total", title: "Took", align: "end" },
    cell: ({ total_ms: ms }) => duration(ms),
  },
  {
    ...{ id: "tokens", title: "Tokens", align: "end" },
    cell: ({ tokens }) => `${count(tokens["input"] ?? 0)} → ${count(tokens["output"] ?? 0)}`,
  },
  moneyColumn("cost", "Cost", ({ cost_micro_dollars: cost }) => cost),
  optional("code", "Code", ({ error_code: code }) => code),
  optional("said", "What it said", ({ error_text: text }) => text),
  optional("client", "Client", ({ client }) => client),
  optional("persona", "Version", ({ persona_version }) => persona_version),
  optional("variant", "Variant", ({ variant }) => variant),
  optional("tags", "Tags", ({ tags }) => tags.join(", ") || null),
  optional("user", "User", ({ user }) => user),
  optional("request", "Request", ({ request_id }) => request_id),
];

const openColumns: readonly Column<OpenCall>[] = [
  { id: "age", title: "Age", cell: ({ age_ms }) => duration(age_ms) },
  { id: "model", title: "Model", cell: ({ model }) => model },
  { id: "target", title: "Asked", cell: (call) => targetOf(call) ?? "–" },
  { id: "key", title: "Key", cell: ({ key, key_name }) => <a href={href("keys", [key])}>{key_name ?? key}</a> },
  { id: "client", title: "Client", cell: ({ client }) => client ?? "–" },
];

function UnderWay() {
  const never = endFilters();
  if (never.length > 0)
    return (
      <p class="muted last">
        Calls under way are not shown: what they are chosen by ({never.join(", ")}) is known at an end.
      </p>
    );
  return <ChosenUnderWay />;
}

function ChosenUnderWay() {
  const asked = { ...chosenOpen(), limit: "20" };
  const open = useResource((signal) => get<OpenCalls>("v1/calls/open", asked, { signal }), [asked], { everyMs: 2_000 });
  const asksSince = route.value.query.has("since");
  if (open.error !== undefined) return <Failure error={open.error} retry={open.reload} />;
  if (open.data === undefined) return null;
  if (open.data.total === 0)
    return (
      <small class="muted last">
        {isChosen() ? "No such call" : "No call"} is under way on {serverWords(open.data.workers)}.
      </small>
    );
  return (
    <Panel
      title={`${count(open.data.total)} under way`}
      note={`on ${serverWords(open.data.workers)}, the oldest first${asksSince ? ", whenever they began" : ""}`}
      actions={<Curl path="v1/calls/open" query={asked} />}
    >
      <Table
        caption="Calls under way"
        columns={openColumns}
        rows={open.data.data}
        rowKey={({ request_id, attempt }) => `${request_id}.${attempt}`}
        empty={null}
      />
    </Panel>
  );
}

type Live = { readonly shown: readonly Call[]; readonly held: readonly Call[]; readonly missed: boolean };
const nothing: Live = { shown: [], held: [], missed: false };
const newestFirst = (fresh: readonly Call[], before: readonly Call[]) =>
  [...fresh.toReversed(), ...before].slice(0, maxLive);

/** Calls as they end. Who has scrolled down keeps what is read in its place, and asks for the new ones. */
function useLive(asked: Query, isOn: boolean) {
  const [live, setLive] = useState<Live>(nothing);
  const [state, setState] = useState<StreamState>("connecting");
  useEffect(() => {
    setLive(nothing);
    if (!isOn) return;
    return stream(
      "v1/calls/stream",
      { ...asked, limit: String(maxASecond) },
      {
        onState: setState,
        onEvents: (events) => {
          const calls = events.filter(({ event }) => event === "call").slice(-maxLive);
          const fresh = calls.map(({ data }) => JSON.parse(data) as Call);
          const missed = events.some(({ event }) => event === "gap");
          setLive((before) => {
            // A row that is open stays in its place, too.
            const isRead = scrollY > 100 || route.value.query.has("call");
            return {
              shown: isRead ? before.shown : newestFirst([...before.held.toReversed(), ...fresh], before.shown),
              held: isRead ? newestFirst(fresh, before.held) : [],
              missed: missed || before.missed,
            };
          });
        },
      },
    );
  }, [JSON.stringify(asked), isOn]);
  const showHeld = () => {
    scrollTo(0, 0);
    setLive(({ shown, held, missed }) => ({ shown: newestFirst(held.toReversed(), shown), held: [], missed }));
  };
  return { live, state, showHeld };
}

const stateWords: Readonly<Record<StreamState, string>> = {
  connecting: "Connecting…",
  open: "Live: calls appear as they end.",
  lost: "The connection was lost; it is tried again.",
  paused: "Paused while nobody looks.",
};

export function CallList() {
  const { query } = route.value;
  const of = (name: string) => query.get(name) ?? undefined;
  const isLive = query.has("live");
  const where = chosenCalls();
  const asked: Query = { ...where, limit: String(pageSize), after: of("after") };
  const calls = useResource((signal) => search(asked, signal), [asked, isLive]);
  const keyId = of("key");
  const key = useResource(
    async (signal) => (keyId ? get<Key>(`v1/keys/${encodeURIComponent(keyId)}`, {}, { signal }) : undefined),
    [keyId],
  );
  const health = useResource((signal) => getSums({ by: "day", since: "1d" }, signal), []);
  // What ends from now on began before a time that is past only by chance, and what is shown ends there.
  const isBounded = query.has("until");
  const { live, state, showHeld } = useLive(chosenLive(), isLive && !isBounded);
  const opened = of("call");
  const close = () => {
    document.querySelector<HTMLElement>("tr[aria-current] a[data-opens]")?.focus();
    setQuery({ call: undefined }, { replace: true });
  };
  const move = (by: 1 | -1) => {
    // Attempts of one request are several rows, and open the same.
    for (let before: HTMLAnchorElement | undefined; ; ) {
      const link = moveRow(by);
      if (link === undefined || link === before) return;
      const call = new URLSearchParams(link.hash.slice(link.hash.indexOf("?"))).get("call") ?? undefined;
      if (call !== route.value.query.get("call")) return setQuery({ call }, { replace: true });
      before = link;
    }
  };
  useEffect(() => {
    if (opened === undefined) return;
    const press = (event: KeyboardEvent) => {
      if (!isFree(event)) return;
      if (event.key === "Escape") close();
      else if (event.key === "j" || event.key === "k") move(event.key === "j" ? 1 : -1);
      else return;
      event.preventDefault();
    };
    // Before those that move through rows and open none.
    addEventListener("keydown", press, { capture: true });
    return () => removeEventListener("keydown", press, { capture: true });
  }, [opened]);
  return (
    <Page
      title="Calls"
      isOfTime
      note={health.data && `kept for ${health.data.ledger.retention_days} days`}
      actions={
        <>
          <Curl path="v1/calls" query={asked} />
          <Button pressed={isLive} onClick={() => setQuery({ live: isLive ? undefined : "1", after: undefined })}>
            Live
          </Button>
        </>
      }
    >
      <Ends />
      {isLive && (
        <p role="status" class="muted">
          {isBounded ? `Nothing is added live: what is shown ends at ${of("until")}.` : stateWords[state]}{" "}
          {live.missed && "More calls ended than are shown here. "}
          {live.held.length > 0 && <Button onClick={showHeld}>{`Show ${count(live.held.length)} new calls`}</Button>}
        </p>
      )}
      <div class={opened === undefined ? undefined : "beside"}>
        <div class="listed">
          <UnderWay />
          <ListPage
            list={calls}
            rows={({ data }) => {
              const known = new Set(live.shown.map(({ id }) => id));
              return [...live.shown, ...data.filter(({ id }) => !known.has(id))].slice(0, Math.max(maxLive, pageSize));
            }}
            caption="Calls"
            choose="calls"
            // All are new each second where many calls end: no more than a screen or two.
            atFirst={pageSize}
            columns={columns}
            filters={callFilters(key.data?.name)}
            rowKey={({ id }) => id}
            rowHref={({ request_id }) => href("calls", [], { ...Object.fromEntries(query), call: request_id })}
            isOpen={({ request_id }) => request_id === opened}
            rowTone={({ ended, failure }) =>
              endWords[ended].tone === "bad" ? "bad" : failure !== null ? "warn" : undefined
            }
            isOfTime
            none={{
              title: "There are no calls in this time.",
              hint: <a href={href("playground")}>Make a call in the playground</a>,
            }}
            firstAlone={["live", "call"]}
            foot={({ searched_since: since }) =>
              since !== null && (
                <span class="muted">
                  Looked back to <Time at={since} exact />.
                </span>
              )
            }
            olderWords={({ searched_since: since }) => (since === null ? "Older calls" : "Look further back")}
          />
        </div>
        {opened !== undefined && <CallPane id={opened} onClose={close} onMove={move} />}
      </div>
    </Page>
  );
}
