/** One provider: its keys, its numbers against the time before, why attempts failed, and its models. */
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { hourMs } from "../../period.ts";
import { beforeWords, linkedTime, range } from "../../range.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, duration, shownMoney, Time } from "../../ui/format.tsx";
import { Badge, Page, Panel, Stats } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { Table } from "../../ui/table.tsx";
import { serverWords } from "../../workers.ts";
import { saidBy } from "../calls/line.ts";
import { type Compared, compare, nothing } from "./against.ts";
import { Change, ChangeStat, percent } from "./change.tsx";
import { CooldownTable } from "./cooldown.tsx";
import { Course } from "./course.tsx";
import { bare, type Models, ModelsPanel, modelsQuery } from "./models.tsx";
import { TestCall } from "./test-call.tsx";
import {
  keyName,
  type LastError,
  ofRequest,
  type ProviderDetail,
  type ProviderKey,
  reasonWords,
  stateTones,
} from "./types.ts";

const breakerTones = { closed: "ok", open: "bad", half_open: "warn" } as const;

function Keys({ keys }: { readonly keys: readonly ProviderKey[] }) {
  return (
    <Table
      caption="Keys and endpoints"
      choose="provider.keys"
      rows={keys}
      rowKey={({ fingerprint, endpoint }) => `${fingerprint} ${endpoint}`}
      rowTone={({ rests, breaker }) =>
        breaker.state === "open" || rests.some(({ model }) => model === null)
          ? "bad"
          : rests.length > 0
            ? "warn"
            : undefined
      }
      empty={<p class="muted">It has no key.</p>}
      columns={[
        { id: "key", title: "Key", cell: (key) => <span title={key.fingerprint}>{keyName(key)}</span> },
        {
          ...{ id: "state", title: "State" },
          cell: ({ rests }) => (
            <Badge tone={rests.length === 0 ? "ok" : "bad"}>{rests.length === 0 ? "in use" : "in cooldown"}</Badge>
          ),
        },
        {
          ...{ id: "breaker", title: "Breaker" },
          cell: ({ breaker: { state, failures } }) => (
            <>
              <Badge tone={breakerTones[state]}>{state.replace("_", " ")}</Badge>
              {failures > 0 && ` ${count(failures)} failures in a row`}
            </>
          ),
        },
        { id: "open", title: "Under way", align: "end", cell: (key) => count(key.calls_under_way) },
        { id: "first", title: "First token", align: "end", cell: (key) => duration(key.first_token_ms) },
        { id: "weight", title: "Weight", align: "end", hidden: true, cell: ({ weight }) => weight },
        { id: "endpoint", title: "Endpoint", cell: ({ endpoint }) => <code>{endpoint}</code> },
      ]}
    />
  );
}

/** Why attempts failed, in both times. */
function Reasons({ row, word }: { readonly row: Compared; readonly word: string }) {
  const { provider, now, before } = row;
  const reasons = [...new Set([...now.failures.keys(), ...before.failures.keys()])].map((reason) => ({
    reason,
    now: now.failures.get(reason) ?? 0,
    before: before.failures.get(reason) ?? 0,
  }));
  return (
    <Table
      caption="Why attempts failed"
      rows={reasons.toSorted((a, b) => b.now - a.now || b.before - a.before)}
      rowKey={({ reason }) => reason}
      empty={<p class="muted">No attempt failed in either time.</p>}
      columns={[
        {
          ...{ id: "reason", title: "Reason" },
          cell: ({ reason }) => (
            <span class="among-words">
              <a href={href("calls", [], { provider, failure: reason, ...linkedTime() })}>{reason}</a>{" "}
              <span class="muted">{reasonWords(reason)}</span>
            </span>
          ),
        },
        {
          ...{ id: "calls", title: "Attempts", align: "end" },
          cell: (one) => (
            <Change now={one.now} before={one.before} shown={(value) => count(value ?? 0)} word={word} lessIsBetter />
          ),
        },
        {
          ...{ id: "of", title: "Of" },
          cell: ({ reason }) => (ofRequest.has(reason) ? <span class="muted">the request</span> : "the provider"),
        },
      ]}
    />
  );
}

function LastErrors({
  provider,
  errors,
  keys,
}: {
  readonly provider: string;
  readonly errors: readonly LastError[];
  readonly keys: readonly ProviderKey[];
}) {
  const since = new Date(Date.now() - hourMs).toISOString();
  return (
    <Table
      caption="Last errors"
      rows={errors}
      rowKey={({ at, request_id: id, key }) => `${id} ${at} ${key}`}
      empty={<p class="muted">No attempt failed in the last hour.</p>}
      columns={[
        {
          ...{ id: "request", title: "Request" },
          cell: ({ request_id: id }) => <a href={href("calls", [id])}>{id}</a>,
        },
        { id: "at", title: "Began", cell: ({ at }) => <Time at={at} /> },
        {
          ...{ id: "reason", title: "Reason" },
          cell: ({ reason }) => (
            <a href={href("calls", [], { provider, failure: reason, since })} title="Attempts with the same fault">
              {reasonWords(reason)}
            </a>
          ),
        },
        { id: "status", title: "Status", align: "end", cell: ({ status }) => status ?? "none" },
        { id: "said", title: "What it said", cell: (error) => <span class="wraps">{saidBy(error) ?? "–"}</span> },
        {
          ...{ id: "key", title: "Key" },
          cell: ({ key }) =>
            key === null
              ? "–"
              : keyName(keys.find(({ fingerprint }) => fingerprint === key) ?? { fingerprint: key, name: null }),
        },
        {
          id: "endpoint",
          title: "Endpoint",
          cell: ({ endpoint }) => (endpoint === null ? "–" : <code>{endpoint}</code>),
        },
      ]}
    />
  );
}

export function OneProvider({ name }: { readonly name: string }) {
  const time = range();
  const path = `v1/providers/${encodeURIComponent(name)}`;
  const provider = useResource((signal) => get<ProviderDetail>(path, {}, { signal }), [path], { everyMs: 5_000 });
  const numbers = useResource((signal) => compare(time, name, signal), [time, name], { everyMs: 15_000 });
  const models = useResource((signal) => get<Models>("v1/models", modelsQuery(name), { signal }), [name]);
  if (provider.error?.code === "not_found" && provider.data === undefined)
    return (
      <Page title={name}>
        <Empty title="No such provider is set up.">
          Its calls stay in <a href={href("spend", [], { provider: name })}>Spend</a>.{" "}
          <a href={href("providers")}>All providers</a>
        </Empty>
      </Page>
    );
  return (
    <Page title={name} isOfTime note={<a href={href("providers")}>all providers</a>} actions={<Curl path={path} />}>
      <Loaded resource={provider}>
        {(one) => (
          <>
            <Panel
              title="Keys and endpoints"
              note={
                <>
                  <Badge tone={stateTones[one.state]}>{one.state}</Badge> {one.dialect}, {one.strategy}; of{" "}
                  {serverWords(one.workers)}
                </>
              }
            >
              {one.state !== "ok" && <CooldownTable providers={[one]} reload={provider.reload} />}
              <Keys keys={one.keys} />
            </Panel>
            <Loaded resource={numbers}>
              {({ rows }) => {
                const row = rows[0] ?? { provider: name, now: nothing, before: nothing };
                const { now, before } = row;
                const word = beforeWords();
                return (
                  <>
                    <Stats>
                      <ChangeStat
                        {...{ label: "Attempts", now: now.calls, before: before.calls, word }}
                        shown={(value) => count(value ?? 0)}
                        href={href("calls", [], { provider: name, ...linkedTime() })}
                      />
                      <ChangeStat
                        {...{ label: "Faults", now: now.errorShare, before: before.errorShare, word, shown: percent }}
                        lessIsBetter
                        isShare
                      />
                      <ChangeStat
                        {...{ label: "First token, p50", now: now.p50, before: before.p50, word, shown: duration }}
                        lessIsBetter
                      />
                      <ChangeStat
                        {...{ label: "First token, p95", now: now.p95, before: before.p95, word, shown: duration }}
                        lessIsBetter
                      />
                      <ChangeStat
                        {...{ label: "Cost", now: now.cost, before: before.cost, word, shown: shownMoney }}
                        href={href("spend", [], { provider: name, ...linkedTime() })}
                      />
                    </Stats>
                    <Panel title="Why attempts failed">
                      <Reasons row={row} word={word} />
                    </Panel>
                  </>
                );
              }}
            </Loaded>
            <Panel title="Last errors" note="of the last hour, 10 at most">
              <LastErrors provider={name} errors={one.last_errors} keys={one.keys} />
            </Panel>
            <Course provider={name} />
            <TestCall provider={name} keys={one.keys} models={(models.data?.data ?? []).map(bare)} />
            <Loaded resource={models}>{(found) => <ModelsPanel provider={name} models={found} />}</Loaded>
          </>
        )}
      </Loaded>
    </Page>
  );
}
