/** `troupe data migrate`: what an upgrade does to the database, beforehand. */
import type { StoreConfig } from "../../config/config.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { dryRunMigration, migrateData } from "../../store/sqlite/migration.ts";
import { type Context, type ExitCode, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { megabytes } from "../print/table.ts";
import { assertDataFolder } from "./storage.ts";

type Options = { readonly dryRun?: boolean; readonly json?: boolean };

export function migrate(context: Context, { dryRun, json }: Options): Promise<ExitCode> {
  return withConfig(context, async ({ data, store }) => {
    if (store !== undefined) return migrateServer(context, store, dryRun === true, json);
    assertDataFolder(context, data);
    const now = () => systemClock.monotonic();
    const { from, to, milliseconds, bytes } = await (dryRun ? dryRunMigration : migrateData)(data, now);
    if (json) {
      printJson(context.io, {
        place: data,
        from,
        to,
        bytes,
        milliseconds: Math.ceil(milliseconds),
        dry_run: dryRun === true,
      });
      return 0;
    }
    const steps = from === to ? `schema ${to} is up to date` : `schema ${from} → ${to}`;
    const done = dryRun
      ? `tried on a copy in ${Math.ceil(milliseconds)} ms; nothing was changed`
      : `done in ${Math.ceil(milliseconds)} ms`;
    context.io.stdout.write(`${data}: ${steps}, ${megabytes(bytes)}: ${done}\n`);
    return 0;
  });
}

async function migrateServer({ io }: Context, store: StoreConfig, isDryRun: boolean, json = false): Promise<ExitCode> {
  const { inspectPostgres, migratePostgres } = await import("../../store/postgres/inspect.ts");
  const { place, version, known } = await inspectPostgres(store, systemClock, (state) => state);
  if (!isDryRun) await migratePostgres(store, systemClock, (words) => io.stderr.write(`${words}\n`));
  if (json) {
    printJson(io, { place, from: version, to: Math.max(version, known), dry_run: isDryRun });
    return 0;
  }
  const steps = version >= known ? `schema ${version} is up to date` : `schema ${version} → ${known}`;
  io.stdout.write(`${place}: ${steps}${isDryRun ? "; nothing was changed" : ": done"}\n`);
  return 0;
}
