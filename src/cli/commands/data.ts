/** `troupe data`: statistics, backup, restore and pruning of the data folder. */
import { join, resolve } from "node:path";
import { snakeKeys } from "../../lib/text/snake-case.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { backUp, dataStats, prune, restore } from "../../store/sqlite/data-folder.ts";
import { databaseName } from "../../store/sqlite/store.ts";
import { sweepRulesOf } from "../../store/sweeper.ts";
import { type Context, type ExitCode, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatFields, megabytes } from "../print/table.ts";
import { assertSqlite, withStore } from "./storage.ts";

type Json = { readonly json?: boolean };

export function showDataStats(context: Context, { json }: Json): Promise<ExitCode> {
  return withStore(context, async (store) => {
    const stats = await dataStats(store, systemClock.now());
    if (json) {
      printJson(context.io, snakeKeys(stats));
      return;
    }
    const { keys, answers, conversations } = stats;
    context.io.stdout.write(
      formatFields({
        database: stats.path,
        schema: String(stats.schemaVersion),
        size: `${megabytes(stats.bytes)}, of which free ${megabytes(stats.freeBytes)}, and a log of ${megabytes(stats.logBytes)}`,
        servers: stats.servers === 0 ? "none running" : `${stats.servers} running`,
        keys: `${keys.usable} usable, ${keys.expired} expired, ${keys.revoked} revoked`,
        answers: `${answers.finished} stored (${megabytes(answers.bytes)}), ${answers.running} running, ${answers.interrupted} interrupted`,
        conversations: `${conversations.conversations} with ${conversations.turns} turns (${megabytes(conversations.bytes)}), ${conversations.deleted} of them deleted`,
      }),
    );
  });
}

export function backUpData(context: Context, file: string, { json }: Json): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    assertSqlite(config, "'pg_dump --schema=troupe' makes a backup");
    const target = resolve(context.io.cwd, file);
    await backUp(store, target);
    context.io.stderr.write(`${target} holds everything. It opens every key's conversations: keep it safe.\n`);
    if (json) printJson(context.io, { backup: target });
  });
}

export function restoreData(context: Context, file: string, { json }: Json): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    assertSqlite(config, "'pg_restore' brings a backup back");
    const { data } = config;
    const backup = resolve(context.io.cwd, file);
    const replaced = await restore(backup, data);
    const before = replaced === undefined ? "" : `The database that was there before is now ${replaced}.\n`;
    const path = join(data, databaseName);
    context.io.stderr.write(`${path} is restored from ${backup}.\n${before}`);
    context.io.stderr.write("Keys are as they were then: revoke again what was revoked since ('troupe keys list').\n");
    if (json) printJson(context.io, { path, backup, replaced: replaced ?? null });
    return 0;
  });
}

export function pruneData(context: Context, { json }: Json): Promise<ExitCode> {
  return withStore(context, async (store, config) => {
    const { answers, turns, pages, bytes } = await prune(store, systemClock.now(), sweepRulesOf(config));
    if (json) printJson(context.io, { answers, conversation_rows: turns, pages, bytes });
    else {
      const removed =
        answers + turns === 0
          ? "Nothing has expired"
          : `Removed ${counted(answers, "stored answer")} and ${counted(turns, "stored turn")}`;
      context.io.stdout.write(`${removed}; ${store.path} is ${megabytes(bytes)} smaller.\n`);
    }
  });
}

const counted = (count: number, what: string) => `${count} ${what}${count === 1 ? "" : "s"}`;
