/** The personas in service: looked up without waiting, replaced all at once. */
import { versionOf } from "../../lib/text/version-of.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import type { Model } from "../../protocols/models.ts";
import { type Tier, tiers } from "../../protocols/tiers.ts";
import type { Persona } from "../persona.ts";
import { nameOf, noReferences, type PromptEntry, type References } from "./references.ts";

type PersonaView = {
  /** @param name an id, or one with a version or label: those in service, named by labels, or pinned lately */
  find(name: string): Persona | undefined;
  /** All of them, in order of their ids. */
  list(): readonly Persona[];
};

/** The most pinned versions in memory that are neither in service nor named by a label. */
const maxPinned = 1000;

/** A call keeps the persona it found: what replaces it later is for the next call. */
export class Personas implements PersonaView {
  #views: ReadonlyMap<Tier, PersonaView>;
  #references: References | undefined;
  #version: string | undefined;
  /** Loaded by calls, by their names; the one that was called last is the last. */
  readonly #pinned = new Map<string, Persona>();
  /** Pushed from working trees, by their names; the one that was looked up last is the last. */
  readonly #previews = new Map<string, { readonly revision: string; readonly persona: Persona }>();
  /** Those of the pinned that were called since `inUse`. */
  readonly #called = new Set<Persona>();

  readonly #change: (persona: Persona) => Persona;

  /** @param change of each persona before it is in service; not of earlier versions */
  constructor(all: readonly Persona[] = [], change = (persona: Persona) => persona) {
    this.#change = change;
    this.#views = this.#viewsOf(all, noReferences);
  }

  find(name: string): Persona | undefined {
    return this.visibleTo("enterprise").find(name);
  }

  list(): readonly Persona[] {
    return this.visibleTo("enterprise").list();
  }

  /** The personas that a key of that tier may use; for it nothing else exists. */
  visibleTo(tier: Tier): PersonaView {
    return this.#views.get(tier)!;
  }

  /** @param references absent: there is no folder that could have any */
  replace(all: readonly Persona[], references?: References): void {
    this.#views = this.#viewsOf(all.map(this.#change), references ?? noReferences);
    this.#references = references;
    this.#version = undefined;
  }

  /** Another one whenever they were replaced. */
  get edition(): object {
    return this.#views;
  }

  /** Adds a version that a call named, so that it is found. */
  pin(persona: Persona): void {
    const name = nameOf(persona);
    this.#pinned.delete(name);
    this.#pinned.set(name, persona);
    if (this.#pinned.size > maxPinned) this.#pinned.delete(this.#pinned.keys().next().value!);
  }

  /** Which push of a preview is found under its name. @returns undefined where none is in memory */
  previewed(name: string): string | undefined {
    return this.#previews.get(name)?.revision;
  }

  /** Lets a preview be found under its name, which is its id. */
  preview(persona: Persona, revision: string): void {
    this.#previews.delete(persona.id);
    this.#previews.set(persona.id, { revision, persona });
    if (this.#previews.size > maxPinned) this.#previews.delete(this.#previews.keys().next().value!);
  }

  dropPreview(name: string): void {
    this.#previews.delete(name);
  }

  /** Versions by label, `<id>@<label>`; undefined where there is no folder that could have any. */
  get labels(): ReadonlyMap<string, string> | undefined {
    return this.#references?.labels;
  }

  /** The prompt of an application that personas answer in its place. */
  prompt(id: string): PromptEntry | undefined {
    return this.#references?.prompts.get(id);
  }

  /** All that are in service, that labels or prompts name, or that were called by their pins since this was asked last. */
  inUse(): Persona[] {
    const all = [...this.list(), ...(this.#references?.personas.values() ?? []), ...this.#called];
    this.#called.clear();
    return all;
  }

  /** The version of all of them together. */
  get version(): string {
    const { labels, prompts } = this.#references ?? noReferences;
    const named = [...labels, ...[...prompts].map(([id, { versions }]) => [id, [...versions].sort()])].sort();
    const rest = named.length === 0 ? "" : JSON.stringify(named);
    this.#version ??= versionOf(`${this.list().map(nameOf).join()}${rest}`);
    return this.#version;
  }

  #viewsOf(all: readonly Persona[], { personas: named }: References): ReadonlyMap<Tier, PersonaView> {
    const sorted = all.toSorted((a, b) => (a.id < b.id ? -1 : 1));
    return new Map(
      tiers.map((tier, rank) => {
        const isVisible = (one: Persona) => tiers.indexOf(one.tier) <= rank;
        const list = sorted.filter(isVisible);
        const byName = new Map([
          ...list.flatMap((one) => [[one.id, one] as const, [nameOf(one), one] as const]),
          ...[...named].filter(([, one]) => isVisible(one)),
        ]);
        return [tier, { find: (name) => byName.get(name) ?? this.#findPinned(name, isVisible), list: () => list }];
      }),
    );
  }

  #findPinned(name: string, isVisible: (one: Persona) => boolean): Persona | undefined {
    const found = this.#pinned.get(name);
    if (found === undefined) {
      const preview = this.#previews.get(name)?.persona;
      return preview !== undefined && isVisible(preview) ? preview : undefined;
    }
    if (!isVisible(found)) return undefined;
    this.#called.add(found);
    return found;
  }
}

export function toModel({ id, created, ownedBy, description, tier, greeting, tags }: Persona): Model {
  const name = parseModelId(id)?.name ?? id;
  return {
    ...{ id, object: "model", created, owned_by: ownedBy, name, description, tier },
    ...(greeting !== undefined && { greeting }),
    ...(tags !== undefined && { tags: [...tags] }),
  };
}
