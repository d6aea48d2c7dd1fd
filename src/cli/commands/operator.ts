/** Who acts at a terminal. A server that runs takes over what they change. */
import { userInfo } from "node:os";
import { Keys } from "../../auth/keys.ts";
import type { Config } from "../../config/config.ts";
import { systemClock } from "../../lib/time/clock.ts";
import type { Operator } from "../../operate/act.ts";
import { auditRow } from "../../store/contract/audit.ts";
import type { OpenedStore } from "../../store/open.ts";
import type { Context, ExitCode } from "../context.ts";
import { loadPersonas } from "../personas.ts";
import { withStore } from "./storage.ts";

/** Whoever is at the terminal, also behind sudo. Source: sudo(8), SUDO_USER */
function actorOf({ io }: Context): string {
  try {
    return `cli:${io.env["SUDO_USER"] || userInfo().username}`;
  } catch {
    // A user without a name, as in a container.
    return "cli";
  }
}

/** What acts are checked by, where nothing is opened yet. */
export function checkedBy(context: Context, config: Config): Pick<Operator, "config" | "personas"> {
  let loading: ReturnType<typeof loadPersonas> | undefined;
  const personas = async () => {
    loading ??= loadPersonas(context, config.personas);
    return (await loading).personas;
  };
  return { config, personas };
}

/** @param checked by what the command has checked already: personas are read once */
export const operatorOf = (
  context: Context,
  store: OpenedStore,
  config: Config,
  checked = checkedBy(context, config),
): Operator => {
  const actor = actorOf(context);
  return {
    ...checked,
    ...{ actor, clock: systemClock, store, keys: keysIn(store, config) },
    reread: async () => {},
    record: (act) => store.audit.insert(auditRow(systemClock, actor, act)),
  };
};

/** Runs a command that acts on what is stored, or shows it. */
export const withOperator = (
  context: Context,
  use: (operator: Operator, config: Config) => void | Promise<void>,
): Promise<ExitCode> => withStore(context, (store, config) => use(operatorOf(context, store, config), config));

/** Keys to be shown or changed: no secret is looked up. */
export const keysIn = (store: OpenedStore, { tiers }: Config): Keys => new Keys(store.keys, systemClock, tiers);
