/** Judges what a call names of a provider's own store: its answers' items, by whose they are, and what was cached there, by the key's right. */
import type { Caller } from "../auth/keys.ts";
import type { SurfaceName } from "../config/config.ts";
import { truncate } from "../lib/truncate.ts";
import { refuseDoubledWithin } from "../protocols/doubled-names.ts";
import { ApiError } from "../protocols/errors.ts";
import { generateContent } from "../protocols/generate-content/generate-content.ts";
import type { Protocol } from "../protocols/protocol.ts";
import type { Source } from "../protocols/source.ts";
import type { Target } from "../upstream/target.ts";
import { holderOf } from "./conversation.ts";
import { inClientsPlace } from "./own-places.ts";
import type { Services } from "./services.ts";

/** What was cached may be as long as a model can read: https://ai.google.dev/gemini-api/docs/long-context */
const cachedTokens = 1_000_000;
const cacheNames = ["cachedContent", "cached_content"];

/**
 * @returns how many bytes, or tokens, the named things stand for
 * @throws ApiError surface_not_allowed, invalid_value or storage_unavailable
 */
export function namedUpstream(
  services: Services,
  caller: Caller,
  surface: SurfaceName,
  protocol: Protocol,
  targets: readonly Target[],
  source: Source,
): number | Promise<number> {
  if (protocol.upstreamItems === undefined && !mayNameCached(source, targets)) return 0;
  return foundUpstream(services, caller, surface, protocol, targets, source);
}

function mayNameCached({ parsed }: Source, targets: readonly Target[]): boolean {
  for (const name of cacheNames) {
    if (parsed[name] != null) return true;
    for (const { call } of targets) if (call.extras[name] != null) return true;
  }
  return false;
}

async function foundUpstream(
  services: Services,
  caller: Caller,
  surface: SurfaceName,
  protocol: Protocol,
  targets: readonly Target[],
  source: Source,
): Promise<number> {
  const { parsed } = source;
  const speaks = (format: string) => (target: Target) =>
    target.provider.kind === "remote" && target.provider.native?.(format, target.call) !== undefined;
  const isCached = ({ call: { extras } }: Target) =>
    cacheNames.some((name) => parsed[name] != null || extras[name] != null);
  const cached = targets.some((target) => isCached(target) && speaks(generateContent.name)(target)) ? cachedTokens : 0;
  if (cached > 0 && !caller.surfaces.has("raw")) {
    const place = cacheNames.find((name) => parsed[name] != null) ?? "cached_content";
    throw inClientsPlace(ApiError.surfaceNotAllowed("raw", place));
  }
  if (protocol.upstreamItems === undefined || !targets.some(speaks(protocol.name))) return cached;
  refuseDoubledWithin(source);
  const named = protocol.upstreamItems(parsed);
  if (named.length === 0) return cached;
  return cached + (await itemBytes(services, caller, surface, protocol, named));
}

async function itemBytes(
  { conversations }: Services,
  caller: Caller,
  surface: SurfaceName,
  { name }: Protocol,
  named: readonly { readonly id: string; readonly answer: string | undefined; readonly path: string }[],
): Promise<number> {
  const holder = holderOf(caller, surface);
  let sum = 0;
  for (const { id, answer, path } of named) {
    const bytes = await conversations.itemBytes(holder, id, answer, name);
    if (bytes === undefined) {
      const message = `${path}: no item '${truncate(id)}' is kept here; send the item itself.`;
      throw inClientsPlace(ApiError.invalidValue(path, message));
    }
    sum += bytes;
  }
  return sum;
}
