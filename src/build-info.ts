/** The version of this executable; `build.ts` compiles the values in. */
declare const TROUPE_VERSION: string | undefined;
declare const TROUPE_COMMIT: string | undefined;
declare const TROUPE_BUILT_AT: string | undefined;
declare const TROUPE_FACTS_KEYS: string | undefined;

import manifest from "../package.json" with { type: "json" };

export const buildInfo = {
  name: "troupe",
  version: typeof TROUPE_VERSION === "string" ? TROUPE_VERSION : manifest.version,
  commit: typeof TROUPE_COMMIT === "string" ? TROUPE_COMMIT : "unknown",
  /** RFC 3339; when running from source there was no build. */
  builtAt: typeof TROUPE_BUILT_AT === "string" ? TROUPE_BUILT_AT : "unknown",
  runtime: `bun ${Bun.version}`,
} as const;

const { name, version, commit, builtAt, runtime } = buildInfo;

/** Line that `troupe version` prints. */
export const versionLine = `${name} ${version} (commit ${commit}, built ${builtAt}, ${runtime})`;

export type BuildInfo = typeof buildInfo;

/** Ed25519 public keys (raw, in Base64) by which newer facts are proved; none where the build was given none. */
export const factsKeys: readonly string[] =
  typeof TROUPE_FACTS_KEYS === "string" ? TROUPE_FACTS_KEYS.split(/[\s,]+/).filter((key) => key !== "") : [];
