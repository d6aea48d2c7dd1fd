/** Looks at a Valkey or Redis server for `troupe check` and `troupe doctor`, and leaves nothing there. */
import type { Clock } from "../../lib/time/clock.ts";
import { StorageError } from "../contract/storage-error.ts";
import { RedisConnection } from "./connection.ts";

type RedisFound = {
  /** The server's address without user and password. */
  readonly place: string;
  /** Its name and version, as far as it says. */
  readonly server: string;
  /** Reasons, as sentences, why it is unfit to count limits. */
  readonly concerns: readonly string[];
};

const deadlineMs = 1_000;
/** The oldest release that windows are tried with. */
const oldestMajor = 7;

const noInfo = "Its user may not run INFO: an old copy of its data would be taken for what it was.";

/** @throws StorageError when it can't be asked, or not in time */
export async function inspectRedis(url: string, clock: Clock): Promise<RedisFound> {
  const connection = new RedisConnection(url, deadlineMs, clock);
  const { place } = connection;
  try {
    return { place, ...readInfo(String(await connection.run("INFO", []))) };
  } catch (error) {
    const { message } = error as Error;
    // It was reached, and its user may do all but this. Source: https://valkey.io/topics/acl/
    if (message.includes("(NOPERM)"))
      return { place, server: "a server that does not tell its version", concerns: [noInfo] };
    if (error instanceof StorageError) throw error;
    throw new StorageError("unusable", place, `The coordination ${place} refused: ${message}`, error);
  } finally {
    await connection.close();
  }
}

/**
 * Reads the server's answer to INFO. Valkey names itself, and as `redis_version` what it is compatible with.
 * Source: https://valkey.io/commands/info/
 */
export function readInfo(info: string): Omit<RedisFound, "place"> {
  const fields = new Map(info.split(/\r?\n/).map((line) => line.split(":", 2) as [string, string | undefined]));
  const redis = fields.get("redis_version");
  const valkey = fields.get("valkey_version");
  const policy = fields.get("maxmemory_policy") ?? "noeviction";
  const concerns = [
    ...(Number.parseInt(redis ?? "", 10) < oldestMajor ? [`It is older than version ${oldestMajor}.0.`] : []),
    ...(fields.get("role") === "slave" ? ["It is a replica, which takes no writes."] : []),
    ...(fields.get("cluster_enabled") === "1"
      ? ["It is in cluster mode, where a server has a part of the keys: name one that is not."]
      : []),
    ...(policy === "noeviction" ? [] : [`Its maxmemory-policy is ${policy}: a window that is evicted is forgotten.`]),
  ];
  return { server: valkey === undefined ? `Redis ${redis ?? "of unknown version"}` : `Valkey ${valkey}`, concerns };
}
