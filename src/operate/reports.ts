/** Reports of what branches change in personas: the latest of each label, kept as previews are, for the personas' pages of the console. */
import type { ReportUpload } from "../api/persona-reports.ts";
import type { ActName } from "../api/words.ts";
import type { Caller } from "../auth/keys.ts";
import type { Services } from "../call/services.ts";
import { isoTime } from "../lib/time/clock.ts";
import { dayMs } from "../lib/time/duration.ts";
import { ApiError } from "../protocols/errors.ts";
import { auditRow } from "../store/contract/audit.ts";
import type { Done } from "./act.ts";
import { assertLabel, idsOf, mayPreview, mayUse, notAllowed, type Preview, previewOf } from "./previews.ts";

/** What a report says of one persona. */
export type PersonaReport = { readonly info: Preview; readonly against: ReportUpload["against"] } & {
  readonly persona: ReportUpload["personas"][number];
};

/**
 * Keeps a report in place of the label's one before. Where there are too many, the oldest makes room.
 * @throws ApiError invalid_value, model_not_allowed, too_many_previews or request_too_large, and StorageError
 */
export async function pushReport(
  services: Services,
  caller: Caller,
  label: string,
  upload: ReportUpload,
): Promise<Done<Preview | undefined, Preview>> {
  const { store, clock, live } = services;
  const { days, max, maxBytes } = live.config.previews;
  assertLabel(label);
  for (const [at, { id }] of upload.personas.entries())
    if (!mayUse(caller, id, label))
      throw notAllowed(`This API key may not use ${id}, and so may not report on it.`, `personas[${at}].id`);
  const content = JSON.stringify(upload);
  const bytes = Buffer.byteLength(content);
  if (bytes > maxBytes) throw ApiError.previewTooLarge(bytes, maxBytes, "report");
  if (max === 0) throw ApiError.tooManyPreviews(max);
  const now = clock.now();
  const kept = await listReports(services);
  const before = kept.find((one) => one.label === label);
  if (before !== undefined && !mayPreview(caller, before))
    throw notAllowed(`The report of '${label}' has personas that this API key may not use.`, "label");
  const personas = upload.personas.map(({ id, before, after }) => ({
    id,
    version: (after ?? before)?.version ?? "",
  }));
  const info = { label, revision: clock.newId(), key: caller.keyId, keyName: caller.name, bytes };
  const times = { pushedAt: now, endsAt: now + days * dayMs };
  const row = { ...info, ...times, personas: JSON.stringify(personas), content };
  const line = (act: ActName, subject: string, sides: object) =>
    auditRow(clock, caller.keyId, { act, subject, ...sides });
  const pushed = line("report.push", label, {
    before: before && idsOf(before.personas),
    after: { ...idsOf(personas), ends_at: isoTime(times.endsAt) },
  });
  const oldest = kept.filter((one) => one.label !== label).reverse();
  while (!(await store.reports.put(row, max, pushed))) {
    const gone = oldest.shift();
    // Others pushed meanwhile.
    if (gone === undefined) throw ApiError.tooManyPreviews(max);
    const dropped = line("report.drop", gone.label, { before: idsOf(gone.personas) });
    await store.reports.drop(gone.label, now, dropped);
  }
  return { before, after: { ...info, ...times, personas } };
}

/** The newest first. @param persona absent: of all @throws StorageError */
export async function listReports(
  { store, clock }: Pick<Services, "store" | "clock">,
  persona?: string,
): Promise<Preview[]> {
  return (await store.reports.list(clock.now()))
    .map(previewOf)
    .filter(({ personas }) => persona === undefined || personas.some(({ id }) => id === persona))
    .sort((one, other) => other.pushedAt - one.pushedAt || (one.label < other.label ? -1 : 1));
}

/** @param label absent: the newest that names the persona @throws ApiError not_found, and StorageError */
export async function findReport(services: Services, persona: string, label?: string): Promise<PersonaReport> {
  const { store, clock } = services;
  const info = (await listReports(services, persona)).find((one) => label === undefined || one.label === label);
  const row = info && (await store.reports.get(info.label, clock.now()));
  const { against, personas } = row === undefined ? { personas: [] } : (JSON.parse(row.content) as ReportUpload);
  const found = personas.find(({ id }) => id === persona);
  if (info === undefined || against === undefined || found === undefined)
    throw ApiError.notFound("No report of that persona is kept.", "label");
  return { info, against, persona: found };
}
