/** Sessions of people who signed in with a key: the browser has a cookie, and the store its hash. */
import type { Clock } from "../lib/time/clock.ts";
import { hourMs } from "../lib/time/duration.ts";
import type { SessionRepository, SessionRow } from "../store/contract/sessions.ts";
import { hashOf } from "./key-secret.ts";
import type { Caller, Keys } from "./keys.ts";

/** A session that nobody uses for so long has ended. */
const sessionIdleMs = hourMs;
/** However much it is used, a session ends so long after its sign-in. */
export const sessionMaxMs = 12 * hourMs;
/** A key has so many at once: one more ends its oldest. */
export const sessionsPerKey = 20;
/** Time between two writes of when one was last used. */
const touchEveryMs = 60_000;
/** Most that are read for a list; the newest. */
const maxListed = 10_000;

/** What sessions stand on. */
type Parts = { readonly store: { readonly sessions: SessionRepository }; readonly keys: Keys; readonly clock: Clock };

/** A session that counts, and the owner of its key. */
export type Session = { readonly row: SessionRow; readonly caller: Caller };

/** @returns until when it lasts if it is not used any more */
export const sessionEnd = ({ usedAt, endsAt }: SessionRow): number => Math.min(endsAt, usedAt + sessionIdleMs);

const secretBytes = 32;
const secretForm = /^[\w-]{43}$/;

/** Where one signs in: to the console with a key that has `admin`, to `/account` with any. */
export type SignInPage = "console" | "account";

const ownerOf = (keys: Keys, keyHash: string, page: SignInPage): Caller | undefined => {
  const caller = keys.withHash(keyHash);
  return page === "account" || caller?.surfaces.has("admin") === true ? caller : undefined;
};

/**
 * Begins a session of a key. The key's oldest sessions end where it has too many.
 * @param key as it was given, known to be good @returns the cookie's value too, which is kept nowhere. Rejects with StorageError
 */
export async function beginSession(
  { store, clock }: Parts,
  { caller, key, userAgent }: { readonly caller: Caller; readonly key: string; readonly userAgent: string | null },
): Promise<{ readonly secret: string; readonly row: SessionRow }> {
  const secret = crypto
    .getRandomValues(new Uint8Array(secretBytes))
    .toBase64({ alphabet: "base64url", omitPadding: true });
  const now = clock.now();
  const row: SessionRow = {
    id: `ses_${clock.newId()}`,
    hash: hashOf(secret),
    key: caller.keyId,
    keyHash: hashOf(key),
    client: browserName(userAgent),
    createdAt: now,
    usedAt: now,
    endsAt: now + sessionMaxMs,
  };
  await store.sessions.removeEnded(now, now - sessionIdleMs);
  await store.sessions.insert(row);
  await store.sessions.removeBeyond(row.key, sessionsPerKey);
  return { secret, row };
}

/**
 * The session of a cookie.
 * @param secret the cookie's value
 * @param isUse whether a person asks, from when it then lasts anew; false for what a page asks by itself
 * @param page whose sessions count here
 * @returns undefined where it has ended, be it with its key, or there never was one. Rejects with StorageError
 */
export async function findSession(
  parts: Parts,
  secret: string,
  isUse: boolean,
  page: SignInPage = "console",
): Promise<Session | undefined> {
  if (!secretForm.test(secret)) return undefined;
  const found = await lookUp(parts, hashOf(secret), page);
  if (found === undefined || !isUse) return found;
  const { row, caller } = found;
  const { store, clock } = parts;
  const now = clock.now();
  parts.keys.noteUse(caller.keyId);
  if (now - row.usedAt < touchEveryMs) return { row, caller };
  // One that can't be noted is noted by the next request.
  await store.sessions.touch(row.id, now).catch(() => {});
  return { row: { ...row, usedAt: now }, caller };
}

/** Checks whether the session of that hash counts, which is no use of it. Rejects with StorageError */
export const sessionCounts = async (parts: Parts, hash: string): Promise<boolean> =>
  (await lookUp(parts, hash, "console")) !== undefined;

async function lookUp({ store, keys, clock }: Parts, hash: string, page: SignInPage): Promise<Session | undefined> {
  const row = await store.sessions.find(hash);
  if (row === undefined || sessionEnd(row) <= clock.now()) return undefined;
  const caller = ownerOf(keys, row.keyHash, page);
  return caller && { row, caller };
}

/** Those that count, of the console and of `/account`, the newest first. Rejects with StorageError */
export async function listSessions({ store, keys, clock }: Parts): Promise<Session[]> {
  const now = clock.now();
  return (await store.sessions.list(maxListed)).flatMap((row) => {
    const caller = sessionEnd(row) <= now ? undefined : ownerOf(keys, row.keyHash, "account");
    return caller === undefined ? [] : [{ row, caller }];
  });
}

/** In the order in which they are looked for, as most name several others too. */
const browsers = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
] as const;
const systems = [
  ["Windows", "Windows"],
  ["Android", "Android"],
  ["iPhone", "iPhone"],
  ["iPad", "iPad"],
  ["Mac OS", "macOS"],
  ["CrOS", "ChromeOS"],
  ["Linux", "Linux"],
] as const;

/** @returns `Firefox on Linux`; for other programs the first product of their user agent; "unknown" */
export function browserName(userAgent: string | null): string {
  const agent = (userAgent ?? "").slice(0, 512);
  const nameIn = (names: readonly (readonly [string, string])[]) => names.find(([sign]) => agent.includes(sign))?.[1];
  const browser = nameIn(browsers);
  const system = nameIn(systems);
  if (browser !== undefined) return system === undefined ? browser : `${browser} on ${system}`;
  const [product = ""] = agent.split(/[\s(]/, 1);
  return product.replace(/[^\w./@+-]/g, "").slice(0, 40) || "unknown";
}
