/** `troupe personas show`: a persona's file, as it is or resolved, or what it comes to. */
import type { Config } from "../../config/config.ts";
import { builtinPersonas, builtinText } from "../../personas/builtin.ts";
import { writePersonaYaml } from "../../personas/file/persona-yaml.ts";
import type { PersonaContent } from "../../personas/file/schema.ts";
import { contentOf, type Persona, personaFrom } from "../../personas/persona.ts";
import { splitReference } from "../../personas/versions/references.ts";
import { withStore } from "../commands/storage.ts";
import { CommandError, type Context, type ExitCode, keyless, printDiagnostics, withConfig } from "../context.ts";
import { loadPersonas, summaryOf, unknownPersona } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { versionFinder } from "./versions.ts";

type ShowOptions = { readonly json?: boolean; readonly resolved?: boolean };

/**
 * The file as it is, so that it can be the beginning of another; resolved, with what it includes in place; as JSON, what it comes to.
 * @param name the persona's id, alone or with a version or a label, which are read from the store
 */
export function showPersona(context: Context, name: string, options: ShowOptions): Promise<ExitCode> {
  if (splitReference(name) !== undefined)
    return withStore(context, async (store, config) => {
      const { find } = await versionFinder(context, config, store);
      const { id, content, source } = await find(name);
      print(context, config, personaFrom(content, id), options, () => source ?? writePersonaYaml(content));
    });
  return withConfig(
    context,
    async (config) => {
      const { personas, errors, from, paths } = await loadPersonas(context, config.personas);
      const served = personas.find((one) => one.id === name);
      const persona = served ?? builtinPersonas().find((one) => one.id === name);
      if (persona === undefined) {
        printDiagnostics(context.io, errors);
        throw unknownPersona(name, { personas, from });
      }
      print(context, config, persona, options, () => textOf(context, name, paths.get(name)));
      if (served === undefined)
        context.io.stderr.write(`It is in the executable, and not served: ${from} takes its place.\n`);
      return 0;
    },
    keyless,
  );
}

/** @param text gives its file */
function print(
  { io }: Pick<Context, "io">,
  config: Config,
  persona: Persona,
  { json, resolved }: ShowOptions,
  text: () => string,
): void {
  if (json) printJson(io, detailsOf(persona, config));
  else if (resolved) io.stdout.write(writePersonaYaml(JSON.parse(contentOf(persona)) as PersonaContent));
  else io.stdout.write(text());
}

function detailsOf(persona: Persona, config: Config) {
  return {
    ...summaryOf(persona, config),
    owned_by: persona.ownedBy,
    created: persona.created,
    models: persona.targets,
    variables: Object.fromEntries(persona.variables),
    defaults: persona.defaults,
    limits: persona.limits,
    options: persona.options,
    tools: persona.tools.map((tool) => tool.function.name),
    ...(persona.mcp !== undefined && { mcp: persona.mcp }),
  };
}

function textOf({ io }: Context, id: string, path: string | undefined): string {
  if (path === undefined) return builtinText(id);
  const text = io.readFile(path);
  if (text === undefined) throw new CommandError(`${path} is gone.`);
  return text;
}
