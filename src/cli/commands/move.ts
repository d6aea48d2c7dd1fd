/** `troupe data move`: from a data folder into PostgreSQL. */
import { resolve } from "node:path";
import type { Config, StoreConfig } from "../../config/config.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { type Moved, type MoveProgress, move } from "../../store/move/move.ts";
import { folderSource } from "../../store/sqlite/move-side.ts";
import { settleInterrupted } from "../../usage/ledger/call-recovery.ts";
import { type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";

type MoveOptions = {
  readonly from?: string;
  readonly to?: string;
  readonly copy?: boolean;
  readonly json?: boolean;
};

export function moveData(context: Context, options: MoveOptions): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    const isCopy = options.copy === true;
    const folder = options.from === undefined ? config.data : resolve(context.io.cwd, options.from);
    const to = targetOf(config, options);
    const startedAt = systemClock.monotonic();
    await using source = await folderSource(folder, isCopy, (ledger) => settleInterrupted(folder, ledger));
    const { postgresTarget } = await import("../../store/postgres/move-side.ts");
    await using target = await postgresTarget(to, systemClock);
    const moved = await move(source, target, progressOn(context), isCopy);
    const seconds = (systemClock.monotonic() - startedAt) / 1000;
    report(context, { ...moved, from: source.place, to: target.place, seconds }, options.json === true);
    return 0;
  });
}

const isAddress = (text: string) => /^postgres(ql)?:\/\//.test(text);

/** @throws UsageError */
function targetOf({ store }: Config, { from, to }: MoveOptions): StoreConfig {
  if (from !== undefined && isAddress(from))
    throw new UsageError("--from must name a data folder: out of a database there is no move.");
  if (to === undefined) {
    if (store === undefined)
      throw new UsageError("--to must name a database (postgres://…), as 'store' of the configuration names none.");
    return store;
  }
  if (!isAddress(to)) throw new UsageError("--to must name a database (postgres://…): into a folder there is no move.");
  return storeAt(to, store);
}

/** @throws UsageError */
function storeAt(url: string, configured: StoreConfig | undefined): StoreConfig {
  if (!URL.canParse(url))
    throw new UsageError("The address of the database can't be read; it is postgres://user@host/database.");
  return configured === undefined
    ? { url, pool: 1, statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 600 }
    : { ...configured, url };
}

/** One line, written over itself; nothing where there is no terminal. */
function progressOn({ io: { stderr } }: Context): (progress: MoveProgress) => void {
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
