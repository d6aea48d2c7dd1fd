/** Who may call: API keys, looked up in memory, kept in the store. */
import { existsSync, readFileSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname } from "node:path";
import type { ServedSurface } from "../config/config.ts";
import { type KeySurface, modelSurfaces, surfaceNames } from "../config/surfaces.ts";
import { writePrivately } from "../lib/files/write-privately.ts";
import { globMatches, globReaches } from "../lib/text/glob.ts";
import type { Clock } from "../lib/time/clock.ts";
import { dayMs } from "../lib/time/duration.ts";
import type { Tier } from "../protocols/tiers.ts";
import { asFolderError, StorageError } from "../store/contract/storage-error.ts";
import type { KeyRepository, KeyRights, KeyRow } from "../store/contract/store.ts";
import { asUnavailable } from "../store/require-storage.ts";
import { maxGraceMs } from "./grace.ts";
import { infoOf, type KeyInfo, KeyList, type KeyQuery } from "./key-info.ts";
import { KeyError, matchKey } from "./key-lookup.ts";
import { hashOf, isWellFormed, newSecret, shownLength } from "./key-secret.ts";
import { checkSpec, type KeyChanges, type KeySpec } from "./key-spec.ts";
import { KnownKeys } from "./known-keys.ts";

/** The owner of a valid key, and what it may do. */
export type Caller = {
  readonly keyId: string;
  readonly name: string;
  readonly tier: Tier;
  /** Requests per minute on the orchestrator: the key's own number, else its tier's. */
  readonly perMinute: number;
  /** Only where the key itself names a number: what applies on the gateway. */
  readonly ownPerMinute: number | undefined;
  readonly surfaces: ReadonlySet<KeySurface>;
  /** True where its request was let in for previews of personas alone. */
  readonly onlyPreviews?: boolean;
  /** Globs over model ids. */
  readonly models: readonly string[];
  /** Names that its calls are counted under, beside the key itself. */
  readonly tags: readonly string[];
  /** Under which names its calls are counted. */
  readonly buckets: Readonly<Record<ServedSurface, string>>;
};

/** `secret` is shown once and kept nowhere. */
export type NewKey = { readonly secret: string; readonly key: KeyInfo };

/** @param modelId `<namespace>/<name>` */
export function mayUseModel(caller: Caller, modelId: string): boolean {
  for (const glob of caller.models) if (globMatches(glob, modelId)) return true;
  return false;
}

/** Checks whether any model of that provider may be used. */
export function mayUseProvider(caller: Caller, provider: string): boolean {
  return caller.models.some((glob) => globReaches(glob, `${provider}/`));
}

type Known = { readonly caller: Caller; readonly expiresAt: number };

/** What calls may use of a key: of a revoked one nothing. */
type Usable = {
  readonly id: string;
  /** By the hash of its secret, and of the one before it. */
  readonly byHash: readonly (readonly [hash: string, known: Known])[];
  readonly tokensPerMinute: number | null;
};

const touchEveryMs = 60_000;

export class Keys {
  readonly #rows: KeyRepository;
  readonly #list: KeyList;
  readonly #clock: Clock;
  readonly #tiers: { readonly free: number; readonly pro: number };
  readonly #usable: KnownKeys<Usable>;
  /** By hash; what can't be used any more is not here. */
  readonly #known = new Map<string, Known>();
  readonly #tokenLimits = new Map<string, number>();
  #version = -1;
  /** Read together with the keys, as one version covers both. */
  beside: (() => Promise<void>) | undefined;
  /** The latest reading of the keys, and the version that it began at. */
  #loading: { readonly version: number; readonly done: Promise<void> } | undefined;
  /** Whether a change of keys could not be read: what is known of them is older. */
  areOld = false;
  readonly #uses = new Map<string, number>();
  #cancelTouch: (() => void) | undefined;

  /** Knows no key before `load`. @param tiers requests per minute of the plans that have a fixed number */
  constructor(rows: KeyRepository, clock: Clock, tiers: { readonly free: number; readonly pro: number }) {
    this.#rows = rows;
    this.#list = new KeyList(rows);
    this.#usable = new KnownKeys(rows, (row) => this.#usableFrom(row));
    this.#clock = clock;
    this.#tiers = tiers;
  }

  /** Ids of the keys that may be used. */
  get ids(): string[] {
    return [...new Set([...this.#known.values()].map(({ caller }) => caller.keyId))];
  }

  /** Reads the keys that changed since they were read last. @throws StorageError */
  async load(): Promise<void> {
    // Asked before the keys are read: a change in between is then noticed by the next call.
    const version = this.#rows.version();
    const take = await this.#usable.read();
    await this.beside?.();
    const changes = take();
    if (changes === undefined) return;
    for (const { id, byHash } of changes.gone) {
      for (const [hash] of byHash) this.#known.delete(hash);
      this.#tokenLimits.delete(id);
    }
    for (const { id, byHash, tokensPerMinute } of changes.made) {
      for (const [hash, known] of byHash) this.#known.set(hash, known);
      if (tokensPerMinute !== null) this.#tokenLimits.set(id, tokensPerMinute);
    }
    this.#version = version;
  }

  /**
   * To be awaited before `find`: a change by any process counts from the next call on. Where the store can't say whether there is one, who
   * was let in before still is, and /health reports it.
   * @throws ApiError storage_unavailable once that has gone on for too long, where the configuration says how long it may
   */
  async refresh(): Promise<void> {
    try {
      const version = this.#rows.version();
      if (version === this.#version) return;
      if (this.#loading?.version !== version) this.#loading = { version, done: this.#tryLoading() };
      await this.#loading.done;
    } catch (error) {
      if (error instanceof StorageError && error.kind === "outdated") throw asUnavailable(error);
    }
  }

  /**
   * To be awaited where a key is not known: another node may have made it a moment ago.
   * @returns whether the key may be new still, as the store can't be asked
   */
  async catchUp(secret: string | undefined): Promise<boolean> {
    if (secret === undefined || this.#rows.catchUp === undefined || !isWellFormed(secret)) return this.mayBeNew(secret);
    try {
      await this.#rows.catchUp();
    } catch (error) {
      if (error instanceof StorageError) return true;
      throw error;
    }
    await this.refresh();
    return this.#rows.version() !== this.#version;
  }

  /** True where keys are let in by what is known of them. */
  get areTrusted(): boolean {
    try {
      this.#rows.version();
      return true;
    } catch {
      return false;
    }
  }

  async #tryLoading(): Promise<void> {
    try {
      await this.load();
      this.areOld = false;
    } catch {
      this.areOld = true;
      this.#loading = undefined;
    }
  }

  /**
   * @param secret as the caller gave it
   * @returns undefined for a missing, malformed, unknown, expired or revoked key
   */
  find(secret: string | undefined): Caller | undefined {
    if (secret === undefined) return undefined;
    // Looked up by hash: how long that takes says nothing about a key, so no comparison needs constant time.
    const known = this.#known.get(hashOf(secret));
    const now = this.#clock.now();
    if (known === undefined || known.expiresAt <= now) return undefined;
    this.#noteUse(known.caller.keyId, now);
    return known.caller;
  }

  /** The same, where the secret's hash alone is known; it does not count as used. */
  withHash(hash: string): Caller | undefined {
    const known = this.#known.get(hash);
    return known === undefined || known.expiresAt <= this.#clock.now() ? undefined : known.caller;
  }

  /** Checks whether a key that is not known may be one of those that were changed since keys were last read. */
  mayBeNew(secret: string | undefined): boolean {
    return secret !== undefined && isWellFormed(secret) && this.areTrusted && this.#rows.version() !== this.#version;
  }

  /** The token limit of a key that can be used; undefined: no limit. */
  tokensPerMinute(keyId: string): number | undefined {
    return this.#tokenLimits.get(keyId);
  }

  /** @throws KeySpecError, StorageError */
  async create(spec: KeySpec): Promise<NewKey> {
    const { secret, row } = this.#newRow(spec);
    await this.#rows.insert(row);
    return { secret, key: this.#info(row) };
  }

  /** By time of birth. @throws StorageError */
  async list(): Promise<KeyInfo[]> {
    return (await this.#rows.list()).map((row) => this.#info(row));
  }

  /** Their names by their ids. @throws StorageError */
  async names(): Promise<Map<string, string>> {
    return new Map((await this.#rows.list()).map(({ id, name }) => [id, name]));
  }

  /** Keys that fit, for `shown`. @throws StorageError */
  found(query: KeyQuery) {
    return this.#list.found(query, this.#uses, this.#clock.now());
  }

  /** @throws StorageError */
  shown(keys: Awaited<ReturnType<Keys["found"]>>): Promise<KeyInfo[]> {
    return this.#list.shown(keys, this.#uses, this.#clock.now());
  }

  /** @throws StorageError */
  named(id: string): Promise<KeyInfo | undefined> {
    return this.#list.named(id, this.#uses, this.#clock.now());
  }

  /**
   * @param given an id, a unique name, a whole key, or the beginning of an id or of a key
   * @throws KeyError when it fits none or several, StorageError
   */
  async match(given: string): Promise<{ readonly key: KeyInfo; readonly isVague: boolean }> {
    const { row, isVague } = matchKey(await this.#rows.list(), given);
    return { key: this.#info(row), isVague };
  }

  /** @param given as `match` takes it. @throws KeyError, StorageError */
  async show(given: string): Promise<KeyInfo> {
    return (await this.match(given)).key;
  }

  /** From the next request on the key is refused, in every process. @param given as `match` takes it. @throws KeyError, StorageError */
  async revoke(given: string): Promise<KeyInfo> {
    const { id } = await this.show(given);
    if (!(await this.#rows.revoke(id, this.#clock.now()))) throw new KeyError(`The key '${id}' was revoked before.`);
    return this.show(id);
  }

  /**
   * Changes a key, from the next request on. What is not named stays as it is.
   * @param given as `match` takes it. @throws KeyError, KeySpecError, StorageError
   */
  async update(given: string, changes: KeyChanges): Promise<KeyInfo> {
    const before = await this.show(given);
    checkSpec(changed(before, changes), this.#clock.now(), changes);
    if (!(await this.#rows.update(before.id, rightsFrom(changes)))) {
      throw new KeyError(`The key '${before.id}' is revoked; make a new one.`);
    }
    return this.show(before.id);
  }

  /**
   * A new secret for the same key; the old one is refused from the next request on, or once its grace is over. One that was older
   * still is refused at once.
   * @param given as `match` takes it. @param graceMs at most `maxGraceMs` @throws KeyError, StorageError
   */
  async rotate(given: string, graceMs = 0): Promise<NewKey> {
    if (!(graceMs >= 0 && graceMs <= maxGraceMs)) throw new KeyError(`A grace is at most ${maxGraceMs / dayMs} days.`);
    const { id, hash, revokedAt } = matchKey(await this.#rows.list(), given).row;
    if (revokedAt !== null) throw new KeyError(`The key '${id}' is revoked; make a new one.`);
    const secret = newSecret();
    const oldUntil = graceMs === 0 ? null : this.#clock.now() + graceMs;
    if (!(await this.#rows.replaceSecret(id, hash, secret.slice(0, shownLength), hashOf(secret), oldUntil))) {
      throw new KeyError(`The key '${id}' was revoked or rotated meanwhile.`);
    }
    return { secret, key: await this.show(id) };
  }

  /**
   * If there has never been a key, makes one of the pro plan for every surface and writes it to `file`, readable by this user only. It stands
   * beside it before the key is made, and in its place once the key is kept: so a file there always names a key.
   * One of several processes that start at once makes them.
   * @returns undefined when there are keys
   * @throws StorageError; then there is no key
   */
  async ensureFirstKey(file: string): Promise<NewKey | undefined> {
    const { secret, row } = this.#newRow({ name: "first", tier: "pro", surfaces: surfaceNames });
    const unfinished = `${file}.new`;
    try {
      const made = await this.#rows.insertFirst(row, () => {
        assertPlaceable(file);
        writePrivately(unfinished, `${secret}\n`);
      });
      if (existsSync(unfinished)) await this.#finishFirstKey(unfinished, file);
      return made ? { secret, key: this.#info(row) } : undefined;
    } catch (error) {
      throw asFolderError(error, dirname(file), file);
    }
  }

  /** Removes files of whatever process; one that was stopped before its key was kept leaves a file that names none. */
  async #finishFirstKey(unfinished: string, file: string): Promise<void> {
    try {
      const hash = hashOf(readFileSync(unfinished, "utf8").trim());
      if ((await this.#rows.list()).some((row) => row.hash === hash)) renameSync(unfinished, file);
      else rmSync(unfinished, { force: true });
    } catch (error) {
      // Another process that starts has done it.
      if ((error as { code?: string }).code !== "ENOENT") throw error;
    }
  }

  /** Writes when keys were last used. Happens by itself once a minute. @throws StorageError; then nothing is forgotten */
  async flush(): Promise<void> {
    this.#cancelTouch?.();
    this.#cancelTouch = undefined;
    if (this.#uses.size === 0) return;
    const written = new Map(this.#uses);
    await this.#rows.touch(written);
    for (const [id, at] of written) if (this.#uses.get(id) === at) this.#uses.delete(id);
  }

  #usableFrom(row: KeyRow): Usable {
    const { id, hash, oldHash, oldUntil, tokensPerMinute } = row;
    if (row.revokedAt !== null) return { id, byHash: [], tokensPerMinute: null };
    const known = this.#knownFrom(row);
    const byHash: [string, Known][] = [[hash, known]];
    if (oldHash !== null && oldUntil !== null)
      byHash.unshift([oldHash, { ...known, expiresAt: Math.min(known.expiresAt, oldUntil) }]);
    return { id, byHash, tokensPerMinute };
  }

  #knownFrom(row: KeyRow): Known {
    const ownPerMinute = row.perMinute ?? undefined;
    const caller: Caller = {
      keyId: row.id,
      name: row.name,
      tier: row.tier,
      perMinute: ownPerMinute ?? (row.tier === "free" ? this.#tiers.free : this.#tiers.pro),
      ownPerMinute,
      surfaces: new Set(JSON.parse(row.surfaces) as KeySurface[]),
      models: JSON.parse(row.models) as string[],
      tags: JSON.parse(row.tags) as string[],
      buckets: { orchestrator: `orchestrator ${row.id}`, gateway: `gateway ${row.id}`, admin: `admin ${row.id}` },
    };
    return { caller, expiresAt: row.expiresAt ?? Number.POSITIVE_INFINITY };
  }

  /** Notes that the key was used in another way than by its secret. */
  noteUse(keyId: string): void {
    this.#noteUse(keyId, this.#clock.now());
  }

  #noteUse(keyId: string, now: number): void {
    this.#uses.set(keyId, now);
    // Unwritten uses are kept, and tried again with the next one.
    this.#cancelTouch ??= this.#clock.setTimer(touchEveryMs, () => void this.flush().catch(() => {}));
  }

  #newRow(spec: KeySpec): NewKeyRow {
    const now = this.#clock.now();
    checkSpec(spec, now);
    const secret = newSecret();
    const row: KeyRow = {
      id: `key_${this.#clock.newId()}`,
      name: spec.name,
      prefix: secret.slice(0, shownLength),
      hash: hashOf(secret),
      tier: spec.tier,
      perMinute: spec.perMinute ?? null,
      tokensPerMinute: spec.tokensPerMinute ?? null,
      surfaces: listed(spec.surfaces ?? modelSurfaces),
      models: JSON.stringify(spec.models ?? ["*"]),
      tags: listed(spec.tags ?? []),
      createdAt: now,
      expiresAt: spec.expiresAt ?? null,
      lastUsedAt: null,
      revokedAt: null,
      oldHash: null,
      oldUntil: null,
    };
    return { secret, row };
  }

  #info(row: KeyRow): KeyInfo {
    return infoOf(row, Math.max(row.lastUsedAt ?? 0, this.#uses.get(row.id) ?? 0), this.#clock.now());
  }
}

type NewKeyRow = { readonly secret: string; readonly row: KeyRow };

const listed = (names: readonly string[]) => JSON.stringify([...new Set(names)]);

/** The changes as the store takes them. */
function rightsFrom({ surfaces, models, tags, ...rest }: KeyChanges): Partial<KeyRights> {
  return {
    ...rest,
    ...(surfaces && { surfaces: listed(surfaces) }),
    ...(models && { models: JSON.stringify(models) }),
    ...(tags && { tags: listed(tags) }),
  };
}

function changed(key: KeyInfo, changes: KeyChanges): KeySpec {
  const all = Object.entries({ ...key, ...changes }).filter(([, value]) => value !== null);
  return Object.fromEntries(all) as unknown as KeySpec;
}

/** @throws StorageError when a folder has the place of the file */
export function assertPlaceable(file: string): void {
  if (statSync(file, { throwIfNoEntry: false })?.isDirectory() !== true) return;
  throw new StorageError("unusable", file, `${file} is a folder, where the first key is to be written: move it away.`);
}
