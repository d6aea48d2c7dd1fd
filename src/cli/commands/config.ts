/** `troupe config`: the configuration in force, with the origin of each value. */
import { join, resolve } from "node:path";
import { configJsonSchema } from "../../config/schema.ts";
import { type Context, type ExitCode, withConfig } from "../context.ts";
import { placeFiles } from "../personas/place-files.ts";
import { printJson } from "../print/print-json.ts";

export function printConfig(context: Context, { json }: { readonly json?: boolean }): Promise<ExitCode> {
  return withConfig(context, async (_, loaded) => {
    // Imported late: it loads the YAML library.
    const { configJson, printConfig: formatConfig } = await import("../../config/print.ts");
    if (json) printJson(context.io, configJson(loaded));
    else context.io.stdout.write(formatConfig(loaded));
    return 0;
  });
}

export function printConfigSchema({ io }: Context): ExitCode {
  printJson(io, configJsonSchema());
  return 0;
}

const schemaName = "troupe.schema.json";

/** A file to begin with: it changes nothing, and an editor that opens it knows every key. */
const firstFile = `# yaml-language-server: $schema=${schemaName}
# Every key with its default: docs/settings.md. 'troupe check' says what is wrong, 'troupe config print' what applies.
listen: 127.0.0.1:8080

# Built-in providers need no entry: a key in their usual variable (OPENAI_API_KEY ...) sets them up.
# providers:
#   mycorp: { dialect: openai, base_url: https://llm.example.com/v1, api_key: "\${MYCORP_API_KEY}" }

# Names without a slash, as coding agents ask for them.
# aliases:
#   gpt-*: openai/gpt-*

# budgets:
#   all: { month: 100 }
`;

/** Writes `troupe.yaml` into the current folder, and its schema beside it. @throws CommandError where there is one already */
export function initConfig({ io }: Context, { force }: { readonly force?: boolean }): ExitCode {
  const path = resolve(io.cwd, "troupe.yaml");
  placeFiles([{ path, content: firstFile }], force === true);
  const schema = `${JSON.stringify(configJsonSchema(), null, 2)}\n`;
  placeFiles([{ path: join(io.cwd, schemaName), content: schema }], true);
  io.stdout.write(`${path}: written, with ${schemaName} for editors. Start with: troupe serve\n`);
  return 0;
}
