/** `troupe config`: the configuration in force, with the origin of each value. */
import { configJsonSchema } from "../config/schema.ts";
import { type Context, type ExitCode, withConfig } from "./context.ts";
import { printJson } from "./print-json.ts";

export function printConfig(context: Context, { json }: { readonly json?: boolean }): Promise<ExitCode> {
  return withConfig(context, async (_, loaded) => {
    // Imported late: it loads the YAML library.
    const { configJson, printConfig: formatConfig } = await import("../config/print.ts");
    if (json) printJson(context.io, configJson(loaded));
    else context.io.stdout.write(formatConfig(loaded));
    return 0;
  });
}

export function printConfigSchema({ io }: Context): ExitCode {
  printJson(io, configJsonSchema());
  return 0;
}
