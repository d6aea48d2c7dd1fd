/** What is shown of a key, and the list of all keys as it was read last. */
import type { Key } from "../api/keys.ts";
import type { KeyState } from "../api/words.ts";
import type { KeySurface } from "../config/surfaces.ts";
import { isoTime } from "../lib/time/clock.ts";
import type { KeyRepository, KeyRow } from "../store/contract/store.ts";
import type { KeySpec } from "./key-spec.ts";
import { KnownKeys } from "./known-keys.ts";

/** All that is known about a key but the key itself. Times are Unix milliseconds. */
export type KeyInfo = KeySpec & {
  readonly id: string;
  /** The key's first characters. */
  readonly prefix: string;
  readonly state: KeyState;
  readonly surfaces: readonly KeySurface[];
  readonly models: readonly string[];
  readonly tags: readonly string[];
  readonly createdAt: number;
  /** To the minute. */
  readonly lastUsedAt?: number;
  readonly revokedAt?: number;
  /** Until when the secret before the last rotation is taken too, where it is. */
  readonly oldSecretUntil?: number;
};

/** @param lastUsedAt 0: never */
export function infoOf(row: KeyRow, lastUsedAt: number, now: number): KeyInfo {
  const state = stateOf(row, now);
  return {
    id: row.id,
    name: row.name,
    prefix: row.prefix,
    state,
    tier: row.tier,
    ...(row.perMinute === null ? {} : { perMinute: row.perMinute }),
    ...(row.tokensPerMinute === null ? {} : { tokensPerMinute: row.tokensPerMinute }),
    surfaces: JSON.parse(row.surfaces) as KeySurface[],
    models: JSON.parse(row.models) as string[],
    tags: JSON.parse(row.tags) as string[],
    createdAt: row.createdAt,
    ...(row.expiresAt === null ? {} : { expiresAt: row.expiresAt }),
    ...(lastUsedAt === 0 ? {} : { lastUsedAt }),
    ...(row.revokedAt === null ? {} : { revokedAt: row.revokedAt }),
    ...(state === "active" && (row.oldUntil ?? 0) > now && { oldSecretUntil: row.oldUntil! }),
  };
}

const stateOf = ({ revokedAt, expiresAt }: KeyRow, now: number): KeyState =>
  revokedAt !== null ? "revoked" : expiresAt !== null && expiresAt <= now ? "expired" : "active";

/** The fields of a key that the CLI and the admin API show. Never the key itself; times as `--expires` takes them back. */
export const keyFields = (key: KeyInfo): Omit<Key, "object"> => ({
  id: key.id,
  name: key.name,
  prefix: key.prefix,
  state: key.state,
  tier: key.tier,
  per_minute: key.perMinute ?? null,
  tokens_per_minute: key.tokensPerMinute ?? null,
  surfaces: key.surfaces,
  models: key.models,
  tags: key.tags,
  created_at: isoTime(key.createdAt),
  last_used_at: isoTime(key.lastUsedAt),
  expires_at: isoTime(key.expiresAt),
  revoked_at: isoTime(key.revokedAt),
  old_key_expires_at: isoTime(key.oldSecretUntil),
});

/** Ways to sort keys; those without a value are last, and keys of one value stand the newest first. */
export const keyOrders = ["created_at", "last_used_at", "expires_at", "name"] as const;
type Order = (typeof keyOrders)[number];
type SortedBy = `${Order} ${"asc" | "desc"}`;

export type KeyQuery = {
  readonly sort: Order;
  readonly order: "asc" | "desc";
  readonly state?: KeyState | undefined;
  readonly tier?: string | undefined;
  readonly surface?: KeySurface | undefined;
  readonly tag?: string | undefined;
  /** A part of the name. */
  readonly name?: string | undefined;
  /** A part of the name or of a tag in any case, or the beginning of the id or of the key. */
  readonly search?: string | undefined;
};

/** A key as it is looked for. */
type Listed = {
  readonly id: string;
  readonly row: KeyRow;
  readonly surfaces: readonly string[];
  readonly tags: readonly string[];
  /** In small letters: the name, then the tags. */
  readonly words: readonly string[];
};

const listed = (row: KeyRow): Listed => {
  const tags = JSON.parse(row.tags) as string[];
  const words = [row.name, ...tags].map((word) => word.toLowerCase());
  return { id: row.id, row, surfaces: JSON.parse(row.surfaces) as string[], tags, words };
};

type Uses = ReadonlyMap<string, number>;

const values: Readonly<Record<Order, (key: Listed, uses: Uses) => string | number | null>> = {
  created_at: ({ row }) => row.createdAt,
  last_used_at: ({ id }, uses) => uses.get(id) ?? null,
  expires_at: ({ row }) => row.expiresAt,
  name: ({ words }) => words[0]!,
};

/** All keys, by what changed since they were read last; when they were last used is read each time. */
export class KeyList {
  readonly #rows: KeyRepository;
  readonly #known: KnownKeys<Listed>;
  #read: { readonly version: number; readonly all: readonly Listed[] } | undefined;
  readonly #sorted = new Map<SortedBy, readonly Listed[]>();

  constructor(rows: KeyRepository) {
    this.#rows = rows;
    this.#known = new KnownKeys(rows, listed);
  }

  /** @param here uses that are not written yet @throws StorageError */
  async found(query: KeyQuery, here: Uses, now: number): Promise<readonly Listed[]> {
    const { sort, order, state, tier, surface, tag, name, search } = query;
    const all = await this.#all();
    const isOfUse = sort === "last_used_at";
    const by: SortedBy = `${sort} ${order}`;
    const known = isOfUse ? undefined : this.#sorted.get(by);
    const sorted = known ?? sortedBy(all, query, isOfUse ? await this.#uses(here) : here);
    // Another reading may have been quicker.
    if (!isOfUse && this.#read?.all === all) this.#sorted.set(by, sorted);
    const searched = search?.toLowerCase();
    return sorted.filter(
      ({ id, row, surfaces, tags, words }) =>
        (state === undefined || stateOf(row, now) === state) &&
        (tier === undefined || row.tier === tier) &&
        (surface === undefined || surfaces.includes(surface)) &&
        (tag === undefined || tags.includes(tag)) &&
        (name === undefined || row.name.includes(name)) &&
        (search === undefined ||
          words.some((word) => word.includes(searched!)) ||
          id.startsWith(search) ||
          row.prefix.startsWith(search)),
    );
  }

  /** @throws StorageError */
  async shown(keys: readonly Listed[], here: Uses, now: number): Promise<KeyInfo[]> {
    const ids = keys.map(({ id }) => id);
    const uses = ids.length === 0 ? here : await this.#uses(here, ids);
    return keys.map(({ id, row }) => infoOf(row, uses.get(id) ?? 0, now));
  }

  /** @throws StorageError */
  async named(id: string, here: Uses, now: number): Promise<KeyInfo | undefined> {
    const key = (await this.#all()).find((one) => one.id === id);
    return key && (await this.shown([key], here, now))[0];
  }

  async #all(): Promise<readonly Listed[]> {
    await this.#rows.catchUp?.();
    // Asked before they are read: what changes in between is read the next time.
    const version = this.#rows.version();
    if (this.#read?.version === version) return this.#read.all;
    const take = await this.#known.read();
    if (take() === undefined) return this.#read!.all;
    const all = [...this.#known.made()].sort((a, b) => a.row.createdAt - b.row.createdAt || (a.id < b.id ? -1 : 1));
    this.#read = { version, all };
    this.#sorted.clear();
    return all;
  }

  async #uses(here: Uses, ids?: readonly string[]): Promise<Uses> {
    const uses = new Map(await this.#rows.lastUses(ids));
    for (const [id, at] of here) uses.set(id, Math.max(at, uses.get(id) ?? 0));
    return uses;
  }
}

/** @param keys by age */
function sortedBy(keys: readonly Listed[], { sort, order }: KeyQuery, uses: Uses): Listed[] {
  const sign = order === "asc" ? 1 : -1;
  return keys
    .toReversed()
    .map((key) => ({ key, value: values[sort](key, uses) }))
    .sort(({ value: a }, { value: b }) => {
      if (a === b) return 0;
      if (a === null || b === null) return a === null ? 1 : -1;
      return a < b ? -sign : sign;
    })
    .map(({ key }) => key);
}
