/** Checks the names in a request: models, by aliases too and beside its own `model`, and things of a provider's own store. A key may name nothing that it may not use. */
import { type Caller, mayUseModel } from "../../auth/keys.ts";
import type { KeySurface } from "../../config/surfaces.ts";
import type { KeyHolder } from "../../conversations/conversations.ts";
import { formatPath } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { refuseDoubledWithin } from "../../protocols/body/doubled-names.ts";
import type { Source } from "../../protocols/body/source.ts";
import { ApiError } from "../../protocols/errors.ts";
import { generateContent } from "../../protocols/generate-content/generate-content.ts";
import type { Protocol } from "../../protocols/protocol.ts";
import type { Target } from "../../upstream/target.ts";
import { keyHolderOf } from "../plan/conversation.ts";
import { isOwnModel, namesIn, plainModel, type Renamed } from "../read/body-names.ts";
import { inClientsPlace } from "../relay/errors.ts";
import type { Admitted } from "../scope.ts";
import type { Services } from "../services.ts";

/** @returns `<namespace>/<name>` of an alias; any other name as it is */
export function standsFor({ live }: Pick<Services, "live">, name: string): string {
  return live.aliases.find(name) ?? name;
}

/** A key is for a model by either of its names: who may use what an alias stands for may use the alias, and the other way round. */
export function mayUseNamed(caller: Caller, asked: string, meant: string): boolean {
  return mayUseModel(caller, asked) || (meant !== asked && mayUseModel(caller, meant));
}

/** Checks whether a key may use every model of the provider, so that nothing needs to be looked at. */
export function isFree({ models }: Caller, account: string): boolean {
  for (const glob of models) {
    if (glob === "*") return true;
    if (glob.indexOf("*") === glob.length - 1 && `${account}/`.startsWith(glob.slice(0, -1))) return true;
  }
  return false;
}

/**
 * @param permission what the key must have been given to name any
 * @param isRenamed the places that are named anew on their way up, beside the body's own `model`
 * @throws ApiError model_not_allowed, naming the place; invalid_value for what can be read in two ways
 */
export function checkNamedModels(
  caller: Caller,
  account: string,
  permission: KeySurface,
  source: Source,
  isRenamed: Renamed = isOwnModel,
): void {
  const isPermitted = caller.surfaces.has(permission);
  if (!isPermitted || !isFree(caller, account)) checkEachNamed(caller, account, isPermitted, source, isRenamed);
}

function checkEachNamed(
  caller: Caller,
  account: string,
  isPermitted: boolean,
  source: Source,
  isRenamed: Renamed,
): void {
  refuseDoubledWithin(source);
  for (const { name, path } of namesIn(source).models) {
    if (isOwnModel(path) || isRenamed(path)) continue;
    const id = `${account}/${plainModel(name)}`;
    if (!isPermitted || !mayUseModel(caller, id))
      throw inClientsPlace(ApiError.modelNotAllowed(name).at(formatPath(path)));
  }
}

/** Cached content may be as long as a model can read: https://ai.google.dev/gemini-api/docs/long-context */
const cachedTokens = 1_000_000;
const cacheNames = ["cachedContent", "cached_content"];

/** The size of what a call names in a provider's own store. */
export type KeptSize = { readonly bytes: number; readonly tokens: number };
export const nothingKept: KeptSize = { bytes: 0, tokens: 0 };

/** True where a call may name what is in a provider's own store, whose size `keptUpstream` finds. */
export const mayNameKept = ({ upstreamItems }: Protocol, targets: readonly Target[], source: Source): boolean =>
  upstreamItems !== undefined || namesCached(source, targets);

function namesCached({ parsed }: Source, targets: readonly Target[]): boolean {
  for (const name of cacheNames) {
    if (parsed[name] != null) return true;
    for (const { call } of targets) if (call.extras[name] != null) return true;
  }
  return false;
}

/** @throws ApiError surface_not_allowed, invalid_value or storage_unavailable */
export async function keptUpstream(
  { services, caller, surface }: Admitted,
  protocol: Protocol,
  targets: readonly Target[],
  source: Source,
): Promise<KeptSize> {
  const { parsed } = source;
  const routeOf = ({ provider, call }: Target, format: string) =>
    provider.kind === "remote" ? provider.native?.(format, call) : undefined;
  const speaking = targets.filter((target) => routeOf(target, generateContent.name) !== undefined);
  const tokens = speaking.length > 0 && namesCached(source, speaking) ? cachedTokens : 0;
  if (tokens > 0 && !caller.surfaces.has("raw")) {
    const place = cacheNames.find((name) => parsed[name] != null) ?? "cached_content";
    throw inClientsPlace(ApiError.surfaceNotAllowed("raw", place));
  }
  const mayKeep = targets.some((target) => {
    const route = routeOf(target, protocol.name);
    return route !== undefined && route.keepsNothing !== true;
  });
  if (protocol.upstreamItems === undefined || !mayKeep) return { bytes: 0, tokens };
  refuseDoubledWithin(source);
  const named = protocol.upstreamItems(parsed);
  return { bytes: await itemBytes(services, keyHolderOf(caller, surface.name), protocol, named), tokens };
}

async function itemBytes(
  { conversations }: Services,
  keyHolder: KeyHolder,
  { name }: Protocol,
  named: readonly { readonly id: string; readonly answer: string | undefined; readonly path: string }[],
): Promise<number> {
  let sum = 0;
  for (const { id, answer, path } of named) {
    const bytes = await conversations.itemBytes(keyHolder, id, answer, name);
    if (bytes === undefined) {
      const message = `${path}: no item '${truncate(id)}' is kept here; send the item itself.`;
      throw inClientsPlace(ApiError.invalidValue(path, message));
    }
    sum += bytes;
  }
  return sum;
}
