/** `troupe data migrate`: what an upgrade does to the database, beforehand. */
import { systemClock } from "../lib/clock.ts";
import { migrateData, rehearseMigration } from "../store/sqlite/migration.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "./context.ts";

export function migrate(context: Context, { dryRun }: { readonly dryRun?: boolean }): Promise<ExitCode> {
  return withConfig(context, async ({ data }) => {
    if (!context.io.isFolder(data)) throw new CommandError(`There is no data folder ${data}; --data names another.`);
    const now = () => systemClock.monotonic();
    const { from, to, milliseconds, bytes } = await (dryRun ? rehearseMigration : migrateData)(data, now);
    const size = `${(bytes / 1e6).toFixed(1)} MB`;
    const steps = from === to ? `schema ${to} is up to date` : `schema ${from} → ${to}`;
    const done = dryRun
      ? `a copy took it well in ${Math.ceil(milliseconds)} ms; nothing was changed`
      : `done in ${Math.ceil(milliseconds)} ms`;
    context.io.stdout.write(`${data}: ${steps}, ${size}: ${done}\n`);
    return 0;
  });
}
