/** The names of the surfaces. */
import type { ServedSurface, SurfaceName } from "./config.ts";

/** What a listener or a key has where nothing else is said. */
export const modelSurfaces = ["orchestrator", "gateway"] as const satisfies readonly SurfaceName[];
export const surfaceNames = [...modelSurfaces, "admin"] as const satisfies readonly ServedSurface[];

/** What a key may be given: the surfaces, and providers' own APIs below the gateway, which no key has unless it is given. */
export const keySurfaces = [...surfaceNames, "raw"] as const;
export type KeySurface = (typeof keySurfaces)[number];
