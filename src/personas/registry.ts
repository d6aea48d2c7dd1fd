/** The personas in service: looked up without waiting, replaced all at once. */
import { versionOf } from "../lib/version-of.ts";
import { parseModelId } from "../protocols/model-id.ts";
import type { Model } from "../protocols/models.ts";
import { type Tier, tiers } from "../protocols/tiers.ts";
import type { Persona } from "./persona.ts";

type PersonaView = {
  find(id: string): Persona | undefined;
  /** All of them, in order of their ids. */
  list(): readonly Persona[];
};

/** A call keeps the persona it found: what replaces it later is for the next call. */
export class Personas implements PersonaView {
  #views: ReadonlyMap<Tier, PersonaView>;
  #version: string | undefined;

  constructor(all: readonly Persona[] = []) {
    this.#views = viewsOf(all);
  }

  find(id: string): Persona | undefined {
    return this.visibleTo("enterprise").find(id);
  }

  list(): readonly Persona[] {
    return this.visibleTo("enterprise").list();
  }

  /** The personas that a key of that tier may use; for it nothing else exists. */
  visibleTo(tier: Tier): PersonaView {
    return this.#views.get(tier)!;
  }

  replace(all: readonly Persona[]): void {
    this.#views = viewsOf(all);
    this.#version = undefined;
  }

  /** The version of all of them together. */
  get version(): string {
    this.#version ??= versionOf(
      this.list()
        .map(({ id, version }) => `${id}@${version}`)
        .join(),
    );
    return this.#version;
  }
}

function viewsOf(all: readonly Persona[]): ReadonlyMap<Tier, PersonaView> {
  const sorted = all.toSorted((a, b) => (a.id < b.id ? -1 : 1));
  return new Map(tiers.map((tier, rank) => [tier, viewOf(sorted.filter((one) => tiers.indexOf(one.tier) <= rank))]));
}

function viewOf(personas: readonly Persona[]): PersonaView {
  const byId = new Map(personas.map((persona) => [persona.id, persona]));
  return { find: (id) => byId.get(id), list: () => personas };
}

export function toModel({ id, created, ownedBy, description, tier, greeting, tags }: Persona): Model {
  const name = parseModelId(id)?.name ?? id;
  return {
    ...{ id, object: "model", created, owned_by: ownedBy, name, description, tier },
    ...(greeting !== undefined && { greeting }),
    ...(tags !== undefined && { tags: [...tags] }),
  };
}
