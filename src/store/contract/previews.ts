/** Previews of personas: what a working tree was pushed as under a label, whole, until it ends. */
import type { AuditRow } from "./audit.ts";

export type PreviewPersona = { readonly id: string; readonly version: string };

export type PreviewInfo = {
  readonly label: string;
  /** Another one with each push. */
  readonly revision: string;
  /** The key that pushed it, by its id and its name at that time. */
  readonly key: string;
  readonly keyName: string;
  /** JSON: a list of `PreviewPersona`. */
  readonly personas: string;
  readonly pushedAt: number;
  readonly endsAt: number;
  /** Size of its content. */
  readonly bytes: number;
};

/** @property content JSON that the pusher's server reads, one document for all of its personas */
export type PreviewRow = PreviewInfo & { readonly content: string };

/** One row holds a whole preview, so that nobody ever sees a part of one. What has ended is not there, removed or not. */
export interface PreviewRepository {
  /**
   * Keeps a preview in place of the label's one before, with the line that records it: both or neither.
   * @param max previews of other labels beside it @returns false where there are too many
   */
  put(row: PreviewRow, max: number, line: AuditRow): Promise<boolean>;
  /** Which push a label stands for. */
  revision(label: string, now: number): Promise<string | undefined>;
  get(label: string, now: number): Promise<PreviewRow | undefined>;
  /** By their labels. */
  list(now: number): Promise<PreviewInfo[]>;
  /** Removes one, likewise recorded. @returns false where there is none */
  drop(label: string, now: number, line: AuditRow): Promise<boolean>;
}
