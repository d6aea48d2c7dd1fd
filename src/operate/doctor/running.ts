/** The checks of `troupe doctor` in a server that runs: those that are safe beside calls, each within a bounded time. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Services } from "../../call/services.ts";
import type { LoadResult } from "../../config/load.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { withTimeout } from "../../lib/time/clock.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { StorageError } from "../../store/contract/storage-error.ts";
import { calledModels } from "../../usage/prices/concerns.ts";
import { lastReconciled, reconciledChecks } from "../reconciliations.ts";
import { type Check, failure, ok, warning } from "./check.ts";
import {
  addressPlaceOf,
  examineAddress,
  examineCoordination,
  examineFacts,
  examineFolder,
  examineMetrics,
  examinePersonas,
  examineWarnings,
} from "./configured.ts";
import { examineDatabase } from "./database.ts";
import { examineMachine } from "./machine.ts";
import { examineMcpServers } from "./mcp.ts";
import { examineUpstreams } from "./upstreams.ts";

/** `here`: nothing leaves the machine but what storage needs; `network`: what costs nothing is asked; `call`: providers and MCP servers are called. */
export type Reach = "here" | "network" | "call";

const limitMs: Readonly<Record<Reach, number>> = { here: 5_000, network: 10_000, call: 45_000 };

/** Never rejects: a check that fails of itself is a finding. */
export async function examineRunning(services: Services, reach: Reach): Promise<Check[]> {
  const { live, comparison, clock } = services;
  const { config } = live;
  const asks = reach !== "here";
  let read: LoadResult | undefined;
  const loaded = () => (read ??= services.readConfiguration?.());
  const parts: readonly (readonly [string, () => Check[] | Promise<Check[]>])[] = [
    ["machine", examineMachine],
    ["configuration", () => configuration(services, loaded())],
    [config.store === undefined ? "data folder" : "database", () => data(services, asks)],
    ["coordination", () => (asks ? examineCoordination(config) : [])],
    [
      "addresses",
      () => config.listen.flatMap((one) => [ok(addressPlaceOf(one), "serves"), ...examineAddress(one, config)]),
    ],
    ["metrics", () => examineMetrics(config)],
    ["facts", () => examineFacts(services.facts.failure)],
    ["personas", () => personas(services, loaded())],
    [
      "providers",
      () =>
        examineUpstreams({
          ...{ accounts: live.accounts.list(), upstream: services.upstream },
          ...{ asksSources: asks, call: reach === "call" },
        }),
    ],
    ["mcp servers", () => examineMcpServers(config, services.personas.list(), reach === "call")],
    ["bills", async () => reconciledChecks(await lastReconciled(services.store.audit))],
    ["facts", () => learnedFacts(services)],
    ["nodes", () => (comparison === undefined ? [] : nodes(comparison.difference))],
  ];
  const found = await Promise.all(
    parts.map(async ([what, run]) => {
      try {
        const limit = limitMs[reach];
        const checks = await withTimeout(clock, (async () => run())(), limit);
        const late = `this check did not end within ${limit / 1000} s, and was left`;
        return checks ?? [warning(what, late, "Look again later; 'troupe doctor' on that machine waits longer.")];
      } catch (error) {
        services.log.warn("a check failed of itself", { check: what, error });
        return [warning(what, "this check failed of itself", "The log says why; 'troupe doctor' makes it too.")];
      }
    }),
  );
  return found.flat();
}

function configuration({ live, originsOf }: Services, loaded: LoadResult | undefined): Check[] {
  if (loaded === undefined) return [ok("configuration", `${originsOf(live.config).size} values are set`)];
  if ("errors" in loaded)
    return loaded.errors.map((one) =>
      failure(
        "configuration",
        formatDiagnostic(one),
        "Correct it: the server goes on with what it read before, and would not start anew.",
      ),
    );
  return [ok("configuration", loaded.file ?? "none: every default"), ...examineWarnings(loaded)];
}

async function data({ store, live: { config }, clock }: Services, asks: boolean): Promise<Check[]> {
  try {
    await store.maintenance.check();
    if (store.maintenance.refusal !== undefined) throw store.maintenance.refusal;
    if (config.store === undefined) return examineFolder(config);
    if (!asks) return [ok("database", "it can be written"), ...examineFolder(config)];
    const { inspectPostgres } = await import("../../store/postgres/inspect.ts");
    const found = await inspectPostgres(config.store, clock, async ({ keys: _, ledger: _l, ...database }) =>
      examineDatabase(database),
    );
    return [...found, ...examineFolder(config)];
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const what = config.store === undefined ? "data folder" : "database";
    return [failure(what, error.message, "See docs/troubleshooting.md, under storage.")];
  }
}

async function personas(services: Services, loaded: LoadResult | undefined): Promise<Check[]> {
  await services.loading;
  const { live, originsOf, personaFaults } = services;
  const { folder } = live.config.personas;
  const all = services.personas.list();
  const paths = new Map(
    all.flatMap(({ id }) => {
      const path = join(folder, `${id}.yaml`);
      return existsSync(path) ? [[id, path] as const] : [];
    }),
  );
  const from = paths.size > 0 ? folder : "the executable";
  const origins = originsOf(live.config);
  const file = loaded !== undefined && "file" in loaded ? loaded.file : undefined;
  const reading = { io: { readFile: (path: string) => (existsSync(path) ? readFileSync(path, "utf8") : undefined) } };
  return examinePersonas(
    reading,
    { personas: all, errors: personaFaults(), paths, from },
    { config: live.config, origins, ...(file !== undefined && { file }) },
    await calledModels(services.store.ledger, services.clock.now()),
    () => new Promise(setImmediate),
  );
}

const shownFacts = 20;

/** What models refused of late that was chosen here. */
const learnedFacts = ({ learned }: Services): Check[] =>
  learned
    .list()
    .slice(0, shownFacts)
    .map(({ provider, model, fact, until }) =>
      warning(
        `${provider}/${model}`,
        `it refused what was chosen here; until ${new Date(until).toISOString()} it is called by '${truncate(fact)}'`,
        "Change the persona's default, or write the fact into the provider's model_rules.",
      ),
    );

function nodes({ nodes: all, program, configuration, personas }: { readonly [Name in Differing]: number }): Check[] {
  const differing = Object.entries({ program, configuration, personas }).filter(([, count]) => count > 0);
  if (differing.length === 0) return [ok("nodes", `${all}, which serve the same`)];
  const advice = "Bring the same files to all of them, and the same program; while they are replaced this is usual.";
  return differing.map(([part, count]) =>
    warning("nodes", `${count} of ${all} serve with other ${part} than this one`, advice),
  );
}

type Differing = "nodes" | "program" | "configuration" | "personas";
