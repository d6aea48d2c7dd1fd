/** `troupe version` and `troupe openapi`. */
import { buildInfo } from "../build-info.ts";
import { surfaceNames } from "../config/schema.ts";
import { type Context, type ExitCode, printJson } from "./context.ts";

const { name, version, commit, builtAt, runtime } = buildInfo;

export const versionLine = `${name} ${version} (commit ${commit}, built ${builtAt}, ${runtime})`;

export function printVersion({ io }: Context, { json }: { readonly json?: boolean }): ExitCode {
  if (json) printJson(io, { name, version, api_version: "v1", commit, built_at: builtAt, runtime });
  else io.stdout.write(`${versionLine}\n`);
  return 0;
}

export async function printOpenApi({ io }: Context): Promise<ExitCode> {
  const { openApiDocument } = await import("../http/openapi/openapi.ts");
  const { adminRoutes } = await import("../admin/routes.ts");
  printJson(io, await openApiDocument(surfaceNames, adminRoutes));
  return 0;
}
