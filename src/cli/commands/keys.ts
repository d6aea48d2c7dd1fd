/** `troupe keys`: who may call. A running server takes every change over with its next request. */
import { join } from "node:path";
import { type KeyInfo, keyFields } from "../../auth/key-info.ts";
import { checkSpec, type KeyChanges, type KeySpec } from "../../auth/key-spec.ts";
import type { Keys, NewKey } from "../../auth/keys.ts";
import type { Config } from "../../config/config.ts";
import { unmatchedPattern } from "../../http/models/model-patterns.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { firstKeyName } from "../../store/sqlite/loss-guard.ts";
import type { Store } from "../../store/store.ts";
import { changesFrom, type OrNone } from "../arguments.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { loadPersonas } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { formatFields, formatTable } from "../print/table.ts";
import { record } from "./audit.ts";
import { keysIn, usingStore, withStore } from "./storage.ts";

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
    await assertMatching(context, config, spec.models);
    const file = join(config.data, firstKeyName);
    const [first, made] = await usingStore(config, async (store) => {
      const keys = await keysIn(store, config);
      // The first start makes none once there is another key.
      const created = [await keys.ensureFirstKey(file), await keys.create(spec)] as const;
      for (const one of created) if (one !== undefined) await recordKey(context, store, "create", undefined, one.key);
      return created;
    });
    if (first !== undefined) context.io.stderr.write(`The first key, which opens every surface, is in ${file}.\n`);
    showNewKey(context, made, json);
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
  return withKnownKeys(context, async (keys, config, store) => {
    await assertMatching(context, config, changes.models);
    const before = await findKey(context, keys, given, yes);
    const after = await keys.update(before.id, changes);
    await recordKey(context, store, "update", before, after);
    showInfo(context, after, json);
  });
}

/** @throws UsageError for a pattern that would open nothing */
async function assertMatching(context: Context, config: Config, models: readonly string[] = []): Promise<void> {
  if (models.length === 0) return;
  const { personas } = await loadPersonas(context, config.personas);
  const problem = unmatchedPattern(models, config, personas);
  if (problem !== undefined) throw new UsageError(`--models: ${problem}`);
}

export function rotateKey(context: Context, given: string, { json, yes, grace }: RotateOptions): Promise<ExitCode> {
  return withKnownKeys(context, async (keys, _, store) => {
    const before = await findKey(context, keys, given, yes);
    const made = await keys.rotate(before.id, grace);
    await recordKey(context, store, "rotate", before, made.key);
    showNewKey(context, made, json);
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
  return withKnownKeys(context, async (keys, _, store) => {
    const before = await findKey(context, keys, given, yes);
    const after = await keys.revoke(before.id);
    await recordKey(context, store, "revoke", before, after);
    showInfo(context, after, json);
  });
}

type Use = (keys: Keys, config: Config, store: Store) => void | Promise<void>;

function withKnownKeys(context: Context, use: Use): Promise<ExitCode> {
  return withStore(context, async (store, config) => use(await keysIn(store, config), config, store));
}

/** Writes the audit line that the admin API writes. */
function recordKey(
  context: Context,
  store: Store,
  act: string,
  before: KeyInfo | undefined,
  after: KeyInfo,
): Promise<void> {
  const json = (key: KeyInfo) => ({ object: "key", ...keyFields(key) });
  return record(context, store, {
    act: `key.${act}`,
    subject: after.id,
    ...(before && { before: json(before) }),
    after: json(after),
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

/** @param separator of lists */
const fieldsFrom = (key: KeyInfo, separator = ", ") => ({
  id: key.id,
  name: key.name,
  key: `${key.prefix}…`,
  state: key.state,
  tier: key.tier,
  "per minute": key.perMinute?.toString(),
  "tokens per minute": key.tokensPerMinute?.toString(),
  surfaces: key.surfaces.join(separator),
  models: key.models.join(separator),
  tags: key.tags.length === 0 ? undefined : key.tags.join(separator),
  created: timeOf(key.createdAt),
  "last used": timeOf(key.lastUsedAt),
  expires: timeOf(key.expiresAt),
  revoked: timeOf(key.revokedAt),
  "old key until": timeOf(key.oldSecretUntil),
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

const rowFrom = (key: KeyInfo) => {
  const fields = fieldsFrom(key, ",");
  return columns.map((column) => fields[column]);
};

/** To the second, for people. */
const timeOf = (ms: number | undefined) =>
  ms === undefined ? undefined : `${new Date(ms).toISOString().slice(0, 19)}Z`;
