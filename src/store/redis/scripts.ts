/** Runs Lua scripts by their hash; a server that was restarted does not know it, and is sent the script once more. */
import type { RedisConnection } from "./connection.ts";

export type RunScript = (
  script: string,
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<unknown>;

/** @param scripts all that will be run */
export function scriptsOn(connection: RedisConnection, scripts: readonly string[]): RunScript {
  const hashes = new Map(scripts.map((script) => [script, new Bun.CryptoHasher("sha1").update(script).digest("hex")]));
  return async (script, keys, args) => {
    const hash = hashes.get(script)!;
    const rest = [String(keys.length), ...keys, ...args.map(String)];
    try {
      return await connection.run("EVALSHA", [hash, ...rest]);
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return connection.run("EVAL", [script, ...rest]);
    }
  };
}
