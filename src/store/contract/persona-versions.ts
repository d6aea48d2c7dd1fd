/** Versions of personas that were in service, and the labels that name some: what pins outlive their files by. */
import type { AuditRow } from "./audit.ts";

/** @property id `<namespace>/<name>@<version>` */
export type PersonaVersionInfo = {
  readonly id: string;
  readonly persona: string;
  readonly version: string;
  /** When it was first kept, and when it was last in service or called. */
  readonly createdAt: number;
  readonly usedAt: number;
};

export type PersonaVersionRow = PersonaVersionInfo & {
  /** The persona's content with its includes in place, as JSON. */
  readonly content: string;
  /** The file that it was read from, as it was written; null: it was made of something else. */
  readonly source: string | null;
};

export type PersonaLabel = {
  readonly persona: string;
  readonly label: string;
  readonly version: string;
  readonly movedAt: number;
};

/** The most versions of one persona; beyond it the one that was not used for the longest time goes. */
export const maxPersonaVersions = 1000;

export interface PersonaVersionRepository {
  /** Keeps a version; one that is kept stays as it was. */
  keep(row: PersonaVersionRow): Promise<void>;
  /** @returns those of the ids that are kept */
  known(ids: readonly string[]): Promise<string[]>;
  /** Notes that those were used; never moves a time backwards. */
  touch(ids: readonly string[], at: number): Promise<void>;
  get(id: string): Promise<PersonaVersionRow | undefined>;
  /** All of one persona, the newest first. */
  list(persona: string): Promise<PersonaVersionInfo[]>;
  labels(): Promise<PersonaLabel[]>;
  /**
   * Moves a label, with the line that records it: both or neither, and by one of all processes that see the move.
   * @param before where it stood; null: there was none
   * @returns false where it stands elsewhere by now
   */
  moveLabel(label: PersonaLabel, before: string | null, line: AuditRow): Promise<boolean>;
  /** Removes a label, likewise. */
  removeLabel(label: Pick<PersonaLabel, "persona" | "label" | "version">, line: AuditRow): Promise<boolean>;
}
