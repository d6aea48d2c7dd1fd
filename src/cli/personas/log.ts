/** `troupe personas log`: a persona's versions, with where they came from and how they did. */

import { systemClock } from "../../lib/time/clock.ts";
import { countsOf, listVersions } from "../../operate/personas/versions.ts";
import { nameOf } from "../../personas/versions/references.ts";
import type { LedgerRepository } from "../../store/contract/usage.ts";
import { quantileOf } from "../../usage/ledger/quantile.ts";
import { dollarsOf } from "../../usage/money.ts";
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
    const versions = await listVersions(store, id, served?.version);
    if (versions.length === 0) throw new CommandError(`No version of a persona '${id}' is kept.`);
    const path = paths.get(id);
    const commits =
      path === undefined || folder === undefined ? new Map<string, Commit>() : await commitsOf(id, path, folder);
    const shown = all ? versions : versions.slice(0, listed);
    const rows = [];
    for (const { version, createdAt, usedAt, isServed, labels } of shown) {
      rows.push({
        ...{ version, id: nameOf({ id, version }) },
        since: createdAt === null ? null : timeOf(createdAt),
        used: usedAt === null ? null : timeOf(usedAt),
        ...{ in_service: isServed, labels },
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

/** What the ledger says of a version. */
async function numbersOf(ledger: LedgerRepository, persona: string, version: string) {
  const filter = { since: 0, until: systemClock.now() + 60_000, where: { persona, persona_version: version } };
  const [sum] = await ledger.sums(filter, [], { limit: 1 });
  const { calls, ...counts } = sum === undefined ? noCounts : countsOf(sum);
  const lines = calls === 0 ? [] : await ledger.lines({ ...filter, limit: sampledLines });
  const p95 = quantileOf(lines, 0.95, (line) => (line.ended === "finished" ? line.totalMs : null));
  return { calls, ...counts, p95_seconds: p95 === null ? null : p95 / 1000 };
}

const noCounts = { calls: 0, errors: 0, cost_micro_dollars: 0, unknown_cost_calls: 0 };
