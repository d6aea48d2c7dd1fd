/** Names of providers and MCP servers that there are not, in personas, aliases and keys: most likely misspelt. */

import { modelsOf } from "../../config/aliases.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { globMatches } from "../../lib/text/glob.ts";
import { suggest } from "../../lib/text/suggest.ts";
import { type Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import type { Persona } from "../../personas/persona.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";
import type { FileReading, PersonaFiles } from "./retiring.ts";

type Configured = Pick<LoadedConfig, "config" | "origins">;

/** Names of providers that are built in or stand in the configuration, set up or not. */
function knownProviders({ config, origins }: Configured): ReadonlySet<string> {
  const inFile = [...origins.keys()].flatMap((path) => /^providers\.([\w-]+)$/.exec(path)?.[1] ?? []);
  return new Set([...providers.map(({ name }) => name), ...config.providers.map(({ name }) => name), ...inFile]);
}

function explained(name: string, known: Iterable<string>): string {
  const guess = suggest(name, [...known]);
  return `'${name}' is no provider${guess === undefined ? ", neither built in nor in the configuration" : `; did you mean '${guess}'?`}`;
}

/** @returns an error at each model whose provider there is not, and at each MCP server that is not configured, unless it is optional */
export function unknownInPersonas(
  { io }: FileReading,
  { personas, paths }: PersonaFiles,
  loaded: Configured,
): Diagnostic[] {
  const known = knownProviders(loaded);
  const lostOf = ({ targets }: Persona) =>
    targets.flatMap((target, at) => {
      const name = parseModelId(target)?.namespace;
      return name === undefined || known.has(name) ? [] : [{ name, at }];
    });
  const lostServersOf = ({ mcp = [] }: Persona) =>
    mcp.flatMap(({ server: name, optional }, at) =>
      optional === true || Object.hasOwn(loaded.config.mcpServers, name) ? [] : [{ name, at }],
    );
  return personas.flatMap((persona) => {
    const { id, variants = [] } = persona;
    const placeOf = (within: readonly PathPart[], one: Persona) => ({
      within,
      lost: lostOf(one),
      servers: lostServersOf(one),
    });
    const places = [placeOf([], persona), ...variants.map((variant, at) => placeOf(["variants", at], variant.persona))];
    const path = paths.get(id);
    if (places.every(({ lost, servers }) => lost.length + servers.length === 0) || path === undefined) return [];
    const source = new YamlSource(io.readFile(path) ?? "", path);
    const ofServers = places.flatMap(({ within, servers }) =>
      servers.flatMap(({ name, at }) => {
        const place = [...within, "mcp", at, "server"];
        if (valueAt(source.value, place) === undefined) return [];
        return [source.diagnosticAt(place, `'${name}' is not among the configuration's mcp_servers`)];
      }),
    );
    const ofModels = places.flatMap(({ within, lost }) => {
      const model = valueAt(source.value, [...within, "model"]);
      // A variant without models of its own has the persona's.
      if (model === undefined) return [];
      const pathOf = (at: number) => [...within, "model", ...(Array.isArray(model) ? [at] : [])];
      return lost.map(({ name, at }) => source.diagnosticAt(pathOf(at), explained(name, known)));
    });
    return [...ofModels, ...ofServers];
  });
}

const valueAt = (value: unknown, path: readonly PathPart[]): unknown =>
  path.reduce<unknown>((found, part) => (found as Record<PathPart, unknown> | null | undefined)?.[part], value);

/** Aliases that lead nowhere: to no provider and no persona at all, or to a provider that is not set up. */
export function lostAliases(
  personas: readonly Persona[],
  loaded: Configured,
): { errors: string[]; warnings: string[] } {
  const { aliases, providers: configured } = loaded.config;
  const known = knownProviders(loaded);
  const isSetUp = (name: string) =>
    configured.some((one) => one.name === name) || providers.some((one) => one.kind === "local" && one.name === name);
  const errors: string[] = [];
  const warnings: string[] = [];
  const targets = Object.entries(aliases).flatMap(([alias, one]) =>
    modelsOf(one).map((target) => [alias, target] as const),
  );
  for (const [alias, target] of targets) {
    const name = parseModelId(target)?.namespace ?? "";
    if (isSetUp(name) || personas.some(({ id }) => globMatches(target, id))) continue;
    const at = loaded.origins.get(formatPath(["aliases", alias]))?.name ?? "";
    const place = `${at === "" ? "" : `${at}: `}aliases.${alias}: '${target}'`;
    if (known.has(name)) warnings.push(`${place} is no persona, and has no provider that is set up`);
    else {
      const ids = personas.map(({ id }) => id);
      const provider = suggest(name, [...known]);
      const guess = suggest(target, ids) ?? (provider && provider + target.slice(name.length));
      errors.push(
        `${place} is neither a persona nor a provider's model${guess === undefined ? "" : `; did you mean '${guess}'?`}`,
      );
    }
  }
  return { errors, warnings };
}
