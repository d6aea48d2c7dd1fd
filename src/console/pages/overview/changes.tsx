/** What changed of late: numbers, faults that became more, versions and settings that are new, and acts of people. */
import type { SystemHealth } from "../../../api/system.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { dayMs, hourMs } from "../../period.ts";
import { href, type Query } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, duration, shownMoney, Time } from "../../ui/format.tsx";
import { Badge, Facts, Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { Change, percent } from "../providers/change.tsx";
import { dayOf, errorsOf, failedEnds, getSums, type Row, type Totals } from "../spend/sums.ts";
import { Acts } from "./acts.tsx";

const shown = 8;
/** Hours that the present ones are compared with. */
const before = 22;

/** A fault of a provider, or an end that none had a part in. */
type Risen = {
  readonly id: string;
  readonly title: string;
  readonly provider: string;
  readonly chosen: Query;
  readonly now: number;
  readonly usual: number;
};

/** By hour: what providers failed, and what ended badly without any of them. */
async function faultsOf(since: string, signal: AbortSignal): Promise<readonly Row[]> {
  const [failed, ended] = await Promise.all(
    ["hour,provider,failure", "hour,ended,failure"].map((by) => getSums({ by, since }, signal)),
  );
  return [...failed!.data.filter((row) => row["failure"]), ...ended!.data.filter((row) => !row["failure"])];
}

/** Faults that were twice as many in this hour and the last one as they usually are in as much time. */
function risen(rows: readonly Row[], hour: number): Risen[] {
  const found = new Map<string, { title: string; provider: string; chosen: Query; now: number; past: number }>();
  for (const row of rows) {
    const [provider = "", failure = "", ended = ""] = ["provider", "failure", "ended"].map((name) =>
      String(row[name] ?? ""),
    );
    if (failure === "" && !failedEnds.some((one) => one === ended)) continue;
    const title = failure || `${ended} here`;
    // Of what no provider failed the provider is not known.
    const chosen: Query = failure ? { failure, provider } : { ended, failure: "" };
    const id = `${provider} ${title}`;
    const sum = found.get(id) ?? { title, provider, chosen, now: 0, past: 0 };
    if (Date.parse(String(row["hour"])) >= hour - hourMs) sum.now += row.calls;
    else sum.past += row.calls;
    found.set(id, sum);
  }
  return [...found]
    .map(([id, { past, ...rest }]) => ({ ...rest, id, usual: (past / before) * 2 }))
    .filter(({ now, usual }) => now >= 3 && now > 2 * usual)
    .sort((a, b) => b.now - a.now)
    .slice(0, shown);
}

type Version = { readonly persona: string; readonly version: string; readonly calls: number };

/** Versions of personas that were called since that time, and not in the days before. */
async function newVersions(since: string, signal: AbortSignal): Promise<readonly Version[]> {
  const by = "persona,persona_version";
  const past = dayOf(Date.parse(since) - 7 * dayMs);
  const [now, before] = await Promise.all([
    getSums({ by, since }, signal),
    getSums({ by, since: past, until: since }, signal),
  ]);
  const idOf = (row: Row) => `${row["persona"]}@${row["persona_version"]}`;
  const known = new Set(before.data.map(idOf));
  return now.data
    .filter((row) => row["persona_version"] && !known.has(idOf(row)))
    .map((row) => ({
      persona: String(row["persona"]),
      version: String(row["persona_version"]),
      calls: row.calls,
    }));
}

/** Versions and settings that are new. */
function Anew({ hour }: { readonly hour: number }) {
  const since = new Date(hour - hourMs).toISOString();
  const versions = useResource((signal) => newVersions(since, signal), [since], { everyMs: 30_000 });
  const health = useResource((signal) => get<SystemHealth>("v1/health", {}, { signal }), [], { everyMs: 15_000 });
  const { last_reload: reload, started_at: started } = health.data ?? {};
  const isRecent = (at: string) => Date.parse(at) > Date.now() - hourMs;
  return (
    <ul class="findings">
      {started && isRecent(started) && (
        <li>
          <Time at={started} /> the server started
        </li>
      )}
      {reload && isRecent(reload.at) && reload.error === null && (
        <li>
          <Time at={reload.at} /> the configuration was read anew:{" "}
          <a href={href("system", ["configuration"])}>{reload.changed.join(", ") || "nothing changed"}</a>
        </li>
      )}
      {versions.data?.slice(0, shown).map(({ persona, version, calls }) => (
        <li key={`${persona}@${version}`}>
          <Badge tone="quiet">new</Badge>
          <a href={href("personas", [persona, "versions"])}>
            {persona}@{version}
          </a>
          <a class="amount" href={href("calls", [], { persona, persona_version: version, since })}>
            {count(calls)} attempts
          </a>
        </li>
      ))}
    </ul>
  );
}

/** The last 60 minutes, and the 60 before them. */
async function lastHours(signal: AbortSignal) {
  const now = Date.now();
  const at = (hours: number) => new Date(now - hours * hourMs).toISOString();
  const query = { by: "ended", first_token: "true" };
  const [last, past] = await Promise.all([
    getSums({ ...query, since: at(1) }, signal),
    getSums({ ...query, since: at(2), until: at(1) }, signal),
  ]);
  return { since: at(1), now: last.total, before: past.total };
}

const shareOf = (of: Totals) => (of.calls === 0 ? null : (100 * errorsOf(of)) / of.calls);

function LastHour() {
  const hours = useResource(lastHours, [], { everyMs: 60_000 });
  return (
    <Loaded resource={hours}>
      {({ since, now, before: past }) => {
        const word = "hour before";
        const calls = { now: now.calls, before: past.calls, shown: (value: number | null) => count(value ?? 0) };
        const errors = { now: shareOf(now), before: shareOf(past), shown: percent };
        const first = { now: now.first_token_ms?.p95 ?? null, before: past.first_token_ms?.p95 ?? null };
        const cost = { now: now.cost_micro_dollars, before: past.cost_micro_dollars, shown: shownMoney };
        return (
          <div class="last-hour">
            <Facts
              items={[
                ["Attempts", <Change key="c" {...calls} word={word} href={href("calls", [], { since })} />],
                ["Errors", <Change key="e" {...errors} word={word} lessIsBetter isShare />],
                ["First token, p95", <Change key="f" {...first} shown={duration} word={word} lessIsBetter />],
                ["Cost", <Change key="m" {...cost} word={word} href={href("spend", [], { since })} />],
              ]}
            />
          </div>
        );
      }}
    </Loaded>
  );
}

export function Changes() {
  const hour = Math.floor(Date.now() / hourMs) * hourMs;
  const since = new Date(hour - (before + 1) * hourMs).toISOString();
  const failures = useResource((signal) => faultsOf(since, signal), [since], { everyMs: 15_000 });
  const recent = new Date(hour - hourMs).toISOString();
  return (
    <Panel title="Changed in the last hour" actions={<Curl path="v1/audit" query={{ limit: "100" }} />}>
      <LastHour />
      <Loaded resource={failures}>
        {(rows) => {
          const all = risen(rows, hour);
          return all.length === 0 ? (
            <p class="muted">No fault became more frequent.</p>
          ) : (
            <ul class="findings">
              {all.map(({ id, title, provider, chosen, now, usual }) => (
                <li key={id}>
                  <Badge tone="bad">more</Badge>
                  <a href={href("calls", [], { ...chosen, since: recent })}>{title}</a>
                  {provider !== "" && (
                    <span>
                      of <a href={href("providers", [provider])}>{provider}</a>
                    </span>
                  )}
                  <span class="muted">
                    {count(now)} since {recent.slice(11, 16)} UTC, usually {usual.toFixed(usual < 10 ? 1 : 0)}
                  </span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
      <Anew hour={hour} />
      <Acts />
    </Panel>
  );
}
