/** `troupe keys`: who may call. A running server takes every change over with its next request. */

import {
  checkSpec,
  type KeyChanges,
  type KeyInfo,
  type KeySpec,
  type Keys,
  keyFields,
  type NewKey,
} from "../auth/keys.ts";
import { systemClock } from "../lib/clock.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "./context.ts";
import { printJson } from "./print-json.ts";
import { keysIn, usingStore, withStore } from "./storage.ts";
import { formatFields, formatTable } from "./table.ts";

type KeyOptions = { readonly json?: boolean };
type ChangeOptions = KeyOptions & {
  /** Whether a very short beginning is enough. */
  readonly yes?: boolean;
};
export type RotateOptions = ChangeOptions & {
  /** How long the old key is taken too, in milliseconds. */
  readonly grace?: number;
};
export type UpdateOptions = ChangeOptions & KeyChanges;
export type CreateOptions = KeyOptions & Omit<KeySpec, "name">;

export function createKey(context: Context, name: string, { json, ...spec }: CreateOptions): Promise<ExitCode> {
  // Before anything is opened, or even made.
  checkSpec({ name, ...spec }, systemClock.now());
  return withConfig(context, async (config) => {
    const made = await usingStore(config, async (store) => (await keysIn(store, config)).create({ name, ...spec }));
    showNewKey(context, made, json);
    return 0;
  });
}

export function updateKey(
  context: Context,
  given: string,
  { json, yes, ...changes }: UpdateOptions,
): Promise<ExitCode> {
  if (Object.keys(changes).length === 0) throw new UsageError("Nothing to change: give a flag such as --tags.");
  return withKnownKeys(context, async (keys) => {
    const { id } = await findKey(context, keys, given, yes);
    showInfo(context, await keys.update(id, changes), json);
  });
}

export function rotateKey(context: Context, given: string, { json, yes, grace }: RotateOptions): Promise<ExitCode> {
  return withKnownKeys(context, async (keys) => {
    const { id } = await findKey(context, keys, given, yes);
    showNewKey(context, await keys.rotate(id, grace), json);
  });
}

export function listKeys(context: Context, { json }: KeyOptions): Promise<ExitCode> {
  return withKnownKeys(context, async (keys) => {
    const all = await keys.list();
    if (json) printJson(context.io, all.map(keyFields));
    else if (all.length === 0) context.io.stderr.write("There are no keys yet: troupe keys create <name> makes one.\n");
    else context.io.stdout.write(formatTable(columns, all.map(rowFrom)));
  });
}

export function showKey(context: Context, given: string, { json }: KeyOptions): Promise<ExitCode> {
  return withKnownKeys(context, async (keys) => showInfo(context, await keys.show(given), json));
}

export function revokeKey(context: Context, given: string, { json, yes }: ChangeOptions): Promise<ExitCode> {
  return withKnownKeys(context, async (keys) => {
    const { id } = await findKey(context, keys, given, yes);
    showInfo(context, await keys.revoke(id), json);
  });
}

function withKnownKeys(context: Context, use: (keys: Keys) => void | Promise<void>): Promise<ExitCode> {
  return withStore(context, async (store, config) => use(await keysIn(store, config)));
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

/** The key alone on stdout, so that a script can take it; what it is on stderr. */
function showNewKey({ io }: Context, { secret, key }: NewKey, json = false): void {
  if (json) printJson(io, { key: secret, ...keyFields(key) });
  else io.stdout.write(`${secret}\n`);
  io.stderr.write(`${key.id} (${key.name}, ${key.tier}). This is the only time that the key is shown.\n`);
}

function showInfo({ io }: Context, key: KeyInfo, json = false): void {
  if (json) printJson(io, keyFields(key));
  else io.stdout.write(formatFields(fieldsFrom(key)));
}

const fieldsFrom = (key: KeyInfo) => ({
  id: key.id,
  name: key.name,
  key: `${key.prefix}…`,
  state: key.state,
  tier: key.tier,
  "per minute": key.perMinute?.toString(),
  "tokens per minute": key.tokensPerMinute?.toString(),
  surfaces: key.surfaces.join(", "),
  models: key.models.join(", "),
  tags: key.tags.length === 0 ? undefined : key.tags.join(", "),
  created: timeOf(key.createdAt),
  "last used": timeOf(key.lastUsedAt),
  expires: timeOf(key.expiresAt),
  revoked: timeOf(key.revokedAt),
  "old key until": timeOf(key.oldSecretUntil),
});

const columns = ["id", "key", "name", "state", "tier", "per minute", "surfaces", "tags", "last used", "expires"];

const rowFrom = (key: KeyInfo) => [
  key.id,
  `${key.prefix}…`,
  key.name,
  key.state,
  key.tier,
  key.perMinute?.toString(),
  key.surfaces.join(","),
  key.tags.length === 0 ? undefined : key.tags.join(","),
  timeOf(key.lastUsedAt),
  timeOf(key.expiresAt),
];

/** To the second, for people. */
const timeOf = (ms: number | undefined) =>
  ms === undefined ? undefined : `${new Date(ms).toISOString().slice(0, 19)}Z`;
