/** `troupe prices update`: shows what another list changes, and takes it. */

import { isAddress } from "../../config/address-errors.ts";
import type { Config } from "../../config/config.ts";
import { FactsError } from "../../facts/bundle.ts";
import { ListError, type PriceChange, parsePriceList, priceChanges } from "../../facts/prices/list-format.ts";
import type { ListedPrice } from "../../facts/prices/listed.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { sha256Of } from "../../lib/text/sha256.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { namedModels } from "../../operate/checks/named-models.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { readPlace } from "../../usage/facts/fetch.ts";
import { calledModels, concernsOf } from "../../usage/prices/concerns.ts";
import { storedListPath, storeList } from "../../usage/prices/stored-list.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "../context.ts";
import { loadPersonas } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { listFor } from "./prices.ts";
import { assertDataFolder, isStored, usingStore } from "./storage.ts";
import { count } from "./usage.ts";

export type UpdateOptions = {
  readonly sha256?: string;
  /** The day of a list that does not say its own. */
  readonly asOf?: string;
  /** Take it whatever speaks against it. */
  readonly force?: boolean;
  readonly json?: boolean;
};

/**
 * Shows what a list would change; takes it where its hash is given, which is shown with the changes, and nothing speaks against it.
 * @param source a file, or an address
 */
export function updatePrices(context: Context, source: string, options: UpdateOptions): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    const { sha256, asOf, force = false, json } = options;
    const { io } = context;
    const bytes = await readList(context, source);
    const hash = sha256Of(bytes);
    if (sha256 !== undefined && sha256.toLowerCase() !== hash) {
      throw new CommandError(
        `${printableLine(source)} has the SHA-256 ${hash}, not the one that is given: nothing was changed.`,
      );
    }
    const now = systemClock.now();
    const list = listFrom(source, bytes, now, asOf);
    const { list: before } = listFor(context, config);
    const changes = priceChanges(before.content, list, now);
    const change = { before, after: { text: JSON.stringify(list), asOf: list.as_of } };
    const accounts = new Accounts(config.providers, providers);
    const concerns = concernsOf(change, config, accounts, await modelsInUse(context, config), now);
    const isTaken = sha256 !== undefined && (concerns.length === 0 || force);
    if (isTaken) {
      assertDataFolder(context, config.data);
      storeList(config.data, source, list, force);
    }
    if (json) {
      const found = { source, sha256: hash, as_of: list.as_of, before: before.asOf, taken: isTaken };
      printJson(io, { ...found, concerns, changes });
    } else {
      io.stdout.write(changes.map(changeText).join(""));
      io.stderr.write(concerns.map((one) => `warning: ${printableLine(one)}\n`).join(""));
      const size = changes.length === 0 ? "No price differs" : `${count(changes.length)} models differ`;
      io.stderr.write(`${size} from the list of ${before.asOf}.\n`);
      io.stderr.write(isTaken ? takenWords(config) : adviceWords(source, hash, options, concerns.length > 0));
    }
    return sha256 === undefined || isTaken ? 0 : 1;
  });
}

const takenWords = ({ data }: Config) =>
  `Stored as ${storedListPath(data)}: used from the next start or reload (SIGHUP) on.\n`;

function adviceWords(source: string, hash: string, { asOf, sha256 }: UpdateOptions, isDoubtful: boolean): string {
  const flags = `${asOf === undefined ? "" : ` --as-of ${asOf}`} --sha256 ${hash}${isDoubtful ? " --force" : ""}`;
  const why = sha256 === undefined ? "Nothing was changed." : "Nothing was changed, as it warns of what is above.";
  const words = isDoubtful ? "To use the list in spite of that" : "To use the list";
  return `${why} ${words}:\n  troupe prices update ${printableLine(source)}${flags}\n`;
}

/** Those that personas and the configuration name, and that were called within 30 days. */
export async function modelsInUse(context: Context, config: Config): Promise<string[]> {
  const { personas } = await loadPersonas(context, config.personas);
  const named = namedModels(personas, config);
  if (!(await isStored(config))) return named;
  const called = await usingStore(config, ({ ledger }) => calledModels(ledger, systemClock.now()));
  return [...new Set([...named, ...called])];
}

/** Lists have some hundred kilobytes. */
const maxListBytes = 16 * 1024 * 1024;
const fetchMs = 30_000;

/** @throws CommandError */
async function readList({ io }: Context, source: string): Promise<Uint8Array> {
  try {
    if (isAddress(source)) return await readPlace(source, maxListBytes, AbortSignal.timeout(fetchMs));
    const text = io.readFile(source);
    if (text === undefined) throw new CommandError(`There is no file ${printableLine(source)}.`);
    return new TextEncoder().encode(text);
  } catch (error) {
    if (error instanceof FactsError) throw new CommandError(`${error.message}.`);
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${printableLine(source)} can't be read: ${(error as Error).message}`);
  }
}

/** @throws CommandError */
function listFrom(source: string, bytes: Uint8Array, now: number, asOf: string | undefined) {
  try {
    return parsePriceList(new TextDecoder().decode(bytes), new Date(now).toISOString().slice(0, 10), asOf);
  } catch (error) {
    if (error instanceof ListError)
      throw new CommandError(`${printableLine(source)} is no price list: ${error.message}. Nothing was changed.`);
    throw error;
  }
}

export const marks = { added: "+", removed: "-", changed: "~" } as const;

export function changeText({ model, change, prices }: PriceChange): string {
  const parts = Object.entries(prices).map(([kind, { before, after }]) => {
    if (change === "added") return `${kind} ${priceWords(after)}`;
    if (change === "removed") return `${kind} ${priceWords(before)}`;
    return `${kind} ${priceWords(before)} → ${priceWords(after)}`;
  });
  const words = parts.length === 0 ? "the same now, other conditions" : parts.join(", ");
  return `${marks[change]} ${printableLine(model)}: ${printableLine(words)}\n`;
}

function priceWords(price: ListedPrice | undefined): string {
  if (price === undefined) return "none";
  if (typeof price === "number") return `$${price}`;
  return `$${price.base}${price.tiers.map(({ start, price: long }) => ` ($${long} above ${count(start)})`).join("")}`;
}
