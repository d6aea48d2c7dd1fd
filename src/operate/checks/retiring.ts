/** Models that have ended, or end within six months, where personas and the configuration name them; and what else there is to say of such. */
import type { Config } from "../../config/config.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { announcedEnd, endState, endWords } from "../../facts/endings.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import type { Io } from "../../lib/process/io.ts";
import { type Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import type { Persona } from "../../personas/persona.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { readLists } from "../../upstream/model-lists.ts";

/** What reads the files of personas and configuration. */
export type FileReading = { readonly io: Pick<Io, "readFile"> };
type Configured = Pick<LoadedConfig, "config" | "file">;

/** Personas, and the files that they are read from. */
export type PersonaFiles = { readonly personas: readonly Persona[]; readonly paths: ReadonlyMap<string, string> };

/** Finds the day on which an account's model ends. */
type EndOf = (account: string, model: string) => string | undefined;

function endsOf({ providers, data }: Config): EndOf {
  const configured = new Map(providers.map((one) => [one.name, one]));
  const lists = readLists(data);
  return (account, model) => {
    const { dialect = account, baseUrl } = configured.get(account) ?? {};
    const list = lists.find((one) => one.provider === account && one.baseUrl === baseUrl);
    return list?.models.get(model)?.endsOn ?? announcedEnd(dialect, model);
  };
}

/** @returns a diagnostic at each place that names such a model */
export function retiringModels(
  context: FileReading,
  files: PersonaFiles,
  loaded: Configured,
  now: number,
): Diagnostic[] {
  const message = retirementWords(loaded.config, now);
  return [...retiringInConfiguration(context, loaded, message), ...retiringIn(context, files, message)];
}

/** @returns the same of personas alone */
export const retiringInPersonas = (
  context: FileReading,
  files: PersonaFiles,
  { config }: Pick<LoadedConfig, "config">,
  now: number,
) => retiringIn(context, files, retirementWords(config, now));

/** Finds words for models that have ended or will, by their ids. */
export function retirementWords(config: Config, now: number): RetiringMessage {
  const endOf = endsOf(config);
  return (id) => {
    const { namespace, name } = parseModelId(id) ?? {};
    const ends = namespace === undefined ? undefined : endOf(namespace, name!);
    if (ends === undefined || endState(ends, now) === "later") return undefined;
    return `'${id}' ${endWords(ends, now)}: name another model`;
  };
}

/** @param all the models among which it stands, in their order */
export type RetiringMessage = (id: string, all: readonly string[]) => string | undefined;

export function retiringInConfiguration(
  { io }: FileReading,
  { config, file }: Configured,
  message: RetiringMessage,
): Diagnostic[] {
  const named: [PathPart[], string, readonly string[]][] = [
    ...config.providers.flatMap(({ name, models }) =>
      models.map((model, at): [PathPart[], string, string[]] => [
        ["providers", name, "models", at],
        `${name}/${model}`,
        [],
      ]),
    ),
    ...Object.entries(config.aliases).flatMap(([alias, target]) =>
      typeof target === "string"
        ? [[["aliases", alias], target, []] as [PathPart[], string, string[]]]
        : target.models.map((model, at): [PathPart[], string, readonly string[]] => [
            ["aliases", alias, "models", at],
            model,
            target.models,
          ]),
    ),
  ];
  const found = named.flatMap(([path, id, all]) => {
    const text = message(id, all);
    return text === undefined ? [] : [{ path, text }];
  });
  if (found.length === 0) return [];
  // Variables name models where there is no file.
  if (file === undefined)
    return found.map(({ path, text }) => ({ file: "", line: 0, column: 0, path: formatPath(path), message: text }));
  const source = new YamlSource(io.readFile(file) ?? "", file);
  return found.map(({ path, text }) => source.diagnosticAt(path, text));
}

export function retiringIn(
  { io }: FileReading,
  { personas, paths }: PersonaFiles,
  message: RetiringMessage,
): Diagnostic[] {
  return personas.flatMap((persona) => {
    const path = paths.get(persona.id);
    if (path === undefined) return [];
    const { variants = [] } = persona;
    const places = [
      { within: [] as PathPart[], targets: persona.targets },
      ...variants.map(({ persona: { targets } }, at) => ({ within: ["variants", at], targets })),
    ];
    const found = places.flatMap(({ within, targets }) =>
      targets.flatMap((target, at) => {
        const text = message(target, targets);
        return text === undefined ? [] : [{ within, at, text }];
      }),
    );
    if (found.length === 0) return [];
    const source = new YamlSource(io.readFile(path) ?? "", path);
    return found.flatMap(({ within, at, text }) => {
      const place = [...within, "model"];
      const model = place.reduce<unknown>(
        (value, part) => (value as Record<PathPart, unknown> | undefined)?.[part],
        source.value,
      );
      // A variant without models of its own has the persona's.
      if (model === undefined) return [];
      return [source.diagnosticAt(Array.isArray(model) ? [...place, at] : place, text)];
    });
  });
}
