import type { SurfaceName } from "../config/config.ts";

/** The gateway moves below `/gateway` where it shares a listener; nothing else knows of it. */
export function baseOf(surface: SurfaceName, sharing: readonly SurfaceName[]): string {
  return surface === "gateway" && sharing.length > 1 ? "/gateway" : "";
}
