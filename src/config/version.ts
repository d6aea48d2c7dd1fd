/** The version of a configuration, by which nodes compare what they serve. */
import { canonical } from "../lib/json/canonical.ts";
import { versionOf } from "../lib/text/version-of.ts";
import { fileFrom } from "./as-file.ts";
import type { Config } from "./config.ts";

/** Settings that each node may have its own of. */
const ownToNodes = ["listen", "data", "store", "coordination", "personas", "workers", "log"];

/** It is asked for whenever somebody looks at a node's health; a configuration never changes. */
const known = new WeakMap<Config, string>();

/**
 * @returns what stands for all that nodes should have in common. Secrets are not in it: a version is
 * shown to anybody
 */
export function configVersion(config: Config): string {
  const found = known.get(config);
  if (found !== undefined) return found;
  const shared = { ...fileFrom(config) };
  for (const name of ownToNodes) delete shared[name];
  // By whichever address: those without count windows apart from those with.
  if (config.coordination !== undefined) shared["coordination"] = true;
  const version = versionOf(canonical(shared));
  known.set(config, version);
  return version;
}
