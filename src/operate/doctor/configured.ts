/** Checks what the configuration names, for the command and for a server that runs: nothing here leaves the machine. */
import { statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Config, ListenerConfig } from "../../config/config.ts";
import { formatAddress, isLoopback } from "../../config/listeners.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { readCertificate } from "../../lib/http/certificate.ts";
import type { Io } from "../../lib/process/io.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";
import { type Diagnostic, formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { limitsDiagnostic } from "../../limits/machine/limiter.ts";
import type { Persona } from "../../personas/persona.ts";
import { StorageError } from "../../store/contract/storage-error.ts";
import { inspectRedis } from "../../store/redis/inspect.ts";
import { firstKeyName } from "../../store/sqlite/loss-guard.ts";
import { assumedPhrase, calledModelWarnings } from "../checks/called-models.ts";
import { namedModels } from "../checks/named-models.ts";
import { agePhrase, factsPhrase, priceChecks } from "../checks/prices.ts";
import { noProvider, unreachable } from "../checks/reachable.ts";
import { retirementWords, retiringIn, retiringInConfiguration } from "../checks/retiring.ts";
import { lostAliases, unknownInPersonas } from "../checks/unknown-names.ts";
import { type Check, failure, ok, warning } from "./check.ts";

const mebibyte = 1024 ** 2;
const lowDisk = 512 * mebibyte;
const soonDays = 14;

/** Likely mistakes in the configuration's files. */
export const examineWarnings = ({ warnings, hints }: Pick<LoadedConfig, "warnings" | "hints">): Check[] => [
  ...warnings.map((one) => warning("configuration", formatDiagnostic(one), "Correct the name, or remove it.")),
  ...hints.map((one) => warning("configuration", formatDiagnostic(one), "Remove that line, unless it is meant so.")),
];

export async function examineCoordination({ coordination: url }: Config): Promise<Check[]> {
  if (url === undefined) return [];
  const advice = "Until then nodes admit their shares of the limits. See docs/postgres.md, under Valkey or Redis.";
  try {
    const { place, server, concerns } = await inspectRedis(url, systemClock);
    if (concerns.length === 0) return [ok("coordination", `${place}, ${server}`)];
    return concerns.map((one) =>
      warning("coordination", `${place}, ${server}. ${one}`, "See docs/postgres.md, under Valkey or Redis."),
    );
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return [failure("coordination", error.message, advice)];
  }
}

export function examineFolder(config: Config): Check[] {
  if (statSync(config.data, { throwIfNoEntry: false }) === undefined)
    return [ok("data folder", `${config.data}, made at the first start`)];
  const { bavail, bsize } = statfsSync(config.data);
  const free = bavail * bsize;
  const found = `${config.data}, ${Math.round(free / mebibyte)} MiB free`;
  const disk =
    free >= lowDisk
      ? ok("data folder", found)
      : warning(
          "data folder",
          found,
          "On a full disk nothing new is stored and /health answers 503: make room, or move the folder.",
        );
  return [disk, ...rateLimits(config), ...firstKey(config)];
}

function rateLimits({ data }: Config): Check[] {
  const found = limitsDiagnostic(data);
  return found === undefined ? [] : [warning("rate limits", found, "See docs/troubleshooting.md, under storage.")];
}

function firstKey({ data }: Config): Check[] {
  const path = join(data, firstKeyName);
  if (statSync(path, { throwIfNoEntry: false }) === undefined) return [];
  return [
    warning("first key", `${path} still holds it`, "Note the key, and remove the file: only its hash is needed."),
  ];
}

const loopback = ["127.", "::1", "localhost"];

/** Whether an address is safe to be open, and its certificate good. */
export const examineAddress = (listener: ListenerConfig, config: Config): Check[] => {
  const what = addressPlaceOf(listener);
  return [...exposure(what, listener, config), ...certificate(what, listener)];
};

export const addressPlaceOf = ({ address }: ListenerConfig) => `address ${formatAddress(address)}`;

function exposure(what: string, { address, tls }: ListenerConfig, { trustedProxies }: Config): Check[] {
  if (address.kind === "unix" || tls !== undefined || trustedProxies.length > 0) return [];
  if (loopback.some((start) => address.host.startsWith(start))) return [];
  const advice =
    "Give it a certificate (listen.tls), or put a proxy in front and name it in trusted_proxies. See docs/reverse-proxy.md.";
  return [warning(what, "open to the network without TLS: keys travel readable", advice)];
}

/** Metrics need no key, on every listener. */
export function examineMetrics({ listen, metrics }: Config): Check[] {
  if (!metrics.money || listen.every(isLoopback)) return [];
  const advice =
    "Set metrics.money: false, and send a key with 'admin' among its surfaces to see it. See docs/security.md.";
  return [warning("metrics", "what is spent, in dollars, is open to whoever reaches /metrics", advice)];
}

function certificate(what: string, { tls }: ListenerConfig): Check[] {
  if (tls === undefined) return [];
  try {
    const { expiresAt } = readCertificate(tls);
    const days = Math.floor((expiresAt.getTime() - Date.now()) / dayMs);
    const found = `the certificate is good until ${expiresAt.toISOString().slice(0, 10)}`;
    const advice = "Renew it; a running server takes the new files over by itself.";
    if (days < 0) return [failure(what, "the certificate has expired", advice)];
    return [days < soonDays ? warning(what, found, advice) : ok(what, found)];
  } catch (error) {
    return [
      failure(
        what,
        (error as Error).message,
        "Both files must be PEM, belong together, and be readable by the server's user.",
      ),
    ];
  }
}

/** What reads the files of personas and configuration. */
type Reading = { readonly io: Pick<Io, "readFile"> };

type ExaminedPersonas = {
  readonly personas: readonly Persona[];
  readonly errors: readonly Diagnostic[];
  readonly paths: ReadonlyMap<string, string>;
  /** The folder, or what else they are of. */
  readonly from: string;
};

/** @param failed why the last look for newer facts did */
export const examineFacts = (failed: string | null | undefined): Check[] =>
  failed == null
    ? []
    : [warning("facts", `newer ones could not be had: ${failed}`, "See docs/facts.md, under Renewal.")];

/** Personas that are looked at without a pause: some milliseconds. */
const personasAtOnce = 50;

/**
 * @param called models that were called within 30 days, as `<account>/<model>`
 * @param pause lets others go on between some personas and the next
 */
export async function examinePersonas(
  reading: Reading,
  loaded: ExaminedPersonas,
  configured: Pick<LoadedConfig, "config" | "origins" | "file">,
  called: readonly string[],
  pause?: () => Promise<void>,
): Promise<Check[]> {
  const { config } = configured;
  const now = systemClock.now();
  const words = retirementWords(config, now);
  const aliases = lostAliases(loaded.personas, configured);
  const retiring = retiringInConfiguration(reading, configured, words);
  const prices = priceChecks(config, now);
  const { age, words: priceWords } = prices;
  const others = calledModelWarnings(called, loaded.personas, config, prices, now);
  const assumed = assumedPhrase([...namedModels(loaded.personas, config), ...called], config);
  const priced = retiringInConfiguration(reading, configured, priceWords);
  const misspelt: Diagnostic[] = [];
  const unreached: string[] = [];
  for (let at = 0; at < loaded.personas.length; at += personasAtOnce) {
    await pause?.();
    const files = { personas: loaded.personas.slice(at, at + personasAtOnce), paths: loaded.paths };
    misspelt.push(...unknownInPersonas(reading, files, configured));
    retiring.push(...retiringIn(reading, files, words));
    priced.push(...retiringIn(reading, files, priceWords));
    unreached.push(...unreachable(files.personas, config));
  }
  return [
    ok("personas", `${loaded.personas.length} in ${loaded.from}`),
    ...loaded.errors.map((one) => failure("personas", formatDiagnostic(one), "See docs/personas.md for every field.")),
    ...misspelt.map((one) => failure("personas", formatDiagnostic(one), "Correct the name, or set it up.")),
    ...aliases.errors.map((one) => failure("aliases", one, "Correct the name, or remove the alias.")),
    ...aliases.warnings.map((one) => warning("aliases", one, "Set the provider up, or remove the alias.")),
    ...retiring.map((one) => warning("models", formatDiagnostic(one), "'troupe models' shows which ones live on.")),
    ...others.models.map((one) => warning("models", one, "'troupe models' shows which ones live on.")),
    ok("facts", factsPhrase(now) + assumed),
    (age.isOld ? warning : ok)("prices", agePhrase(age), "See docs/costs.md, under A newer list."),
    ...priced.map((one) => warning("prices", formatDiagnostic(one), "See docs/costs.md, under Prices.")),
    ...others.prices.map((one) => warning("prices", one, "See docs/costs.md, under Prices.")),
    ...unreached.map((id) =>
      warning(`persona ${id}`, noProvider, "Set up one of its models' providers, or add a model."),
    ),
  ];
}
