/** `troupe facts`: what is known of models, and newer files of it. */

import { readFileSync } from "node:fs";
import { basename } from "node:path";
import { factsKeys } from "../../build-info.ts";
import { isAddress } from "../../config/address-errors.ts";
import type { Config } from "../../config/config.ts";
import { type Bundle, FactsError, maxBundleBytes, readBundle } from "../../facts/bundle.ts";
import { type FactChange, factChanges } from "../../facts/changes.ts";
import { compiledFacts, factsInForce } from "../../facts/facts.ts";
import { compiledAsOf, inForce } from "../../facts/in-force.ts";
import { compiledList } from "../../facts/prices/list.ts";
import { type PriceChange, priceChanges } from "../../facts/prices/list-format.ts";
import { isSigned } from "../../facts/signed.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { sha256Of } from "../../lib/text/sha256.ts";
import { systemClock } from "../../lib/time/clock.ts";
import * as acts from "../../operate/facts.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { type Published, readPlace, readPublished } from "../../usage/facts/fetch.ts";
import { olderWords, todayOf } from "../../usage/facts/renewal.ts";
import { concernsOf } from "../../usage/prices/concerns.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { operatorOf } from "./operator.ts";
import { changeText, marks, modelsInUse } from "./price-update.ts";
import { listFor } from "./prices.ts";
import { assertDataFolder, usingStore } from "./storage.ts";
import { count } from "./usage.ts";

type FactsUpdateOptions = {
  /** The place of the configuration, otherwise. */
  readonly from?: string;
  readonly sha256?: string;
  readonly force?: boolean;
  readonly json?: boolean;
};

const fetchMs = 30_000;

/** Runs a command on facts: what is wrong with a file of them, or with its place, is its error. */
const withFacts = (context: Context, use: (config: Config) => Promise<ExitCode>): Promise<ExitCode> =>
  withConfig(context, (config) =>
    use(config).catch((error: unknown) => {
      throw error instanceof FactsError ? new CommandError(`${error.message}.`) : error;
    }),
  );

/** A file that is known to be what it should be. @property isProved by a key of the build, or by the hash that was given */
type Found = Published & { readonly isProved: boolean };

/** Shows what newer facts change; takes them where they are proved, and nothing speaks against it. */
export function updateFacts(context: Context, options: FactsUpdateOptions): Promise<ExitCode> {
  return withFacts(context, async (config) => {
    const { io } = context;
    const { json, force = false } = options;
    const from = options.from ?? config.facts.from;
    if (from === undefined)
      throw new UsageError("Say where newer facts are: --from <address or file>, or facts.from in the configuration.");
    const { list: before } = listFor(context, config);
    const found = await findFacts(from, options, inForce().renewed?.sha256);
    if (found === undefined) {
      if (json) printJson(io, { from, taken: false, known: true });
      else io.stderr.write("Those that are published there are in use already.\n");
      return 0;
    }
    const bundle = readBundle(found.bytes, basename(found.source), todayOf(systemClock));
    const text = JSON.stringify(bundle.prices);
    const change = { before, after: { text, asOf: bundle.prices.as_of } };
    const accounts = new Accounts(config.providers, providers);
    const models = await modelsInUse(context, config);
    const against = [
      ...olderWords({ asOf: bundle.as_of }, config.data),
      ...concernsOf(change, config, accounts, models, systemClock.now()),
    ];
    const isTaken = found.isProved && (against.length === 0 || force);
    if (isTaken) await takeFacts(context, config, found, bundle, force);
    const changes = differences(bundle);
    const { source, sha256 } = found;
    if (json)
      printJson(io, { from: source, sha256, as_of: bundle.as_of, taken: isTaken, concerns: against, ...changes });
    else {
      writeChanges(context, changes);
      io.stderr.write(against.map((one) => `warning: ${printableLine(one)}\n`).join(""));
      io.stderr.write(isTaken ? taken : adviceFor(found, options, against.length > 0));
    }
    return isTaken || (!found.isProved && options.sha256 === undefined) ? 0 : 1;
  });
}

const taken = "Taken: servers that run use them from their next call on.\n";

function adviceFor({ source, sha256, isProved }: Found, { from }: FactsUpdateOptions, isDoubtful: boolean): string {
  const flags = [
    ...(from === undefined ? [] : ["--from", printableLine(source)]),
    ...(isProved ? [] : ["--sha256", sha256]),
    ...(isDoubtful ? ["--force"] : []),
  ];
  const words = isDoubtful ? "To use these facts in spite of that" : "To use these facts";
  return `Nothing was changed. ${words}:\n  troupe facts update ${flags.join(" ")}\n`;
}

async function takeFacts(
  context: Context,
  config: Config,
  { bytes, sha256, source }: Found,
  { as_of: asOf }: Bundle,
  isForced: boolean,
): Promise<void> {
  assertDataFolder(context, config.data);
  const list = { sha256, asOf, source, isForced: isForced ? 1 : 0, takenAt: systemClock.now(), content: bytes };
  await usingStore(config, (store) =>
    acts.updateFacts(operatorOf(context, store, config), () => store.facts.take(list)),
  );
}

/** @returns undefined where what is published is known. @throws FactsError */
async function findFacts(
  from: string,
  { sha256: given, force }: FactsUpdateOptions,
  known: string | undefined,
): Promise<Found | undefined> {
  const wanted = given?.toLowerCase();
  if (isPointer(from)) {
    const settings = { keys: factsKeys, now: systemClock.now(), known: force === true ? undefined : known };
    const found = await readPublished(from, settings);
    return found && { ...found, isProved: wanted === undefined || wanted === found.sha256 };
  }
  const bytes = await readPlace(from, maxBundleBytes, AbortSignal.timeout(fetchMs));
  const sha256 = sha256Of(bytes);
  if (wanted !== undefined && wanted !== sha256)
    throw new FactsError(
      `${printableLine(from)} has the SHA-256 ${sha256}, not the one that is given: nothing was changed`,
    );
  const isProved = wanted === sha256 || (await isSignedBeside(from, bytes));
  return { bytes, sha256, asOf: "", source: from, isProved };
}

/** A folder, or the pointer itself; any other file is one of facts. */
const isPointer = (place: string): boolean =>
  !/\.json$/.test(isAddress(place) ? new URL(place).pathname : place) || basename(place) === "facts.json";

/** Files that are carried by hand have their signature beside them. */
async function isSignedBeside(path: string, bytes: Uint8Array): Promise<boolean> {
  if (isAddress(path) || factsKeys.length === 0) return false;
  try {
    return await isSigned(bytes, readFileSync(`${path}.sig`, "utf8").trim(), factsKeys);
  } catch {
    return false;
  }
}

type Differences = { readonly facts: readonly FactChange[]; readonly prices: readonly PriceChange[] };

const differences = ({ models, prices }: Pick<Bundle, "models" | "prices">): Differences => ({
  facts: factChanges(factsInForce(), models),
  prices: priceChanges(inForce().list.content, prices, systemClock.now()),
});

function writeChanges({ io }: Context, { facts, prices }: Differences): void {
  io.stdout.write(
    facts.map(({ change, what, words }) => `${marks[change]} ${printableLine(`${what}: ${words}`)}\n`).join(""),
  );
  io.stdout.write(prices.map(changeText).join(""));
  io.stderr.write(`${count(facts.length)} facts and ${count(prices.length)} prices differ from those in use.\n`);
}

/** Shows what differs between the facts in use and those of a file, or of the executable. */
export function diffFacts(
  context: Context,
  file: string | undefined,
  { json }: { readonly json?: boolean },
): Promise<ExitCode> {
  return withFacts(context, async (config) => {
    listFor(context, config);
    const other = file === undefined ? executables() : await bundleIn(file);
    const changes = differences(other);
    if (json) printJson(context.io, changes);
    else writeChanges(context, changes);
    return 0;
  });
}

const executables = () => ({ as_of: compiledAsOf, models: compiledFacts, prices: compiledList.content });

/** @throws FactsError */
async function bundleIn(file: string): Promise<Bundle> {
  const bytes = await readPlace(file, maxBundleBytes, AbortSignal.timeout(fetchMs));
  return readBundle(bytes, basename(file), todayOf(systemClock));
}

/** Has the facts count that did before those in use. */
export function rollBackFacts(context: Context, { json }: { readonly json?: boolean }): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    assertDataFolder(context, config.data);
    const gone = await usingStore(config, (store) => acts.rollBackFacts(operatorOf(context, store, config)));
    if (gone === undefined)
      throw new CommandError("The facts in the executable are in use: there are none to go back from.");
    const { before, after } = gone;
    if (json) printJson(context.io, { from: before.sha256, to: after.sha256, as_of: after.as_of });
    else {
      const words = `${printableLine(after.source ?? "the executable")}, of ${after.as_of}`;
      context.io.stdout.write(
        `Back to the facts of ${words}. Those gone back from are not taken again by themselves.\n`,
      );
    }
    return 0;
  });
}
