/** Models that personas and the configuration name, of providers that are set up: those in use before any call. */
import { modelsOf } from "../../config/aliases.ts";
import type { Config } from "../../config/config.ts";
import type { Persona } from "../../personas/persona.ts";
import { formatModelId, parseModelId } from "../../protocols/model-id.ts";
import { providerNames } from "./reachable.ts";

/** @returns each once, as `<provider>/<model>` */
export function namedModels(personas: readonly Persona[], config: Config): string[] {
  const names = providerNames(config);
  const all = [
    ...config.providers.flatMap(({ name, models }) =>
      models.map((model) => formatModelId({ namespace: name, name: model })),
    ),
    ...Object.values(config.aliases).flatMap(modelsOf),
    ...personas.flatMap(({ targets, variants = [] }) =>
      [targets, ...variants.map(({ persona }) => persona.targets)].flat(),
    ),
  ];
  // An alias with a glob names no model.
  return [...new Set(all)].filter((id) => !id.includes("*") && names.has(parseModelId(id)?.namespace ?? ""));
}
