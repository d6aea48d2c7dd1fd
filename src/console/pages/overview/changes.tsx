/** What changed of late: acts of people, files that were read anew, and faults that became more. */
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Badge, Panel } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { dayMs, dayOf, getSums, hourMs, type Row } from "../spend/sums.ts";

type Act = {
  readonly id: string;
  readonly at: string;
  readonly actor: string;
  readonly act: string;
  readonly subject: string;
};

const shown = 8;
/** Hours that the present ones are compared with. */
const before = 22;

type Risen = { readonly failure: string; readonly now: number; readonly usual: number };

/** Reasons that failed twice as often in this hour and the last one as they usually do in as much time. */
function risen(rows: readonly Row[], hour: number): Risen[] {
  const found = new Map<string, { now: number; past: number }>();
  for (const row of rows) {
    const failure = String(row["failure"]);
    if (failure === "") continue;
    const sum = found.get(failure) ?? { now: 0, past: 0 };
    if (Date.parse(String(row["hour"])) >= hour - hourMs) sum.now += row.calls;
    else sum.past += row.calls;
    found.set(failure, sum);
  }
  return [...found]
    .map(([failure, { now, past }]) => ({ failure, now, usual: (past / before) * 2 }))
    .filter(({ now, usual }) => now >= 3 && now > 2 * usual)
    .sort((a, b) => b.now - a.now);
}

/** Names of keys, by which people know them; the others keep their ids. */
const namesOf = async (signal: AbortSignal): Promise<ReadonlyMap<string, string>> => {
  const keys = await get<{ readonly data: readonly { readonly id: string; readonly name: string }[] }>(
    "v1/keys",
    { limit: "200", sort: "last_used_at", order: "desc" },
    { signal },
  );
  return new Map(keys.data.map(({ id, name }) => [id, name]));
};

/** An id without a name says little: its beginning does. */
const shortened = (id: string) => (/^[a-z]+_[0-9a-z]{20,}$/.test(id) ? `${id.slice(0, 12)}…` : id);

const pages: Readonly<Record<string, string>> = { key: "keys", budget: "keys", persona: "personas", session: "system" };
const subjectHref = ({ act, subject }: Act): string => {
  const kind = act.split(".", 1)[0]!;
  const page = pages[kind] ?? "system";
  return href(page, kind === "key" || kind === "persona" ? [subject] : []);
};

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

type Reload = { readonly at: string; readonly changed: readonly string[]; readonly error: string | null };

/** Versions and settings that are new. */
function Anew({ hour }: { readonly hour: number }) {
  const since = new Date(hour - hourMs).toISOString();
  const versions = useResource((signal) => newVersions(since, signal), [since], { everyMs: 30_000 });
  const health = useResource(
    (signal) => get<{ readonly last_reload: Reload | null; readonly started_at: string }>("v1/health", {}, { signal }),
    [],
    { everyMs: 15_000 },
  );
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
          <a href={href("system")}>{reload.changed.join(", ") || "nothing changed"}</a>
        </li>
      )}
      {versions.data?.slice(0, shown).map(({ persona, version, calls }) => (
        <li key={`${persona}@${version}`}>
          <Badge tone="quiet">new</Badge>
          <a href={href("personas", [persona, "versions"])}>
            {persona}@{version}
          </a>
          <a class="amount" href={href("calls", [], { persona, persona_version: version, since })}>
            {count(calls)} calls
          </a>
        </li>
      ))}
    </ul>
  );
}

export function Changes() {
  const hour = Math.floor(Date.now() / hourMs) * hourMs;
  const since = new Date(hour - (before + 1) * hourMs).toISOString();
  const acts = useResource(
    (signal) => get<{ readonly data: readonly Act[] }>("v1/audit", { limit: "50" }, { signal }),
    [],
    { everyMs: 15_000 },
  );
  const names = useResource(namesOf, []);
  const named = (id: string) => names.data?.get(id) ?? shortened(id);
  const failures = useResource((signal) => getSums({ by: "hour,failure", since }, signal), [since], {
    everyMs: 15_000,
  });
  return (
    <Panel title="Changed in the last hour" actions={<Curl path="v1/audit" query={{ limit: "50" }} />}>
      <Loaded resource={failures}>
        {({ data }) => {
          const all = risen(data, hour);
          return all.length === 0 ? (
            <p class="muted">No fault became more frequent.</p>
          ) : (
            <ul class="findings">
              {all.map(({ failure, now, usual }) => (
                <li key={failure}>
                  <Badge tone="bad">more</Badge>
                  <a href={href("calls", [], { failure, since: new Date(hour - hourMs).toISOString() })}>{failure}</a>
                  <span class="muted">
                    {count(now)} since {new Date(hour - hourMs).toISOString().slice(11, 16)} UTC, usually{" "}
                    {usual.toFixed(usual < 10 ? 1 : 0)}
                  </span>
                </li>
              ))}
            </ul>
          );
        }}
      </Loaded>
      <Anew hour={hour} />
      <Loaded resource={acts}>
        {({ data }) => {
          const recent = data.filter(({ at }) => Date.parse(at) > Date.now() - hourMs);
          const listed = (recent.length > 0 ? recent : data).slice(0, shown);
          return (
            <>
              {recent.length === 0 && (
                <p class="muted">Nobody changed anything{listed.length > 0 ? "; before that:" : " yet."}</p>
              )}
              <ul class="findings">
                {listed.map((act) => (
                  <li key={act.id}>
                    <Time at={act.at} />
                    <code>{act.act}</code>
                    <a href={subjectHref(act)} title={act.subject}>
                      {named(act.subject)}
                    </a>
                    <span class="muted">by {named(act.actor)}</span>
                  </li>
                ))}
              </ul>
              {recent.length > shown && <a href={href("system", ["audit"])}>All {count(recent.length)} changes</a>}
            </>
          );
        }}
      </Loaded>
    </Panel>
  );
}
