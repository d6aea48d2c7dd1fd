/** Whether all is well now, and if not, what is wrong. */

import { useEffect } from "preact/hooks";
import type { ActiveAlert, Alerts } from "../../../api/alerts.ts";
import type { DoctorReport } from "../../../api/doctor.ts";
import type { PersonaSummary } from "../../../api/personas.ts";
import type { Provider, ProviderList } from "../../../api/providers.ts";
import type { Listed } from "../../../api/shape.ts";
import type { SystemHealth } from "../../../api/system.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import { count, duration, Time } from "../../ui/format.tsx";
import type { Tone } from "../../ui/layout.tsx";
import { Loaded } from "../../ui/states.tsx";
import { linkOfScope } from "../keys/budgets.tsx";
import { errorsIn, failuresOf } from "../providers/against.ts";
import { getSums, type Row, type Totals } from "../spend/sums.ts";
import { type Finding, isUnreachable, ofBudgets, ofRefusals, ofSetUp, ofUnreachable, spentBudgets } from "./stops.ts";

/** Beyond so many seconds, costs and budgets are noticeably late. */
const lateSeconds = 5;

function ofHealth({ checks, ledger, draining, last_reload: reload, persona_faults: faults }: SystemHealth): Finding[] {
  const found: Finding[] = Object.entries(checks)
    .filter(([, { status }]) => status !== "ok")
    .map(([name, { message }]) => ({
      tone: "bad",
      text: message ?? `The check of ${name} fails.`,
      href: href(name === "providers" || name === "keys" ? name : "system"),
    }));
  found.push(...ofSetUp(checks));
  if (reload?.error)
    found.push({
      tone: "warn",
      text: `The configuration was not read anew, the one in force stays: ${reload.error}`,
      href: href("system"),
    });
  if (faults > 0)
    found.push({
      tone: "warn",
      text: `${count(faults)} ${faults === 1 ? "fault" : "faults"} in the personas' files: the versions before serve on.`,
      href: href("personas"),
    });
  if (draining)
    found.push({ tone: "warn", text: "The server is ending: it takes no new calls.", href: href("system") });
  if (ledger.lag_seconds > lateSeconds)
    found.push({
      tone: "warn",
      text: `${count(ledger.lines_waiting)} lines of the ledger wait to be written, the oldest for ${duration(ledger.lag_seconds * 1_000)}.`,
      href: href("system"),
    });
  if (ledger.lines_lost > 0)
    found.push({
      tone: "bad",
      text: `${count(ledger.lines_lost)} lines of the ledger were lost since the start.`,
      href: href("system"),
    });
  return found;
}

const ofProviders = (providers: readonly Provider[]): Finding[] =>
  providers
    .filter(({ state }) => state !== "ok")
    .map(({ id, state, keys }) => {
      const why = keys.flatMap(({ rests, breaker }) => [...rests, breaker]).find(({ reason }) => reason !== null);
      return {
        tone: state === "resting" ? "bad" : "warn",
        text: `${id}: ${state === "resting" ? "every key and endpoint is in cooldown" : "some keys or endpoints are in cooldown"}${why ? ` (${why.reason})` : ""}`,
        until: why?.until ?? null,
        href: href("providers", [id]),
      };
    });

const recentMs = 15 * 60_000;
/** So few failures are chance. */
const leastFailures = 3;

/** Providers of which every fifth attempt was a fault of late, or more: what has one key alone is never in cooldown, and says so only here. */
function ofFailures({ now, failed, all, ends, total }: Recent): Finding[] {
  const since = new Date(now - recentMs).toISOString();
  const ofProviders = [...failuresOf(failed)].flatMap(([provider, failures]): Finding[] => {
    const errors = errorsIn(failures);
    const calls = all.find((row) => row["provider"] === provider)?.calls ?? errors;
    if (errors < leastFailures || errors < calls / 5) return [];
    const most = [...failures].toSorted((a, b) => b[1] - a[1])[0]![0];
    return [
      {
        tone: errors >= calls / 2 ? "bad" : "warn",
        text: `${provider}: ${count(errors)} of ${count(calls)} attempts were its faults in the last 15 minutes, most by ${most}`,
        href: href("calls", [], { provider, failure: most, since }),
      },
    ];
  });
  return [...ofRefusals(ends, total, since), ...ofProviders];
}

type Recent = {
  readonly now: number;
  readonly failed: readonly Row[];
  readonly all: readonly Row[];
  readonly ends: readonly Row[];
  readonly total: Totals;
};

async function recentFailures(signal: AbortSignal): Promise<Recent> {
  const now = Date.now();
  const since = new Date(now - recentMs).toISOString();
  const [failed, all, ends] = await Promise.all(
    ["provider,failure", "provider", "ended,failure"].map((by) => getSums({ by, since }, signal)),
  );
  return { now, failed: failed!.data, all: all!.data, ends: ends!.data, total: ends!.total };
}

const ofPersonas = (personas: readonly PersonaSummary[]): Finding[] =>
  personas.map(({ id, stopped_variants: stopped }) => ({
    tone: "warn",
    text: `${id}: ${stopped.length === 1 ? "the variant" : "the variants"} ${stopped.join(", ")} did worse than the others, and stopped`,
    href: href("personas", [id, "numbers"]),
  }));

const alertWords: Readonly<Record<string, string>> = {
  "ledger.behind": "the ledger is behind",
  "clock.wrong": "a machine's clock is wrong",
  "model.retiring": "a model that is called ends soon",
  "model.without_price": "a budget refuses a model, as nobody knows its price",
  "provider.down": "nothing of a provider answers",
  "provider.key_refused": "a provider refuses a key",
  "storage.down": "the storage does not answer",
  "variant.stopped": "a variant stopped",
};
/** Where an alert's cause is shown. */
function alertHref(kind: string, subject: string): string {
  // A provider, perhaps with a key's hash or a model; a scope; <persona>@<version> <variant>
  if (kind.startsWith("provider.") || kind.startsWith("model."))
    return href("providers", [subject.split(/[/: ]/, 1)[0]!]);
  if (kind.startsWith("budget.")) return linkOfScope(subject);
  return kind.startsWith("variant.")
    ? href("personas", [subject.split("@", 1)[0]!, "numbers"])
    : href("system", ["alerts"]);
}

const order: readonly Tone[] = ["bad", "warn", "quiet"];

/** Of the alerts and of the doctor's findings: the rest is on their pages. */
const shown = 3;

/** @param words such as "more alerts are on" */
const more = (amount: number, words: string, address: string, tone: Tone = "warn"): Finding[] =>
  amount <= 0 ? [] : [{ tone, text: `${count(amount)} ${words}`, href: address }];

/** The cause of a budget's alert is `budget:<scope>:<period>:<percent>`. */
const alertText = ({ cause, kind, subject }: ActiveAlert): string => {
  const [, period, percent] = /:(\w+):(\d+)$/.exec(cause) ?? [];
  if (kind === "budget.reached") return `${subject} used ${percent} % of a budget (${period})`;
  return `${alertWords[kind] ?? kind}${subject === null ? "" : ` (${subject})`}`;
};

/** A budget that passed several marks is there once, with the highest. */
const passed = (all: readonly ActiveAlert[]): readonly ActiveAlert[] => {
  const byBudget = new Map<string, ActiveAlert>();
  const markOf = ({ cause }: ActiveAlert) => Number(/\d+$/.exec(cause)?.[0] ?? 0);
  for (const one of all) {
    const id = one.kind === "budget.reached" ? one.cause.replace(/:\d+$/, "") : one.cause;
    const known = byBudget.get(id);
    if (known === undefined || markOf(one) > markOf(known)) byBudget.set(id, one);
  }
  return [...byBudget.values()];
};

const ofAlerts = ({ active, counts }: Alerts): Finding[] => {
  const all = passed(active);
  const address = href("system", ["alerts"]);
  return [
    ...all.slice(0, shown).map((one) => ({
      ...{ tone: "warn" as const, href: alertHref(one.kind, one.subject ?? ""), since: one.since },
      text: `Alert: ${alertText(one)}`,
    })),
    ...more(all.length - shown, "more of the alerts that are on", address),
    ...more(counts.lost, "of the alerts since the start were lost: nobody got them", address),
  ];
};

/** What the doctor warns of is advice: with nothing else all is well. */
const ofDoctor = ({ findings }: DoctorReport): Finding[] => {
  const faults = findings.filter((one) => one.level !== "ok" && !isUnreachable(one));
  const address = href("system", ["doctor"]);
  return [
    ...ofUnreachable(findings),
    ...faults.slice(0, shown).map(({ level, place, message, advice }) => ({
      ...{ tone: level === "error" ? ("bad" as const) : ("quiet" as const), href: address, note: advice },
      text: `Doctor, ${place}: ${message}`,
    })),
    ...more(faults.length - shown, "more of the doctor's findings", address, "quiet"),
  ];
};

/** What is asked beside the server's health. @param at when that came: what failed is asked again with it */
function useParts(at: number | undefined) {
  const providers = useResource((signal) => get<ProviderList>("v1/providers", {}, { signal }), [], { everyMs: 10_000 });
  const stopped = useResource(
    (signal) => get<Listed<PersonaSummary>>("v1/personas", { stopped: "true", limit: "20" }, { signal }),
    [],
    { everyMs: 15_000 },
  );
  const alerts = useResource((signal) => get<Alerts>("v1/alerts", { limit: "1" }, { signal }), [], {
    everyMs: 15_000,
  });
  const doctor = useResource((signal) => get<DoctorReport>("v1/doctor", {}, { signal }), [], { everyMs: 300_000 });
  const failures = useResource(recentFailures, [], { everyMs: 30_000 });
  const budgets = useResource(spentBudgets, [], { everyMs: 15_000 });
  const parts = [budgets, providers, failures, stopped, alerts, doctor];
  useEffect(() => {
    for (const { error, reload } of parts) if (error !== undefined) reload();
  }, [at]);
  return {
    isProviderNamed: (providers.data?.data ?? []).some(({ state }) => state !== "ok"),
    isLoading: parts.some(({ data, error }) => data === undefined && error === undefined),
    findings: [
      ...(budgets.data ? ofBudgets(budgets.data) : []),
      ...ofProviders(providers.data?.data ?? []),
      ...(failures.data ? ofFailures(failures.data) : []),
      ...ofPersonas(stopped.data?.data ?? []),
      ...(alerts.data ? ofAlerts(alerts.data) : []),
      ...(doctor.data ? ofDoctor(doctor.data) : []),
      // What could not be read is not known to be well.
      ...parts.flatMap(({ error }): Finding[] =>
        error === undefined
          ? []
          : [{ tone: "warn", text: `A part was not read: ${error.message}`, href: href("system") }],
      ),
    ],
  };
}

const things = (amount: number, one: string, many: string) =>
  amount === 0 ? [] : [`${amount === 1 ? "1 thing" : `${count(amount)} things`} ${amount === 1 ? one : many}`];

/** @returns such as "1 thing fails, 2 things need a look"; empty: nothing does */
function verdictOf(findings: readonly Finding[]): string {
  const amount = (tone: Tone) => findings.filter((one) => one.tone === tone).length;
  const words = [...things(amount("bad"), "fails", "fail"), ...things(amount("warn"), "needs a look", "need a look")];
  return words.join(", ");
}

function Findings({ all }: { readonly all: readonly Finding[] }) {
  return (
    <ul class="findings">
      {all.map(({ tone, text, href: address, until, since, note }) => (
        <li key={`${text} ${address}`}>
          <i
            class={`dot ${tone}`}
            role="img"
            aria-label={tone === "bad" ? "fails" : tone === "warn" ? "look" : "advice"}
          />
          <span>
            <a href={address}>{text}</a> {note && <span class="muted">{note}</span>}
            {since && (
              <>
                since <Time at={since} exact="brief" />
              </>
            )}
            {until && (
              <>
                until <Time at={until} exact="brief" />
              </>
            )}
          </span>
        </li>
      ))}
    </ul>
  );
}

export function WellBeing() {
  const health = useResource((signal) => get<SystemHealth>("v1/health", {}, { signal }), [], { everyMs: 5_000 });
  const parts = useParts(health.at);
  return (
    <Loaded resource={health}>
      {(state) => {
        const worstFirst = ({ tone }: Finding) => order.indexOf(tone);
        // Each provider in cooldown is named below.
        const ofServer = ofHealth(state).filter((one) => one.href !== href("providers") || !parts.isProviderNamed);
        const all = [...ofServer, ...parts.findings].toSorted((a, b) => worstFirst(a) - worstFirst(b));
        const findings = all.filter(({ tone }) => tone !== "quiet");
        const advice = all.filter(({ tone }) => tone === "quiet");
        // What was so when the server last answered may be otherwise now.
        const isKnown = health.error === undefined;
        const isBad = isKnown && findings.some(({ tone }) => tone === "bad");
        const isWell = isKnown && findings.length === 0 && state.status === "ok";
        const tone = isBad ? "bad" : !isWell ? "warn" : parts.isLoading ? "quiet" : "ok";
        return (
          <section class={`panel well-being ${tone}`} aria-label="Whether all is well">
            <div class="well">
              <strong>
                <i class={`dot ${tone}`} aria-hidden="true" />
                {!isKnown
                  ? "Not known"
                  : isWell
                    ? parts.isLoading
                      ? "Looking…"
                      : "All is well"
                    : verdictOf(findings) || "Something needs a look"}
              </strong>
              <span class="muted">
                <a href={href("system")}>{state.version}</a> started <Time at={state.started_at} />
              </span>
              <div class="actions">
                <Curl path="v1/health" />
              </div>
            </div>
            {findings.length > 0 && <Findings all={findings} />}
            {advice.length > 0 && (
              <details>
                <summary class="muted">
                  The doctor advises {advice.length === 1 ? "one thing" : `${count(advice.length)} things`}
                </summary>
                <Findings all={advice} />
              </details>
            )}
          </section>
        );
      }}
    </Loaded>
  );
}
