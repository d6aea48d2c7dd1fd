/** `troupe check`: checks what a start would, without starting. */

import { isKeyless } from "../../config/catalog.ts";
import type { Config } from "../../config/config.ts";
import { formatAddress } from "../../config/listeners.ts";
import { printable } from "../../lib/text/printable.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { type Diagnostic, formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { limitsDiagnostic } from "../../limits/machine/limiter.ts";
import { assumedPhrase, calledModelWarnings } from "../../operate/checks/called-models.ts";
import { namedModels } from "../../operate/checks/named-models.ts";
import { agePhrase, factsPhrase, priceChecks, priceWarnings } from "../../operate/checks/prices.ts";
import { noProvider, unreachable } from "../../operate/checks/reachable.ts";
import { retiringModels } from "../../operate/checks/retiring.ts";
import { lostAliases, unknownInPersonas } from "../../operate/checks/unknown-names.ts";
import { loadSuites } from "../../operate/suites/suites.ts";
import { providers } from "../../providers/registry.ts";
import { dryRun } from "../../server/dry-run.ts";
import { StorageError } from "../../store/contract/storage-error.ts";
import { inspectRedis } from "../../store/redis/inspect.ts";
import { type Context, codeOf, type ExitCode, loadFrom } from "../context.ts";
import { type LoadedPersonas, loadPersonas } from "../personas.ts";
import { printJson } from "../print/print-json.ts";
import { formatFields } from "../print/table.ts";

type CheckReport = {
  readonly summary: Readonly<Record<string, string>>;
  readonly errors: readonly string[];
  readonly warnings: readonly string[];
  readonly code: ExitCode;
};

export async function check(context: Context, { json }: { readonly json?: boolean }): Promise<ExitCode> {
  const { summary, errors, warnings, code } = await runChecks(context);
  const ok = errors.length === 0;
  if (json) printJson(context.io, { ok, errors, warnings, summary });
  else {
    for (const warning of warnings) context.io.stderr.write(`warning: ${warning}\n`);
    for (const diagnostic of errors) context.io.stderr.write(`${diagnostic}\n`);
    context.io.stdout.write(formatFields(summary));
    context.io.stdout.write(ok ? "no errors\n" : `${errors.length} ${errors.length === 1 ? "error" : "errors"}\n`);
  }
  return code;
}

/** With the kind of its credentials, where it has no key; `doctor` asks for them, and names their source. */
function describe({ name, baseUrl, dialect, options, apiKey }: Config["providers"][number]): string {
  const provider = providers.find((one) => one.name === dialect);
  const auth = provider?.kind === "remote" ? provider.auth : undefined;
  return `${name} (${baseUrl}${auth !== undefined && isKeyless(auth, options, apiKey) ? `, ${auth.kind}` : ""})`;
}

async function runChecks(context: Context): Promise<CheckReport> {
  const loaded = loadFrom(context);
  if ("errors" in loaded)
    return { summary: {}, errors: format(loaded.errors), warnings: [], code: codeOf(loaded.errors) };
  const { config, file = "none: every default" } = loaded;
  const personas = await loadPersonas(context, config.personas);
  const [storage, coordination] = await Promise.all([storageOf(config), coordinationOf(config)]);
  const aliases = lostAliases(personas.personas, loaded);
  const misspelt = unknownInPersonas(context, personas, loaded);
  const tests = await loadSuites(personas);
  const now = systemClock.now();
  const prices = priceChecks(config, now);
  const called = calledModelWarnings(storage.called, personas.personas, config, prices, now);
  const errors = [...format([...personas.errors, ...misspelt, ...tests.errors]), ...aliases.errors, ...storage.errors];
  return {
    summary: {
      configuration: file,
      listen: config.listen
        .map(({ address, surfaces }) => `${formatAddress(address)} (${surfaces.join(", ")})`)
        .join(", "),
      providers: config.providers.map(describe).join(", ") || "none",
      personas: `${personas.personas.length} in ${personas.from}`,
      data: storage.summary,
      facts: factsPhrase(now) + assumedPhrase([...namedModels(personas.personas, config), ...storage.called], config),
      prices: agePhrase(prices.age),
      ...(coordination && { coordination: coordination.summary }),
    },
    errors,
    code: errors.length === 0 ? 0 : 1,
    warnings: [
      ...format([...loaded.warnings, ...loaded.hints]),
      ...unreachableOf(personas, config),
      ...aliases.warnings,
      ...format(retiringModels(context, personas, loaded, now)),
      ...called.models,
      ...format(priceWarnings(context, personas, loaded, prices)),
      ...called.prices,
      ...limitsOf(config),
      ...(storage.factsFailure == null
        ? []
        : [`facts: newer ones could not be had: ${printable(storage.factsFailure)}`]),
      ...(coordination?.warnings ?? []),
    ],
  };
}

const format = (errors: readonly Diagnostic[]) => errors.map(formatDiagnostic);

const unreachableOf = ({ personas }: LoadedPersonas, config: Config) =>
  unreachable(personas, config).map((id) => `${id}: ${noProvider}`);

function limitsOf({ data }: Config): string[] {
  const found = limitsDiagnostic(data);
  return found === undefined ? [] : [found];
}

/** A start goes on without it, each node with its share of the limits. */
async function coordinationOf({ coordination }: Config): Promise<{ summary: string; warnings: string[] } | undefined> {
  if (coordination === undefined) return undefined;
  try {
    const { place, server, concerns } = await inspectRedis(coordination, systemClock);
    return { summary: `${place} (${server})`, warnings: concerns.map((one) => `coordination: ${place}: ${one}`) };
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return { summary: error.path, warnings: [`coordination: ${error.message}`] };
  }
}

type Storage = {
  readonly summary: string;
  readonly errors: string[];
  readonly factsFailure?: string | null | undefined;
  readonly called: readonly string[];
};

async function storageOf(config: Config): Promise<Storage> {
  const { data, store } = config;
  try {
    const { place, keys, factsFailure, called = [] } = await dryRun(config, systemClock);
    const where = store === undefined ? data : `${data}, and ${place}`;
    if (keys === undefined) return { summary: `${where}, made at the first start`, errors: [], called };
    const active = keys.filter(({ state }) => state === "active").length;
    return { summary: `${where} (${active} of ${keys.length} keys active)`, errors: [], factsFailure, called };
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    return { summary: data, errors: [error.message], called: [] };
  }
}
