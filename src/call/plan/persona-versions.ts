/**
 * Keeps the versions of personas that are in service, so that a pin answers when its file is gone, and records moves of labels. Everything
 * is written beside the calls; a pin that is not in memory is read once.
 */

import type { Logger } from "../../lib/process/log.ts";
import { type Clock, repeat } from "../../lib/time/clock.ts";
import { nextSlice } from "../../lib/time/cooperative-scheduling.ts";
import { hourMs } from "../../lib/time/duration.ts";
import type { PersonaContent } from "../../personas/file/schema.ts";
import { contentOf, hasContent, type Persona, personaFrom, sourceOf } from "../../personas/persona.ts";
import { isVersion, nameOf, splitReference } from "../../personas/versions/references.ts";
import type { Personas } from "../../personas/versions/registry.ts";
import { auditRow } from "../../store/contract/audit.ts";
import type { PersonaVersionRepository, PersonaVersionRow } from "../../store/contract/persona-versions.ts";
import type { PreviewRepository } from "../../store/contract/previews.ts";
import { needsStorage } from "../../store/require-storage.ts";
import { preparePreview } from "./previews.ts";

/** Interval at which versions count as used, while they are in service, named by a label or called by their pins. */
const touchEveryMs = hourMs;
/** Until it is tried again, after the store was away. */
const retryMs = 60_000;
/** In the audit: the labels of a folder are moved by whoever writes its file. */
const fileActor = "file:labels.yaml";

type Options = {
  readonly versions: PersonaVersionRepository;
  readonly personas: Personas;
  readonly previews: PreviewRepository;
  readonly clock: Clock;
  readonly log: Logger;
};

export class PersonaVersions {
  readonly #options: Options;
  #running: Promise<void> = Promise.resolve();
  #isQueued = false;
  /** What was in service when it was asked to be kept: it may be out of it when its turn comes, and calls were answered by it. */
  readonly #due = new Map<string, Persona>();
  readonly #stopTouching: () => void;
  #cancelRetry = () => {};
  #isClosed = false;

  constructor(options: Options) {
    this.#options = options;
    this.#stopTouching = repeat(options.clock, touchEveryMs, () => void this.record());
  }

  /** Loads versions that may no longer be in service. @throws StorageError */
  async load(names: readonly string[]): Promise<Map<string, Persona>> {
    const { versions } = this.#options;
    const found = new Map<string, Persona>();
    for (const name of names) {
      const row = await versions.get(name);
      if (row !== undefined) found.set(name, personaOf(row));
    }
    return found;
  }

  /**
   * Makes a pinned version, or a preview, ready to be found, where it is not in memory. A call that names none pays nothing but this look.
   * @param model the model's name @throws ApiError storage_unavailable
   */
  async prepare(model: string): Promise<void> {
    if (!model.includes("@")) return;
    const { personas, versions } = this.#options;
    const reference = splitReference(model)?.reference ?? "";
    if (!isVersion(reference)) return await preparePreview(this.#options, model);
    if (personas.find(model) !== undefined) return;
    const row = await needsStorage(() => versions.get(model));
    if (row !== undefined) personas.pin(personaOf(row));
  }

  /** Keeps what is in service, and notes that it is used; in turn, so that each sees what the one before it wrote. */
  record(): Promise<void> {
    if (this.#isClosed) return this.#running;
    for (const persona of this.#options.personas.inUse()) this.#due.set(nameOf(persona), persona);
    if (this.#isQueued) return this.#running;
    this.#isQueued = true;
    this.#running = this.#running.then(async () => {
      this.#isQueued = false;
      if (this.#isClosed) return;
      try {
        await this.#keep();
        await this.#moveLabels();
      } catch (error) {
        if (this.#isClosed) return;
        this.#options.log.warn("versions of personas could not be kept; it is tried again", { error });
        this.#cancelRetry();
        this.#cancelRetry = this.#options.clock.setTimer(retryMs, () => void this.record());
      }
    });
    return this.#running;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#stopTouching();
    this.#cancelRetry();
    await this.#running;
  }

  async #keep(): Promise<void> {
    const { versions, clock } = this.#options;
    const now = clock.now();
    const due = [...this.#due];
    const known = new Set(await versions.known(due.map(([id]) => id)));
    for (const [id, persona] of due) {
      if (this.#isClosed) return;
      if (!known.has(id) && hasContent(persona)) {
        // A folder may be rewritten whole, and a data folder's statements take no turn of the event loop.
        await nextSlice();
        await versions.keep(rowOf(persona, now));
      }
      if (this.#due.get(id) === persona) this.#due.delete(id);
    }
    await versions.touch([...known], now);
  }

  async #moveLabels(): Promise<void> {
    const { versions, personas, clock, log } = this.#options;
    // Where the personas are those in the executable there is no file that could have moved any.
    if (personas.labels === undefined) return;
    const kept = new Map((await versions.labels()).map((one) => [`${one.persona}@${one.label}`, one]));
    const lineOf = (subject: string, before?: string, after?: string) =>
      auditRow(clock, fileActor, { act: "persona.label", subject, before, after });
    for (const [name, version] of personas.labels) {
      const before = kept.get(name)?.version;
      if (before === version) continue;
      const { id: persona, reference: label } = splitReference(name)!;
      const moved = { persona, label, version, movedAt: clock.now() };
      if (await versions.moveLabel(moved, before ?? null, lineOf(name, before, version)))
        log.info("a label was moved", { label: name, before: before ?? null, after: version });
    }
    for (const [name, one] of kept) {
      if (personas.labels.has(name)) continue;
      if (await versions.removeLabel(one, lineOf(name, one.version)))
        log.info("a label was removed", { label: name, before: one.version });
    }
  }
}

/** A kept version as it answered. */
const personaOf = ({ persona, content }: PersonaVersionRow): Persona =>
  personaFrom(JSON.parse(content) as PersonaContent, persona);

function rowOf(persona: Persona, now: number): PersonaVersionRow {
  const content = contentOf(persona);
  const { id, version } = persona;
  const source = sourceOf(persona) ?? null;
  return { id: nameOf(persona), persona: id, version, createdAt: now, usedAt: now, content, source };
}
