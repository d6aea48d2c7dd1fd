/** The names of the surfaces. */
import type { ServedSurface, SurfaceName } from "./config.ts";

/** What a listener or a key has where nothing else is said. */
export const modelSurfaces = ["orchestrator", "gateway"] as const satisfies readonly SurfaceName[];
export const surfaceNames = [...modelSurfaces, "admin"] as const satisfies readonly ServedSurface[];
