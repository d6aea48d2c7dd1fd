/** Personas none of whose models can be asked. */
import type { Config } from "../../config/config.ts";
import type { Persona } from "../../personas/persona.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";

export const noProvider = "none of its models has a provider that is set up";

/** Ids of those who can't answer as things are. */
export function unreachable(personas: readonly Persona[], config: Config): string[] {
  const answering = ({ variants, ...persona }: Persona) =>
    variants?.filter(({ weight }) => weight > 0).map((one) => one.persona) ?? [persona];
  return personas
    .filter((one) => answering(one).some((each) => modelInUse(each, config) === undefined))
    .map(({ id }) => id);
}

/** Names of providers that are set up, or compiled in. */
export function providerNames(config: Config): ReadonlySet<string> {
  const local = providers.flatMap(({ kind, name }) => (kind === "local" ? name : []));
  return new Set([...local, ...config.providers.map(({ name }) => name)]);
}

/** The first of its models whose provider is set up. */
export function modelInUse({ targets }: Persona, config: Config): string | undefined {
  const names = providerNames(config);
  return targets.find((target) => names.has(parseModelId(target)?.namespace ?? ""));
}
