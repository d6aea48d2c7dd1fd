/**
 * Previews of personas: what a working tree was pushed as, called as `<persona>@<label>` until it ends. They are in the store alone, so that
 * all nodes agree and a start reads none; a call that names one asks for its latest push, and any other call does not come here.
 */
import type { Caller } from "../../auth/keys.ts";
import { mayUseModel } from "../../auth/keys.ts";
import type { Config } from "../../config/config.ts";
import type { Logger } from "../../lib/process/log.ts";
import { few } from "../../lib/text/few.ts";
import { type Clock, isoTime } from "../../lib/time/clock.ts";
import { personaFileWith } from "../../personas/file/schema.ts";
import type { Persona } from "../../personas/persona.ts";
import {
  keptPersona,
  keptText,
  type PreviewUpload,
  previewName,
  uploadedPersonas,
} from "../../personas/review/previews.ts";
import { isLabel, labelName } from "../../personas/versions/labels.ts";
import { nameOf, splitReference } from "../../personas/versions/references.ts";
import type { Personas } from "../../personas/versions/registry.ts";
import { ApiError } from "../../protocols/errors.ts";
import { tiers } from "../../protocols/tiers.ts";
import { optionSchemas } from "../../providers/options.ts";
import { providers } from "../../providers/registry.ts";
import { auditRow } from "../../store/audit.ts";
import type { PersonaVersionRepository } from "../../store/persona-versions.ts";
import type { PreviewInfo, PreviewPersona, PreviewRepository } from "../../store/previews.ts";
import { needsStorage } from "../../store/require-storage.ts";

export const dayMs = 86_400_000;

type Options = {
  readonly store: PreviewRepository;
  readonly versions: Pick<PersonaVersionRepository, "labels">;
  readonly personas: Personas;
  readonly rules: () => Config["previews"];
  readonly clock: Clock;
  readonly log: Logger;
};

/** A preview as lists show it. */
export type Preview = Omit<PreviewInfo, "personas"> & { readonly personas: readonly PreviewPersona[] };

export class Previews {
  readonly #options: Options;
  #schema: ReturnType<typeof personaFileWith> | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  /**
   * Makes the latest push of a preview ready to be found, or what has ended not to be.
   * @param name `<persona>@<label>` @returns undefined where it names none @throws ApiError storage_unavailable, or rejects with it
   */
  prepare(name: string): Promise<void> | undefined {
    const { id, reference: label = "" } = splitReference(name) ?? {};
    if (id === undefined || !isLabel(label) || this.#options.personas.labels?.has(name)) return undefined;
    return needsStorage(() => this.#load(name, id, label));
  }

  async #load(name: string, id: string, label: string): Promise<void> {
    const { store, personas, clock } = this.#options;
    const now = clock.now();
    const revision = await store.revision(label, now);
    if (revision !== undefined && revision === personas.previewed(name)) return;
    const row = revision === undefined ? undefined : await store.get(label, now);
    const persona = row && keptPersona(row.content, id, label);
    if (persona === undefined) personas.dropPreview(name);
    else personas.preview(persona, row!.revision);
  }

  /**
   * Keeps an upload whole, in place of the label's one before.
   * @param days until its end; absent: as many as the configuration says
   * @throws ApiError invalid_value, model_not_allowed, label_in_use, too_many_previews, request_too_large or storage_unavailable
   */
  async push(caller: Caller, label: string, upload: PreviewUpload, days?: number): Promise<Preview> {
    const { store, clock, log } = this.#options;
    const { days: most, max, maxBytes } = this.#options.rules();
    assertLabel(label);
    if (days !== undefined && days > most)
      throw ApiError.invalidValue("days", `days must be at most ${most}, as previews.days says here.`);
    this.#schema ??= personaFileWith(optionSchemas(providers));
    const personas = uploadedPersonas(upload, this.#schema);
    for (const [at, persona] of personas.entries()) assertAllowed(caller, persona, label, `personas[${at}].id`);
    await this.#assertFree(personas, label);
    const content = keptText(upload);
    const bytes = Buffer.byteLength(content);
    if (bytes > maxBytes) throw ApiError.previewTooLarge(bytes, maxBytes);
    const now = clock.now();
    const before = await this.#before(caller, label);
    const pushed = personas.map(({ id, version }) => ({ id, version }));
    const info = { label, revision: clock.newId(), key: caller.keyId, keyName: caller.name, bytes };
    const times = { pushedAt: now, endsAt: now + (days ?? most) * dayMs };
    const after = { ...idsOf(pushed), ends_at: isoTime(times.endsAt) };
    const line = auditRow(clock, caller.keyId, {
      act: "preview.push",
      subject: label,
      ...(before && { before: idsOf(before.personas) }),
      after,
    });
    const row = { ...info, ...times, personas: JSON.stringify(pushed), content };
    if (!(await needsStorage(() => store.put(row, max, line)))) throw ApiError.tooManyPreviews(max);
    log.info("a preview of personas was pushed", { label, key: caller.keyId, personas: pushed.length, bytes });
    return { ...info, ...times, personas: pushed };
  }

  /** Those that a caller may see: whose personas it may use; absent: all. */
  async list(caller?: Caller): Promise<Preview[]> {
    const { store, clock } = this.#options;
    const rows = (await needsStorage(() => store.list(clock.now()))).map(previewOf);
    return caller === undefined ? rows : rows.filter((one) => mayPreview(caller, one));
  }

  /** @param actor in the audit @param caller absent: it may drop any @throws ApiError not_found, model_not_allowed */
  async drop(actor: string, label: string, caller?: Caller): Promise<Preview> {
    const { store, clock, log } = this.#options;
    const missing = () => ApiError.notFound(`No preview has the label '${label}'.`, "label");
    if (!isLabel(label)) throw missing();
    const before = await this.#before(caller, label);
    if (before === undefined) throw missing();
    const line = auditRow(clock, actor, { act: "preview.drop", subject: label, before: idsOf(before.personas) });
    if (!(await needsStorage(() => store.drop(label, clock.now(), line)))) throw missing();
    log.info("a preview of personas was dropped", { label, actor });
    return before;
  }

  /** The preview that is there now. @throws ApiError model_not_allowed where the caller may not touch it */
  async #before(caller: Caller | undefined, label: string): Promise<Preview | undefined> {
    const found = (await this.list()).find((one) => one.label === label);
    if (found !== undefined && caller !== undefined && !mayPreview(caller, found))
      throw notAllowed(
        `The preview '${label}' has personas that this API key may not use: another key pushed it.`,
        "label",
      );
    return found;
  }

  /** @throws ApiError label_in_use where a folder's label has the name of one, in service here or on another node */
  async #assertFree(personas: readonly Persona[], label: string): Promise<void> {
    const { versions, personas: served } = this.#options;
    const kept = (await needsStorage(() => versions.labels())).map((one) => previewName(one.persona, one.label));
    const taken = new Set([...kept, ...(served.labels?.keys() ?? [])]);
    const used = personas.map(({ id }) => previewName(id, label)).filter((name) => taken.has(name));
    if (used.length > 0)
      throw ApiError.labelInUse(
        `${few(used)} ${used.length === 1 ? "is a label" : "are labels"} of labels.yaml already: push under another one.`,
      );
  }
}

export const notAllowed = ApiError.previewNotAllowed;

export const previewOf = ({ personas, ...row }: PreviewInfo): Preview => ({ ...row, personas: JSON.parse(personas) });

/** In the audit. */
export const idsOf = (personas: readonly PreviewPersona[]) => ({
  personas: personas.slice(0, 20).map(nameOf),
  count: personas.length,
});

export const mayUse = (caller: Caller, id: string, label: string) =>
  mayUseModel(caller, id) || mayUseModel(caller, previewName(id, label));

export const mayPreview = (caller: Caller, { personas, label }: Preview): boolean =>
  personas.every(({ id }) => mayUse(caller, id, label));

/** @throws ApiError invalid_value */
export function assertLabel(label: string): void {
  if (!isLabel(label)) throw ApiError.invalidValue("label", `A label ${labelName.message}.`);
}

/** @throws ApiError model_not_allowed */
function assertAllowed(caller: Caller, { id, tier }: Persona, label: string, place: string): void {
  if (!mayUse(caller, id, label)) throw notAllowed(`This API key may not use ${id}, and so may not preview it.`, place);
  if (tiers.indexOf(tier) > tiers.indexOf(caller.tier))
    throw notAllowed(
      `${id} is of the tier ${tier}, and this API key of ${caller.tier}: it can't preview personas above its own.`,
      place,
    );
}
