/** `troupe keys`: who may call. A running server takes every change over with its next request. */
import { join } from "node:path";
import type { Key } from "../../api/keys.ts";
import type { KeyInfo } from "../../auth/key-info.ts";
import { checkSpec, type KeyChanges, type KeySpec } from "../../auth/key-spec.ts";
import type { Keys } from "../../auth/keys.ts";
import { systemClock } from "../../lib/time/clock.ts";
import * as acts from "../../operate/keys.ts";
import { firstKeyName } from "../../store/sqlite/loss-guard.ts";
import { changesFrom, type OrNone } from "../arguments.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatFields, formatTable } from "../print/table.ts";
import { checkedBy, operatorOf, withOperator } from "./operator.ts";
import { usingStore } from "./storage.ts";

type KeyOptions = { readonly json?: boolean };
type ChangeOptions = KeyOptions & {
  /** True if a very short beginning is enough. */
  readonly yes?: boolean;
};
type RotateOptions = ChangeOptions & {
  /** Milliseconds for which the old key is accepted too. */
  readonly grace?: number;
};
type UpdateOptions = ChangeOptions &
  Omit<KeyChanges, "expiresAt" | "perMinute" | "tokensPerMinute"> & {
    readonly expires?: OrNone;
    readonly perMinute?: OrNone;
    readonly tokensPerMinute?: OrNone;
  };
type CreateOptions = KeyOptions & Omit<KeySpec, "name" | "expiresAt"> & { readonly expires?: number };

export function createKey(
  context: Context,
  name: string,
  { json, expires, ...rest }: CreateOptions,
): Promise<ExitCode> {
  const spec = { name, ...rest, ...(expires !== undefined && { expiresAt: expires }) };
  // Before anything is opened, or even made.
  checkSpec(spec, systemClock.now());
  return withConfig(context, async (config) => {
    const checked = checkedBy(context, config);
    await acts.checkModels(checked, spec.models);
    const file = join(config.data, firstKeyName);
    await usingStore(config, async (store) => {
      const operator = operatorOf(context, store, config, checked);
      // Where the rights of those that are there can't be read, no server starts: that is told, and nothing added.
      await operator.keys.list();
      // The first start makes none once there is another key.
      if (await acts.createFirstKey(operator, file))
        context.io.stderr.write(`The first key, which opens every surface, is in ${file}.\n`);
      showNewKey(context, await acts.createKey(operator, spec), json);
    });
    return 0;
  });
}

export function updateKey(
  context: Context,
  given: string,
  { json, yes, expires, perMinute, tokensPerMinute, ...rest }: UpdateOptions,
): Promise<ExitCode> {
  const changes: KeyChanges = { ...rest, ...changesFrom({ expiresAt: expires, perMinute, tokensPerMinute }) };
  if (Object.keys(changes).length === 0) throw new UsageError("Nothing to change: give a flag such as --tags.");
  return withOperator(context, async (operator) => {
    const key = await findKey(context, operator.keys, given, yes);
    showInfo(context, (await acts.updateKey(operator, key, changes)).after, json);
  });
}

export function rotateKey(context: Context, given: string, { json, yes, grace }: RotateOptions): Promise<ExitCode> {
  return withOperator(context, async (operator) => {
    const key = await findKey(context, operator.keys, given, yes);
    showNewKey(context, await acts.rotateKey(operator, key, grace), json);
  });
}

export function listKeys(context: Context, { json }: KeyOptions): Promise<ExitCode> {
  return withOperator(context, async ({ keys }) => {
    const all = (await keys.list()).map(acts.keyJson);
    if (json) printJson(context.io, all.map(plain));
    else if (all.length === 0) context.io.stderr.write("There are no keys yet: troupe keys create <name> makes one.\n");
    else context.io.stdout.write(formatTable(columns, all.map(rowFrom)));
  });
}

export function showKey(context: Context, given: string, { json }: KeyOptions): Promise<ExitCode> {
  return withOperator(context, async ({ keys }) => showInfo(context, acts.keyJson(await keys.show(given)), json));
}

export function revokeKey(context: Context, given: string, { json, yes }: ChangeOptions): Promise<ExitCode> {
  return withOperator(context, async (operator) => {
    const key = await findKey(context, operator.keys, given, yes);
    showInfo(context, (await acts.revokeKey(operator, key)).after, json);
  });
}

/** Finds the key to change, and asks for confirmation where so little of it is given that another may be meant. @throws KeyError */
async function findKey({ io }: Context, keys: Keys, given: string, yes = false): Promise<KeyInfo> {
  const { key, isVague } = await keys.match(given);
  if (!isVague || yes) return key;
  const found = `'${given}' fits ${key.id} (${key.name}, ${key.prefix}…)`;
  if (io.confirm === undefined) throw new UsageError(`${found}, but is very short: give more of it, or --yes.`);
  if (!(await io.confirm(`${found}. Is this the key?`))) throw new CommandError("Nothing was changed.");
  return key;
}

/** Without the type, which a list of keys and a key's own command tell. */
const plain = ({ object: _, ...fields }: Key) => fields;

/** The key alone on stdout, so that a script can take it; what it is on stderr. */
function showNewKey(
  { io }: Context,
  { secret, after: key }: { readonly secret: string; readonly after: Key },
  json = false,
): void {
  if (json) printJson(io, { key: secret, ...plain(key) });
  else io.stdout.write(`${secret}\n`);
  io.stderr.write(`${key.id} (${key.name}, ${key.tier}). This is the only time that the key is shown.\n`);
}

function showInfo({ io }: Context, key: Key, json = false): void {
  if (json) printJson(io, plain(key));
  else io.stdout.write(formatFields(fieldsFrom(key)));
}

/** @param separator of lists */
const fieldsFrom = (key: Key, separator = ", ") => ({
  id: key.id,
  name: key.name,
  key: `${key.prefix}…`,
  state: key.state,
  tier: key.tier,
  "per minute": key.per_minute?.toString(),
  "tokens per minute": key.tokens_per_minute?.toString(),
  surfaces: key.surfaces.join(separator),
  models: key.models.join(separator),
  tags: key.tags.length === 0 ? undefined : key.tags.join(separator),
  created: timeOf(key.created_at),
  "last used": timeOf(key.last_used_at),
  expires: timeOf(key.expires_at),
  revoked: timeOf(key.revoked_at),
  "old key until": timeOf(key.old_key_expires_at),
});

const columns = [
  "id",
  "key",
  "name",
  "state",
  "tier",
  "per minute",
  "surfaces",
  "tags",
  "last used",
  "expires",
] as const;

const rowFrom = (key: Key) => {
  const fields = fieldsFrom(key, ",");
  return columns.map((column) => fields[column]);
};

/** To the second, for people. */
const timeOf = (time: string | null) => (time === null ? undefined : `${time.slice(0, 19)}Z`);
