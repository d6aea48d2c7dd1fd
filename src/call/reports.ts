/** Reports of what branches change in personas: the latest of each label, kept as previews are, for the personas' pages of the console. */
import type { Caller } from "../auth/keys.ts";
import type { Config } from "../config/config.ts";
import { type Clock, isoTime } from "../lib/time/clock.ts";
import type { ReportUpload } from "../personas/review/report-schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { auditRow } from "../store/audit.ts";
import type { PreviewRepository } from "../store/previews.ts";
import { needsStorage } from "../store/require-storage.ts";
import { assertLabel, dayMs, idsOf, mayPreview, mayUse, notAllowed, type Preview, previewOf } from "./plan/previews.ts";

type Options = {
  readonly store: PreviewRepository;
  readonly rules: () => Config["previews"];
  readonly clock: Clock;
};

/** What a report says of one persona. */
export type PersonaReport = { readonly info: Preview; readonly against: ReportUpload["against"] } & {
  readonly persona: ReportUpload["personas"][number];
};

export class Reports {
  readonly #options: Options;

  constructor(options: Options) {
    this.#options = options;
  }

  /**
   * Keeps a report in place of the label's one before. Where there are too many, the oldest makes room.
   * @throws ApiError invalid_value, model_not_allowed, too_many_previews, request_too_large or storage_unavailable
   */
  async push(caller: Caller, label: string, upload: ReportUpload): Promise<Preview> {
    const { store, clock } = this.#options;
    const { days, max, maxBytes } = this.#options.rules();
    assertLabel(label);
    for (const [at, { id }] of upload.personas.entries())
      if (!mayUse(caller, id, label))
        throw notAllowed(`This API key may not use ${id}, and so may not report on it.`, `personas[${at}].id`);
    const content = JSON.stringify(upload);
    const bytes = Buffer.byteLength(content);
    if (bytes > maxBytes) throw ApiError.previewTooLarge(bytes, maxBytes, "report");
    if (max === 0) throw ApiError.tooManyPreviews(max);
    const now = clock.now();
    const kept = await this.list();
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
    const line = (act: string, subject: string, sides: object) =>
      auditRow(clock, caller.keyId, { act, subject, ...sides });
    const pushed = line("report.push", label, {
      ...(before && { before: idsOf(before.personas) }),
      after: { ...idsOf(personas), ends_at: isoTime(times.endsAt) },
    });
    const oldest = kept.filter((one) => one.label !== label).reverse();
    while (!(await needsStorage(() => store.put(row, max, pushed)))) {
      const gone = oldest.shift();
      // Others pushed meanwhile.
      if (gone === undefined) throw ApiError.tooManyPreviews(max);
      const dropped = line("report.drop", gone.label, { before: idsOf(gone.personas) });
      await needsStorage(() => store.drop(gone.label, now, dropped));
    }
    return { ...info, ...times, personas };
  }

  /** The newest first. @param persona absent: of all */
  async list(persona?: string): Promise<Preview[]> {
    const { store, clock } = this.#options;
    return (await needsStorage(() => store.list(clock.now())))
      .map(previewOf)
      .filter(({ personas }) => persona === undefined || personas.some(({ id }) => id === persona))
      .sort((one, other) => other.pushedAt - one.pushedAt || (one.label < other.label ? -1 : 1));
  }

  /** @param label absent: the newest that names the persona @throws ApiError not_found */
  async find(persona: string, label?: string): Promise<PersonaReport> {
    const { store, clock } = this.#options;
    const info = (await this.list(persona)).find((one) => label === undefined || one.label === label);
    const row = info && (await needsStorage(() => store.get(info.label, clock.now())));
    const { against, personas } = row === undefined ? { personas: [] } : (JSON.parse(row.content) as ReportUpload);
    const found = personas.find(({ id }) => id === persona);
    if (info === undefined || against === undefined || found === undefined)
      throw ApiError.notFound("No report of that persona is kept.", "label");
    return { info, against, persona: found };
  }
}
