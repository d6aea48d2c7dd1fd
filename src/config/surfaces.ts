/** The names of the surfaces. */

/** The default of listeners and keys. */
export const modelSurfaces = ["orchestrator", "gateway"] as const;
export const surfaceNames = [...modelSurfaces, "admin"] as const;

/**
 * The permissions of keys: the surfaces; providers' own APIs below the gateway, and previews of personas, which no key has unless it is given.
 */
export const keySurfaces = [...surfaceNames, "raw", "preview"] as const;
export type KeySurface = (typeof keySurfaces)[number];
