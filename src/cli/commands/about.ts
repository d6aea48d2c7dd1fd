/** `troupe version` and `troupe openapi`. */
import { buildInfo, versionLine } from "../../build-info.ts";
import { surfaceNames } from "../../config/surfaces.ts";
import type { Context, ExitCode } from "../context.ts";
import { printJson } from "../print/print-json.ts";

const { name, version, commit, builtAt, runtime } = buildInfo;

export function printVersion({ io }: Context, { json }: { readonly json?: boolean }): ExitCode {
  if (json) printJson(io, { name, version, api_version: "v1", commit, built_at: builtAt, runtime });
  else io.stdout.write(`${versionLine}\n`);
  return 0;
}

export async function printOpenApi({ io }: Context): Promise<ExitCode> {
  const { openApiDocument } = await import("../../http/app.ts");
  const { adminRoutes } = await import("../../admin/routes.ts");
  printJson(io, await openApiDocument(surfaceNames, adminRoutes));
  return 0;
}
