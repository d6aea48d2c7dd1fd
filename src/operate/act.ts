/** An act of an operator: what it is done with, whoever asks for it, and what it gives back once its line of the audit is written. */
import type { ActName } from "../api/words.ts";
import type { Keys } from "../auth/keys.ts";
import type { Config } from "../config/config.ts";
import type { Clock } from "../lib/time/clock.ts";
import type { Persona } from "../personas/persona.ts";
import type { Act } from "../store/contract/audit.ts";
import type { Store } from "../store/contract/store.ts";

/**
 * What acts are done with: by the admin API, `/account` or the command line. Acts throw ApiError for what they refuse, whose `param` is a
 * field's path, and reject with StorageError, KeyError or KeySpecError as what they stand on does.
 */
export type Operator = {
  readonly clock: Clock;
  /** The name under which acts are recorded. */
  readonly actor: string;
  readonly store: Store;
  /** Those of a command find no secret: they are read when they are shown or changed. */
  readonly keys: Keys;
  readonly config: Pick<Config, "aliases" | "providers" | "budgets">;
  /** Those in service. */
  personas(): readonly Persona[] | Promise<readonly Persona[]>;
  /** Has calls of this process know what an act has changed. */
  reread(): Promise<void>;
  /** Writes a line of the audit, under the operator's name. Where that fails the act was done all the same. */
  record(act: Act): Promise<void>;
};

/** How the thing was, and how it is now; undefined: there was, or is, none. */
export type Done<Before, After = Before> = { readonly before: Before; readonly after: After };

/** Records what was done, and gives it back. @param subject what it was done to */
export async function done<Before, After>(
  { record }: Pick<Operator, "record">,
  act: ActName,
  subject: string,
  before: Before,
  after: After,
): Promise<Done<Before, After>> {
  await record({ act, subject, before, after });
  return { before, after };
}
