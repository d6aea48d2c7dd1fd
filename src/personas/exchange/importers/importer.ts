import type { Imported } from "./draft.ts";
import type { ImportedFile } from "./source.ts";

/** A format of personas or prompts that others use. Pure: bytes in, drafts out. */
export type Importer = {
  /** What `--format` calls it. */
  readonly format: string;
  /** For people. */
  readonly title: string;
  /** True where the file's name says that it is of this format, before any content is looked at. */
  claims?(source: ImportedFile): boolean;
  /** True if the file's content is of this format. It never throws for what is readable as text. */
  detects(source: ImportedFile): boolean;
  /** @throws ImportError naming the place that keeps the file from being a persona */
  read(source: ImportedFile): Imported[];
};
