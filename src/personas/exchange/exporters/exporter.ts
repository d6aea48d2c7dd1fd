import type { PersonaContent } from "../../file/schema.ts";
import type { Omission } from "../importers/draft.ts";

/** A persona to write in another form. */
export type Subject = {
  /** `<namespace>/<name>`. */
  readonly id: string;
  /** Its file, with includes in place. */
  readonly content: PersonaContent;
  /** The bytes of its avatar, where that is a file. */
  readonly avatar?: Uint8Array;
};

export type Exported = {
  readonly content: string | Uint8Array;
  /** What the other form has no place for. */
  readonly omitted: readonly Omission[];
};

/** A form that other programs read. Pure: a persona in, a file's content out. */
export type Exporter = {
  /** What `--format` calls it. */
  readonly format: string;
  /** For people. */
  readonly title: string;
  /** Of the file, with its dot. */
  readonly extension: string;
  write(subject: Subject): Exported;
};
