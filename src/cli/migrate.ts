/** `troupe data migrate`: what an upgrade does to the database, beforehand. */
import type { StoreConfig } from "../config/config.ts";
import { systemClock } from "../lib/clock.ts";
import { dryRunMigration, migrateData } from "../store/sqlite/migration.ts";
import { type Context, type ExitCode, withConfig } from "./context.ts";
import { assertDataFolder } from "./storage.ts";
import { megabytes } from "./table.ts";

export function migrate(context: Context, { dryRun }: { readonly dryRun?: boolean }): Promise<ExitCode> {
  return withConfig(context, async ({ data, store }) => {
    if (store !== undefined) return migrateServer(context, store, dryRun === true);
    assertDataFolder(context, data);
    const now = () => systemClock.monotonic();
    const { from, to, milliseconds, bytes } = await (dryRun ? dryRunMigration : migrateData)(data, now);
    const steps = from === to ? `schema ${to} is up to date` : `schema ${from} → ${to}`;
    const done = dryRun
      ? `a copy took it well in ${Math.ceil(milliseconds)} ms; nothing was changed`
      : `done in ${Math.ceil(milliseconds)} ms`;
    context.io.stdout.write(`${data}: ${steps}, ${megabytes(bytes)}: ${done}\n`);
    return 0;
  });
}

async function migrateServer({ io }: Context, store: StoreConfig, isDryRun: boolean): Promise<ExitCode> {
  const { inspectPostgres, migratePostgres } = await import("../store/postgres/inspect.ts");
  const { place, version, known } = await inspectPostgres(store, systemClock, (state) => state);
  if (!isDryRun) await migratePostgres(store, systemClock, (words) => io.stderr.write(`${words}\n`));
  const steps = version >= known ? `schema ${version} is up to date` : `schema ${version} → ${known}`;
  io.stdout.write(`${place}: ${steps}${isDryRun ? "; nothing was changed" : ": done"}\n`);
  return 0;
}
