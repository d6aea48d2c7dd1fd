/** The names of the surfaces. */
import type { ServedSurface, SurfaceName } from "./config.ts";

/** The default of listeners and keys. */
export const modelSurfaces = ["orchestrator", "gateway"] as const satisfies readonly SurfaceName[];
export const surfaceNames = [...modelSurfaces, "admin"] as const satisfies readonly ServedSurface[];

/** The permissions of keys: the surfaces, and providers' own APIs below the gateway, which no key has unless it is given. */
export const keySurfaces = [...surfaceNames, "raw"] as const;
export type KeySurface = (typeof keySurfaces)[number];
