/** `troupe data migrate`: what an upgrade does to the database, beforehand. */
import { systemClock } from "../lib/clock.ts";
import { migrateData, rehearseMigration } from "../store/sqlite/migration.ts";
import { type Context, type ExitCode, withConfig } from "./context.ts";
import { assertDataFolder } from "./storage.ts";
import { megabytes } from "./table.ts";

export function migrate(context: Context, { dryRun }: { readonly dryRun?: boolean }): Promise<ExitCode> {
  return withConfig(context, async ({ data }) => {
    assertDataFolder(context, data);
    const now = () => systemClock.monotonic();
    const { from, to, milliseconds, bytes } = await (dryRun ? rehearseMigration : migrateData)(data, now);
    const steps = from === to ? `schema ${to} is up to date` : `schema ${from} → ${to}`;
    const done = dryRun
      ? `a copy took it well in ${Math.ceil(milliseconds)} ms; nothing was changed`
      : `done in ${Math.ceil(milliseconds)} ms`;
    context.io.stdout.write(`${data}: ${steps}, ${megabytes(bytes)}: ${done}\n`);
    return 0;
  });
}
