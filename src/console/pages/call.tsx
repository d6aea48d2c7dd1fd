/** One call: why it went as it did, what each attempt took, what it cost, where the same happened, and what came before and after. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { CallAttempts, CallContent, CallPage as Calls } from "../../api/calls.ts";
import { ApiFailure, get } from "../api.ts";
import { useAction, useResource } from "../data.ts";
import { dayMs } from "../period.ts";
import { href } from "../router.ts";
import { Copy, Curl } from "../ui/copy.tsx";
import { Button } from "../ui/form.tsx";
import { count, duration, exactMoney, Money, Time } from "../ui/format.tsx";
import { Facts, Page, Panel, Stat, State, Stats } from "../ui/layout.tsx";
import { Empty, Failure, Loading } from "../ui/states.tsx";
import { type Column, moneyColumn, Table } from "../ui/table.tsx";
import { explain } from "./calls/explain.ts";
import { type Call, endWords, saidBy, targetOf } from "./calls/line.ts";
import { Waterfall } from "./calls/waterfall.tsx";
import { getSums } from "./spend/sums.ts";

const nearMs = 60_000;
const timeAt = (ms: number) => new Date(ms).toISOString();

/** Calls that began just before and just after. */
async function neighboursOf({ at, request_id }: Call, signal: AbortSignal): Promise<readonly Call[]> {
  const begun = Date.parse(at);
  const list = (since: number, until: number, limit: number) =>
    get<Calls>("v1/calls", { since: timeAt(since), until: timeAt(until), limit: String(limit) }, { signal });
  const [after, before] = await Promise.all([list(begun, begun + nearMs, 100), list(begun - 60 * nearMs, begun, 6)]);
  const others = ({ data }: Calls) => data.filter((one) => one.request_id !== request_id);
  return [...others(after).slice(-6), ...others(before).slice(0, 6)];
}

const attemptColumns: readonly Column<Call>[] = [
  { id: "attempt", title: "Attempt", cell: ({ attempt }) => attempt },
  { id: "target", title: "Asked", cell: (call) => targetOf(call) ?? "nobody" },
  { id: "format", title: "Format", cell: ({ upstream_format: format }) => format ?? "–" },
  {
    ...{ id: "ended", title: "Ended" },
    cell: ({ ended, failure, status }) => (
      <>
        <State tone={endWords[ended].tone}>{ended}</State> {failure?.replaceAll("_", " ") ?? ""} {status ?? ""}
      </>
    ),
  },
  { id: "said", title: "What it said", cell: (call) => <span class="wraps">{saidBy(call) ?? "–"}</span> },
  { id: "at", title: "Begun", cell: ({ at }) => <Time at={at} exact="brief" /> },
  { id: "first", title: "First token", align: "end", cell: ({ first_token_ms: ms }) => duration(ms) },
  { id: "total", title: "Took", align: "end", cell: ({ total_ms: ms }) => duration(ms) },
  moneyColumn("cost", "Cost", ({ cost_micro_dollars: cost }) => cost),
];

const neighbourColumns: readonly Column<Call>[] = [
  { id: "at", title: "Begun", cell: ({ at }) => <Time at={at} exact="brief" /> },
  { id: "ended", title: "Ended", cell: ({ ended }) => <State tone={endWords[ended].tone}>{ended}</State> },
  { id: "model", title: "Model", cell: ({ model }) => model },
  { id: "target", title: "Answered by", cell: (call) => targetOf(call) ?? "–" },
  { id: "key", title: "Key", cell: ({ key, key_name }) => key_name ?? key },
  { id: "total", title: "Took", align: "end", cell: ({ total_ms: ms }) => duration(ms) },
];

type Part = { readonly name: string; readonly tokens: number; readonly cost: number | null };

function Costs({ call }: { readonly call: Call }) {
  const parts = Object.entries(call.tokens)
    .filter(([, tokens]) => tokens > 0)
    .map(([name, tokens]): Part => ({ name, tokens, cost: call.costs_micro_dollars?.[name] ?? null }));
  const columns: readonly Column<Part>[] = [
    { id: "name", title: "Tokens", cell: ({ name }) => name.replaceAll("_", " ") },
    { id: "tokens", title: "Count", align: "end", cell: ({ tokens }) => count(tokens) },
    { id: "cost", title: "Cost", align: "end", cell: ({ cost }) => (cost === null ? "–" : exactMoney(cost)) },
    {
      ...{ id: "price", title: "A million tokens", align: "end" },
      cell: ({ tokens, cost }) => (cost === null ? "–" : <Money micro={Math.round((cost * 1e6) / tokens)} />),
    },
  ];
  const { price_source: source, price_date: date, price_note: note, counted } = call;
  return (
    <Panel title="Tokens and cost" note={`counted: ${counted}; price: ${source}${date === null ? "" : ` of ${date}`}`}>
      <Table
        caption="Tokens and cost"
        columns={columns}
        rows={parts}
        rowKey={({ name }) => name}
        empty={<Empty title="No tokens were counted." />}
      />
      {note !== null && <p class="muted">{note}</p>}
    </Panel>
  );
}

const missingWords: Readonly<Record<string, string>> = {
  log_content_off: "Content is not shown, as log.content is off in the configuration.",
  not_stored: "Nothing is stored of it: its caller did not ask for that (store: true), or it is deleted or too old.",
};

/** What was said, once it is asked for: reading it is in the audit. */
function Content({ id }: { readonly id: string }) {
  const [content, setContent] = useState<CallContent>();
  const reading = useAction();
  const read = async () => setContent(await get<CallContent>(`v1/calls/${encodeURIComponent(id)}/content`));
  return (
    <Panel title="What was said" note="who reads it is in the audit">
      {reading.error !== undefined && <Failure error={reading.error} />}
      {content === undefined ? (
        <p>
          <Button busy={reading.busy} onClick={() => reading.run(read)}>
            Read what was said
          </Button>
        </p>
      ) : content.messages === null ? (
        <p class="muted">{missingWords[content.missing ?? ""]} The ledger has numbers and names alone.</p>
      ) : (
        content.messages.map(({ role, text, is_cut }, at) => (
          <section key={String(at)}>
            <h3>{role}</h3>
            <pre class="sent">
              {text}
              {is_cut && "…"}
            </pre>
          </section>
        ))
      )}
    </Panel>
  );
}

function Neighbours({ call }: { readonly call: Call }) {
  const begun = Date.parse(call.at);
  const near = useResource((signal) => neighboursOf(call, signal), [call.id]);
  if (near.error !== undefined) return <Failure error={near.error} retry={near.reload} />;
  return (
    <Panel title="Just before and after" note="the newest first">
      {near.data === undefined ? (
        <Loading />
      ) : (
        <Table
          caption="Calls just before and after"
          columns={neighbourColumns}
          rows={near.data}
          rowKey={({ id }) => id}
          rowHref={({ request_id }) => href("calls", [request_id])}
          rowTone={({ ended }) => (endWords[ended].tone === "bad" ? "bad" : undefined)}
          empty={<Empty title="No other call began within a minute after it, or an hour before." />}
        />
      )}
      <p>
        <a href={href("calls", [], { since: timeAt(begun - nearMs), until: timeAt(begun + nearMs) })}>
          All calls of the minute before and after
        </a>
      </p>
    </Panel>
  );
}

function One({ attempts }: Pick<CallAttempts, "attempts">) {
  const last = attempts.at(-1)!;
  const day = last.at.slice(0, 10);
  const usual = useResource(
    async (signal) =>
      last.provider === null || last.upstream_model === null
        ? undefined
        : getSums(
            {
              ...{ by: "day", provider: last.provider, upstream_model: last.upstream_model, first_token: "true" },
              ...{ since: day, until: timeAt(Date.parse(day) + dayMs) },
            },
            signal,
          ),
    [last.id],
  );
  const total = Date.parse(last.at) - Date.parse(attempts[0]!.at) + last.total_ms;
  const costs = attempts.map(({ cost_micro_dollars: cost }) => cost);
  const cost = costs.includes(null) ? null : costs.reduce<number>((sum, one) => sum + one!, 0);
  const link = (page: string, value: string | null) =>
    value === null ? undefined : <a href={href(page, [value])}>{value}</a>;
  const filtered = (name: string, value: string | null) =>
    value === null ? undefined : <a href={href("calls", [], { [name]: value })}>{value}</a>;
  const worst = attempts.find(({ failure }) => failure !== null) ?? last;
  const isFaulty = worst.failure !== null || endWords[worst.ended].tone !== "ok";
  const reason = worst.failure !== null ? { failure: worst.failure } : { ended: worst.ended };
  const fault = { ...(worst.error_code !== null ? { error_code: worst.error_code } : reason), model: last.model };
  return (
    <>
      <Stats>
        <Stat
          label="Ended"
          value={last.ended}
          tone={endWords[last.ended].tone}
          note={`status ${last.status ?? "none"}`}
        />
        <Stat label="Took" value={duration(total)} note={`first token ${duration(last.first_token_ms)}`} />
        <Stat label="Cost" value={<Money micro={cost} />} note={`${count(last.tokens["output"] ?? 0)} output tokens`} />
        <Stat label="Attempts" value={attempts.length} tone={attempts.length > 1 ? "warn" : "ok"} />
      </Stats>
      <Panel title="Why">
        <ul id="why">
          {explain(attempts, usual.data?.total.first_token_ms ?? undefined).map((sentence) => (
            <li key={sentence}>{sentence}</li>
          ))}
        </ul>
        {isFaulty && (
          <p>
            The same fault elsewhere: <a href={href("calls", [], { ...fault, key: last.key })}>of this model and key</a>{" "}
            · <a href={href("calls", [], fault)}>of this model</a> ·{" "}
            <a href={href("calls", [], { ...fault, model: undefined })}>anywhere</a>
          </p>
        )}
      </Panel>
      <Panel title="Attempts">
        <Waterfall attempts={attempts} />
        <Table
          caption="Attempts"
          columns={attemptColumns}
          rows={attempts}
          rowKey={({ id }) => id}
          rowTone={({ ended, failure }) => (failure !== null || endWords[ended].tone === "bad" ? "bad" : undefined)}
          empty={null}
        />
      </Panel>
      <Costs call={last} />
      <Panel title="Who and what">
        <Facts
          items={[
            ["Key", <a href={href("keys", [last.key])}>{last.key_name ?? last.key}</a>],
            ["Model", filtered("model", last.model)],
            ["Provider", link("providers", last.provider)],
            [
              "Persona",
              last.persona === null ? undefined : (
                <a href={href("personas", last.persona.split("/"))}>
                  {last.persona}@{last.persona_version}
                </a>
              ),
            ],
            ["Variant", last.variant ?? undefined],
            ["Client", filtered("client", last.client)],
            ["User", filtered("user", last.user)],
            [
              "Tags",
              last.tags.length === 0
                ? undefined
                : last.tags.flatMap((tag, at) => [at > 0 && ", ", filtered("tag", tag)]),
            ],
            ["Surface", `${last.surface}, ${last.format}`],
            ["Service tier", last.service_tier ?? undefined],
            [
              "Answer of",
              last.call_of === null ? undefined : <a href={href("calls", [last.call_of])}>{last.call_of}</a>,
            ],
          ]}
        />
      </Panel>
      <Content id={last.request_id} />
      <Neighbours call={last} />
    </>
  );
}

const pathOf = (id: string) => `v1/calls/${encodeURIComponent(id)}`;

/** All of a call, on its page and in the pane beside its list. */
function Whole({ id }: { readonly id: string }) {
  const found = useResource(
    (signal) =>
      get<CallAttempts>(pathOf(id), {}, { signal }).catch((error) => {
        if (error instanceof ApiFailure && error.status === 404) return undefined;
        throw error;
      }),
    [id],
  );
  if (found.error !== undefined) return <Failure error={found.error} retry={found.reload} />;
  if (found.data !== undefined) return <One attempts={found.data.attempts} />;
  if (found.loading) return <Loading />;
  return (
    <Empty title="There is no call of that request id, or it is still under way.">
      A call is here once it has ended. <a href={href("calls")}>All calls</a>
    </Empty>
  );
}

const Id = ({ id }: { readonly id: string }) => (
  <>
    <code>{id}</code> <Copy text={id} label="Copy" tone="quiet" />
  </>
);

export function CallPage({ id }: { readonly id: string }) {
  return (
    <Page title="Call" note={<Id id={id} />} actions={<Curl path={pathOf(id)} />}>
      <Whole id={id} />
    </Page>
  );
}

type PaneProps = { readonly id: string; readonly onClose: () => void; readonly onMove: (by: 1 | -1) => void };

/** A call beside the list that it was opened in. */
export function CallPane({ id, onClose, onMove }: PaneProps) {
  const title = useRef<HTMLHeadingElement>(null);
  // Where it lies over the list, the keyboard goes on in it.
  useEffect(() => {
    if (getComputedStyle(title.current!.closest("aside")!).position === "fixed") title.current!.focus();
  }, [id]);
  return (
    <aside class="pane" aria-label={`Call ${id}`}>
      <header>
        <h2 ref={title} tabIndex={-1}>
          Call
        </h2>
        <span class="muted">
          <Id id={id} />
        </span>
        <div class="actions">
          <Button tone="quiet" onClick={() => onMove(-1)} label="Previous call">
            ↑
          </Button>
          <Button tone="quiet" onClick={() => onMove(1)} label="Next call">
            ↓
          </Button>
          <a class="button quiet" href={href("calls", [id])}>
            As a page
          </a>
          <Curl path={pathOf(id)} />
          <Button tone="quiet" onClick={onClose} label="Close">
            ✕
          </Button>
        </div>
      </header>
      <Whole key={id} id={id} />
    </aside>
  );
}
