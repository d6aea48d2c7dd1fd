/** Runs Lua scripts by their hash; a server that was restarted does not know it, and is sent the script once more. */
import type { Arguments, RedisConnection } from "./connection.ts";

/** By the identity of the server where its connection knows it, see `RedisConnection`. */
type Keys = readonly string[] | ((server: string) => readonly string[]);
type RunScript = (script: string, keys: Keys, args: readonly (string | number)[]) => Promise<unknown>;

/** @param scripts all that will be run */
export function scriptsOn(connection: RedisConnection, scripts: readonly string[]): RunScript {
  const hashes = new Map(scripts.map((script) => [script, new Bun.CryptoHasher("sha1").update(script).digest("hex")]));
  return async (script, keys, args) => {
    const after = (first: string): Arguments => {
      const given = (names: readonly string[]) => [first, String(names.length), ...names, ...args.map(String)];
      return typeof keys === "function" ? (server) => given(keys(server)) : given(keys);
    };
    try {
      return await connection.run("EVALSHA", after(hashes.get(script)!));
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith("NOSCRIPT"))) throw error;
      return connection.run("EVAL", after(script));
    }
  };
}
