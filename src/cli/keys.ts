/** `troupe keys`: who may call. A running server takes every change over with its next request. */
import type { KeyInfo, KeySpec, Keys, NewKey } from "../services/keys.ts";
import { type Context, type ExitCode, printJson, withConfig } from "./context.ts";
import { keysIn, usingStore, withStore } from "./storage.ts";
import { formatFields, formatTable } from "./table.ts";

export type KeyOptions = { readonly json?: boolean };
export type CreateOptions = KeyOptions & Omit<KeySpec, "name">;

export function createKey(context: Context, name: string, { json, ...spec }: CreateOptions): Promise<ExitCode> {
  return withConfig(context, (config) => {
    const made = usingStore(config, (store) => keysIn(store, config).create({ name, ...spec }));
    showNewKey(context, made, json);
    return 0;
  });
}

export function rotateKey(context: Context, idOrPrefix: string, { json }: KeyOptions): Promise<ExitCode> {
  return withKnownKeys(context, (keys) => showNewKey(context, keys.rotate(idOrPrefix), json));
}

export function listKeys(context: Context, { json }: KeyOptions): Promise<ExitCode> {
  return withKnownKeys(context, (keys) => {
    const all = keys.list();
    if (json) printJson(context.io, all.map(jsonFrom));
    else if (all.length === 0) context.io.stderr.write("There are no keys yet: troupe keys create <name> makes one.\n");
    else context.io.stdout.write(formatTable(columns, all.map(rowFrom)));
  });
}

export function showKey(context: Context, idOrPrefix: string, { json }: KeyOptions): Promise<ExitCode> {
  return withKnownKeys(context, (keys) => showInfo(context, keys.show(idOrPrefix), json));
}

export function revokeKey(context: Context, idOrPrefix: string, { json }: KeyOptions): Promise<ExitCode> {
  return withKnownKeys(context, (keys) => showInfo(context, keys.revoke(idOrPrefix), json));
}

function withKnownKeys(context: Context, use: (keys: Keys) => void): Promise<ExitCode> {
  return withStore(context, (store, config) => use(keysIn(store, config)));
}

/** The key alone on stdout, so that a script can take it; what it is on stderr. */
function showNewKey({ io }: Context, { secret, key }: NewKey, json = false): void {
  if (json) printJson(io, { key: secret, ...jsonFrom(key) });
  else io.stdout.write(`${secret}\n`);
  io.stderr.write(`${key.id} (${key.name}, ${key.tier}). This is the only time that the key is shown.\n`);
}

function showInfo({ io }: Context, key: KeyInfo, json = false): void {
  if (json) printJson(io, jsonFrom(key));
  else io.stdout.write(formatFields(fieldsFrom(key)));
}

const fieldsFrom = (key: KeyInfo) => ({
  id: key.id,
  name: key.name,
  key: `${key.prefix}…`,
  state: key.state,
  tier: key.tier,
  "per minute": key.perMinute?.toString(),
  surfaces: key.surfaces.join(", "),
  models: key.models.join(", "),
  created: timeOf(key.createdAt),
  "last used": timeOf(key.lastUsedAt),
  expires: timeOf(key.expiresAt),
  revoked: timeOf(key.revokedAt),
});

const columns = ["id", "key", "name", "state", "tier", "per minute", "surfaces", "last used", "expires"];

const rowFrom = (key: KeyInfo) => [
  key.id,
  `${key.prefix}…`,
  key.name,
  key.state,
  key.tier,
  key.perMinute?.toString(),
  key.surfaces.join(","),
  timeOf(key.lastUsedAt),
  timeOf(key.expiresAt),
];

const jsonFrom = (key: KeyInfo) => ({
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  state: key.state,
  tier: key.tier,
  per_minute: key.perMinute ?? null,
  surfaces: key.surfaces,
  models: key.models,
  created_at: timeOf(key.createdAt),
  last_used_at: timeOf(key.lastUsedAt) ?? null,
  expires_at: timeOf(key.expiresAt) ?? null,
  revoked_at: timeOf(key.revokedAt) ?? null,
});

const timeOf = (ms: number | undefined) =>
  ms === undefined ? undefined : `${new Date(ms).toISOString().slice(0, 19)}Z`;
