/** `troupe data move`: from a data folder into PostgreSQL, or back. */
import { resolve } from "node:path";
import type { Config, StoreConfig } from "../config/config.ts";
import { systemClock } from "../lib/clock.ts";
import { type Moved, type MoveSource, type MoveTarget, move, type Progress } from "../store/move/move.ts";
import { folderSource, folderTarget } from "../store/sqlite/move-side.ts";
import { settleInterrupted } from "../usage/call-recovery.ts";
import { type Context, type ExitCode, UsageError, withConfig } from "./context.ts";
import { printJson } from "./print-json.ts";
import { formatTable } from "./table.ts";

export type MoveOptions = {
  readonly from?: string;
  readonly to?: string;
  readonly copy?: boolean;
  readonly json?: boolean;
};

type Place = { readonly folder: string } | { readonly store: StoreConfig };

export function moveData(context: Context, options: MoveOptions): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    const { from, to } = placesOf(config, options, context.io.cwd);
    const startedAt = systemClock.monotonic();
    await using source = await sourceAt(from, options.copy === true, config.data);
    await using target = await targetAt(to);
    const moved = await move(source, target, progressOn(context), options.copy === true);
    const seconds = (systemClock.monotonic() - startedAt) / 1000;
    report(context, { ...moved, from: source.place, to: target.place, seconds }, options.json === true);
    return 0;
  });
}

/** Both places; the configuration names those that the command line does not. @throws UsageError */
function placesOf({ data, store }: Config, { from, to }: MoveOptions, cwd: string): { from: Place; to: Place } {
  const named = (text: string): Place =>
    isAddress(text) ? { store: storeAt(text, store) } : { folder: resolve(cwd, text) };
  const configured = store && { store };
  const target = to === undefined ? configured : named(to);
  if (target === undefined)
    throw new UsageError(
      "--to must name a folder or a database (postgres://…), as 'store' of the configuration names none.",
    );
  const usual: Place | undefined = "store" in target ? { folder: data } : configured;
  const source = from === undefined ? usual : named(from);
  if (source === undefined) throw new UsageError("--from must name a database (postgres://…).");
  if (JSON.stringify(source) === JSON.stringify(target)) throw new UsageError("--from and --to name one place.");
  return { from: source, to: target };
}

const isAddress = (text: string) => /^postgres(ql)?:\/\//.test(text);

/** @throws UsageError */
function storeAt(url: string, configured: StoreConfig | undefined): StoreConfig {
  if (!URL.canParse(url))
    throw new UsageError("The address of the database can't be read; it is postgres://user@host/database.");
  return configured === undefined
    ? { url, pool: 1, statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 600 }
    : { ...configured, url };
}

async function sourceAt(place: Place, isCopy: boolean, data: string): Promise<MoveSource> {
  if ("folder" in place) return folderSource(place.folder, isCopy, (ledger) => settleInterrupted(place.folder, ledger));
  if (isCopy) throw new UsageError("--copy is for a data folder; PostgreSQL's own pg_dump copies a database in use.");
  const { postgresSource } = await import("../store/postgres/move-side.ts");
  return postgresSource(place.store, systemClock, (ledger) => settleInterrupted(data, ledger));
}

async function targetAt(place: Place): Promise<MoveTarget> {
  if ("folder" in place) return folderTarget(place.folder);
  const { postgresTarget } = await import("../store/postgres/move-side.ts");
  return postgresTarget(place.store, systemClock);
}

/** One line, written over itself; nothing where there is no terminal. */
function progressOn({ io: { stderr } }: Context): (progress: Progress) => void {
  let shownAt = Number.NEGATIVE_INFINITY;
  return ({ step, table, done, of }) => {
    const now = systemClock.monotonic();
    if (!stderr.isTerminal || (now - shownAt < 100 && done < of)) return;
    shownAt = now;
    const percent = of === 0 ? 100 : Math.floor((100 * done) / of);
    stderr.write(`\r\x1b[K${step === "copy" ? "copying" : "comparing"} ${table}: ${done} of ${of} (${percent} %)`);
  };
}

type Report = Moved & { readonly from: string; readonly to: string; readonly seconds: number };

function report({ io }: Context, { from, to, resumed, seconds, tables, leftBehind }: Report, isJson: boolean): void {
  if (io.stderr.isTerminal) io.stderr.write("\r\x1b[K");
  if (isJson) {
    printJson(io, { from, to, resumed, seconds, tables, left_behind: Object.fromEntries(leftBehind) });
    return;
  }
  const rows = tables.map(({ name, rows: count, checksum }) => [name, String(count), checksum]);
  io.stdout.write(formatTable(["table", "rows", "checksum"], rows));
  const how = resumed ? "finished what was begun before" : "done";
  io.stdout.write(`\n${from} → ${to}: ${how} in ${seconds.toFixed(1)} s; every row was read back and compared.\n`);
  for (const [what, count] of leftBehind) io.stdout.write(`Left behind: ${count} ${what}.\n`);
  io.stdout.write(`${from} is unchanged. Set ${to} in the configuration, and start the server.\n`);
}
