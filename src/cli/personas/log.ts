/** `troupe personas log`: a persona's versions, with where they came from and how they did. */
import { systemClock } from "../../lib/time/clock.ts";
import { nameOf } from "../../personas/versions/references.ts";
import type { LedgerRepository, LedgerSum } from "../../store/usage.ts";
import { dollarsOf } from "../../usage/ledger/report.ts";
import { withStore } from "../commands/storage.ts";
import { CommandError, type Context, type ExitCode } from "../context.ts";
import { loadPersonas } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";
import { type Commit, commitsOf } from "./git-versions.ts";

type LogOptions = { readonly all?: boolean; readonly json?: boolean };

/** Versions that are listed unless all are asked for. */
const listed = 20;
/** The latest lines of a version, of which the 95th percentile is taken. */
const sampledLines = 1000;

export function logPersona(context: Context, id: string, { all, json }: LogOptions): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    const { personas, paths, folder } = await loadPersonas(context, config.personas);
    const served = personas.find((one) => one.id === id);
    const kept = await store.personaVersions.list(id);
    if (kept.length === 0 && served === undefined) throw new CommandError(`No version of a persona '${id}' is kept.`);
    const path = paths.get(id);
    const commits =
      path === undefined || folder === undefined ? new Map<string, Commit>() : await commitsOf(id, path, folder);
    const labels = (await store.personaVersions.labels()).filter(({ persona }) => persona === id);
    const known = new Map(kept.map((one) => [one.version, one]));
    const versions = [...new Set([...(served === undefined ? [] : [served.version]), ...known.keys()])];
    const shown = all ? versions : versions.slice(0, listed);
    const rows = [];
    for (const version of shown) {
      const row = known.get(version);
      rows.push({
        version,
        id: nameOf({ id, version }),
        since: row === undefined ? null : timeOf(row.createdAt),
        used: row === undefined ? null : timeOf(row.usedAt),
        in_service: version === served?.version,
        labels: labels.filter((one) => one.version === version).map(({ label }) => label),
        commit: commits.get(version) ?? null,
        ...(await numbersOf(store.ledger, id, version)),
      });
    }
    if (json) return printJson(context.io, rows);
    context.io.stdout.write(
      formatTable(
        ["version", "since", "last used", "names", "commit", "calls", "errors", "cost", "p95"],
        rows.map((row) => [
          ...[row.version, row.since ?? undefined, row.used ?? undefined],
          [...(row.in_service ? ["in service"] : []), ...row.labels].join(", ") || undefined,
          row.commit?.hash,
          ...[String(row.calls), String(row.errors)],
          row.calls === 0 ? undefined : `${row.unknown_cost_calls > 0 ? "≥ " : ""}${dollarsOf(row.cost_micro_dollars)}`,
          row.p95_seconds === null ? undefined : `${row.p95_seconds.toFixed(2)} s`,
        ]),
      ),
    );
    if (versions.length > shown.length)
      context.io.stderr.write(`${versions.length - shown.length} older ones are shown by --all.\n`);
  });
}

const timeOf = (at: number) => `${new Date(at).toISOString().slice(0, 16)}Z`;

/** What the ledger says of a version: replays cost nothing and are no calls. */
async function numbersOf(ledger: LedgerRepository, persona: string, version: string) {
  const filter = { since: 0, until: systemClock.now() + 60_000, where: { persona, persona_version: version } };
  const sum: LedgerSum | undefined = (await ledger.sums(filter, [], { limit: 1 }))[0];
  const { ended } = sum ?? { ended: undefined };
  const calls = (sum?.calls ?? 0) - (ended?.replayed ?? 0) - (ended?.joined ?? 0);
  const lines = calls === 0 ? [] : await ledger.lines({ ...filter, limit: sampledLines });
  const times = lines
    .filter((line) => line.ended === "finished")
    .map(({ totalMs }) => totalMs)
    .sort((a, b) => a - b);
  return {
    calls,
    errors: (ended?.broken ?? 0) + (ended?.refused ?? 0) + (ended?.interrupted ?? 0),
    cost_micro_dollars: sum?.cost ?? 0,
    unknown_cost_calls: sum?.unknownCosts ?? 0,
    p95_seconds: times.length === 0 ? null : times[Math.ceil(0.95 * times.length) - 1]! / 1000,
  };
}
