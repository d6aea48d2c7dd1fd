/** By which surface a call of the playground goes, and the services it is made with. */
import { standsFor } from "../../call/admit/named.ts";
import { gateway } from "../../call/plan/gateway.ts";
import { orchestrator } from "../../call/plan/orchestrator.ts";
import type { Services } from "../../call/services.ts";
import type { Surface } from "../../call/surface.ts";
import { splitReference } from "../../personas/versions/references.ts";
import type { Personas } from "../../personas/versions/registry.ts";
import { parseModelId } from "../../protocols/model-id.ts";

/** The orchestrator for personas, and for names among them that none has; else the gateway, whose error names the providers. */
export function surfaceOf({ live, personas }: Services, model: unknown): Surface {
  if (typeof model !== "string") return gateway;
  const meant = standsFor({ live }, model);
  const id = splitReference(meant)?.id ?? meant;
  if (personas.find(meant) !== undefined || personas.find(id) !== undefined) return orchestrator;
  const { namespace } = parseModelId(id) ?? {};
  if (namespace === undefined || live.accounts.find(namespace) !== undefined) return gateway;
  // A version may be kept of a persona whose file is gone.
  return id !== meant || personas.list().some((one) => one.id.startsWith(`${namespace}/`)) ? orchestrator : gateway;
}

/** The same services, with personas of every tier: who may change what a persona says may ask it too. */
export function servicesForAll(services: Services): Services {
  const { personas } = services;
  const all: Personas = Object.create(personas, {
    visibleTo: { value: () => personas.visibleTo("enterprise") },
    labels: { get: () => personas.labels },
    prompt: { value: (id: string) => personas.prompt(id) },
  });
  return Object.create(services, { personas: { value: all } }) as Services;
}
