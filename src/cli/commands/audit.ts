/** Audit lines of what commands do. */
import { userInfo } from "node:os";
import { systemClock } from "../../lib/time/clock.ts";
import { type Act, auditRow } from "../../store/audit.ts";
import type { Store } from "../../store/store.ts";
import type { Context } from "../context.ts";

/** Whoever is at the terminal, also behind sudo. Source: sudo(8), SUDO_USER */
export function actorOf({ io }: Context): string {
  try {
    return `cli:${io.env["SUDO_USER"] || userInfo().username}`;
  } catch {
    // A user without a name, as in a container.
    return "cli";
  }
}

/** @throws StorageError; the act was done all the same */
export function record(context: Context, { audit }: Pick<Store, "audit">, act: Act): Promise<void> {
  return audit.insert(auditRow(systemClock, actorOf(context), act));
}
