/** Personas as the admin API gives them. */
import type { PersonaSource, PersonaTestSource } from "../../../api/persona-sources.ts";

export type { Finding } from "../../../api/findings.ts";
export type { PersonaReportPart as Report, ReportedTest } from "../../../api/persona-reports.ts";
export type {
  Persona as PersonaDetails,
  PersonaPush as Push,
  PersonaSummary as Persona,
  PersonaVariable as Variable,
} from "../../../api/personas.ts";
export type { PersonaVersion as Version } from "../../../api/versions.ts";
export const verdictTones = { pass: "ok", fail: "bad", error: "warn" } as const;
/** A file of the folder of personas: one of a persona, or of its tests. */
export type FileText = Omit<PersonaSource, "object" | "version" | "is_served" | "hash"> &
  Pick<PersonaTestSource, "hash">;
export type Source = FileText & Pick<PersonaSource, "version" | "is_served">;

export const pathOf = (id: string): string => `v1/personas/${id}`;
