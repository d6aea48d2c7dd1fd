/** Acts on previews of personas. Each and its line of the audit are written in one transaction. */
import { type Caller, mayUseModel } from "../auth/keys.ts";
import type { Services } from "../call/services.ts";
import { few } from "../lib/text/few.ts";
import { isoTime } from "../lib/time/clock.ts";
import { dayMs } from "../lib/time/duration.ts";
import { personaFileWith } from "../personas/file/schema.ts";
import type { Persona } from "../personas/persona.ts";
import { keptText, type PreviewUpload, previewName, uploadedPersonas } from "../personas/review/previews.ts";
import { isLabel, labelName } from "../personas/versions/labels.ts";
import { nameOf } from "../personas/versions/references.ts";
import { ApiError } from "../protocols/errors.ts";
import { tiers } from "../protocols/tiers.ts";
import { optionSchemas } from "../providers/options.ts";
import { providers } from "../providers/registry.ts";
import { auditRow } from "../store/contract/audit.ts";
import type { PreviewInfo, PreviewPersona } from "../store/contract/previews.ts";
import type { Done } from "./act.ts";

/** A preview as lists show it. */
export type Preview = Omit<PreviewInfo, "personas"> & { readonly personas: readonly PreviewPersona[] };

let schema: ReturnType<typeof personaFileWith> | undefined;

/**
 * Keeps an upload whole, in place of the label's one before.
 * @param days until its end; absent: as many as the configuration says
 * @throws ApiError invalid_value, model_not_allowed, label_in_use, too_many_previews or request_too_large, and StorageError
 */
export async function pushPreview(
  services: Services,
  caller: Caller,
  label: string,
  upload: PreviewUpload,
  days?: number,
): Promise<Done<Preview | undefined, Preview>> {
  const { store, clock, live, log } = services;
  const { days: most, max, maxBytes } = live.config.previews;
  assertLabel(label);
  if (days !== undefined && days > most)
    throw ApiError.invalidValue("days", `days must be at most ${most}, as previews.days says here.`);
  schema ??= personaFileWith(optionSchemas(providers));
  const personas = uploadedPersonas(upload, schema);
  for (const [at, persona] of personas.entries()) assertAllowed(caller, persona, label, `personas[${at}].id`);
  await assertFree(services, personas, label);
  const content = keptText(upload);
  const bytes = Buffer.byteLength(content);
  if (bytes > maxBytes) throw ApiError.previewTooLarge(bytes, maxBytes);
  const now = clock.now();
  const before = await findPreview(services, caller, label);
  const pushed = personas.map(({ id, version }) => ({ id, version }));
  const info = { label, revision: clock.newId(), key: caller.keyId, keyName: caller.name, bytes };
  const times = { pushedAt: now, endsAt: now + (days ?? most) * dayMs };
  const line = auditRow(clock, caller.keyId, {
    ...{ act: "preview.push", subject: label, before: before && idsOf(before.personas) },
    after: { ...idsOf(pushed), ends_at: isoTime(times.endsAt) },
  });
  const row = { ...info, ...times, personas: JSON.stringify(pushed), content };
  if (!(await store.previews.put(row, max, line))) throw ApiError.tooManyPreviews(max);
  log.info("a preview of personas was pushed", { label, key: caller.keyId, personas: pushed.length, bytes });
  return { before, after: { ...info, ...times, personas: pushed } };
}

/** Those that a caller may see: whose personas it may use; absent: all. @throws StorageError */
export async function listPreviews(
  { store, clock }: Pick<Services, "store" | "clock">,
  caller?: Caller,
): Promise<Preview[]> {
  const rows = (await store.previews.list(clock.now())).map(previewOf);
  return caller === undefined ? rows : rows.filter((one) => mayPreview(caller, one));
}

/** @param actor in the audit @param caller absent: it may drop any @throws ApiError not_found, model_not_allowed */
export async function dropPreview(
  services: Services,
  actor: string,
  label: string,
  caller?: Caller,
): Promise<Done<Preview, undefined>> {
  const { store, clock, log } = services;
  const missing = () => ApiError.notFound(`No preview has the label '${label}'.`, "label");
  if (!isLabel(label)) throw missing();
  const before = await findPreview(services, caller, label);
  if (before === undefined) throw missing();
  const line = auditRow(clock, actor, { act: "preview.drop", subject: label, before: idsOf(before.personas) });
  if (!(await store.previews.drop(label, clock.now(), line))) throw missing();
  log.info("a preview of personas was dropped", { label, actor });
  return { before, after: undefined };
}

/** The preview that is there now. @throws ApiError model_not_allowed where the caller may not touch it */
async function findPreview(
  services: Services,
  caller: Caller | undefined,
  label: string,
): Promise<Preview | undefined> {
  const found = (await listPreviews(services)).find((one) => one.label === label);
  if (found !== undefined && caller !== undefined && !mayPreview(caller, found))
    throw notAllowed(
      `The preview '${label}' has personas that this API key may not use: another key pushed it.`,
      "label",
    );
  return found;
}

/** @throws ApiError label_in_use where a folder's label has the name of one, in service here or on another node */
async function assertFree(
  { store, personas: served }: Services,
  personas: readonly Persona[],
  label: string,
): Promise<void> {
  const kept = (await store.personaVersions.labels()).map((one) => previewName(one.persona, one.label));
  const taken = new Set([...kept, ...(served.labels?.keys() ?? [])]);
  const used = personas.map(({ id }) => previewName(id, label)).filter((name) => taken.has(name));
  if (used.length > 0)
    throw ApiError.labelInUse(
      `${few(used)} ${used.length === 1 ? "is a label" : "are labels"} of labels.yaml already: push under another one.`,
    );
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
