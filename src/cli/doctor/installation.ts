/** Checks what the configuration names: data folder, addresses, certificates, personas. */

import type { Config, ListenerConfig } from "../../config/config.ts";
import type { LoadResult } from "../../config/load.ts";
import type { Environment } from "../../config/variables.ts";
import { FetchTransport } from "../../lib/http/fetch-transport.ts";
import { isBehindForwardProxy } from "../../lib/http/forward-proxy.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { type Check, failure, ok } from "../../operate/doctor/check.ts";
import {
  addressPlaceOf,
  examineAddress,
  examineCoordination,
  examineFacts,
  examineFolder,
  examineMetrics,
  examinePersonas,
  examineWarnings,
} from "../../operate/doctor/configured.ts";
import { examineDatabase } from "../../operate/doctor/database.ts";
import { examineMcpServers } from "../../operate/doctor/mcp.ts";
import { examineUpstreams } from "../../operate/doctor/upstreams.ts";
import { providers } from "../../providers/registry.ts";
import { dryRun } from "../../server/dry-run.ts";
import { StorageError } from "../../store/contract/storage-error.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { Upstream } from "../../upstream/client.ts";
import { openCredentialSources } from "../../upstream/credentials/open.ts";
import type { Context } from "../context.ts";
import { loadPersonas } from "../personas.ts";
import { examineBills } from "./bills.ts";

/** @param call whether each provider is sent one small request */
export async function examineInstallation(context: Context, loaded: LoadResult, call: boolean): Promise<Check[]> {
  if ("errors" in loaded) {
    return loaded.errors.map((one) =>
      failure("configuration", formatDiagnostic(one), "'troupe check' shows the same once it is mended."),
    );
  }
  const { config, file = "none: every default" } = loaded;
  const personas = await loadPersonas(context, config.personas);
  const stored = await data(config);
  return [
    ok("configuration", file),
    ...examineWarnings(loaded),
    ...stored.checks,
    ...(await examineCoordination(config)),
    ...(await Promise.all(config.listen.map((listener) => addresses(listener, config)))).flat(),
    ...examineMetrics(config),
    ...(await examinePersonas(context, personas, loaded, stored.called)),
    ...(await upstreams(config, call, context.io.env)),
    ...(await examineMcpServers(config, personas.personas, call)),
    ...(call ? await examineBills(context, config) : []),
  ];
}

async function data(config: Config): Promise<{ checks: Check[]; called: readonly string[] }> {
  try {
    const { keys, database, factsFailure, called = [] } = await dryRun(config, systemClock, true);
    const beside = [...examineFolder(config), ...examineFacts(factsFailure)];
    if (database !== undefined) return { checks: [...examineDatabase(database), ...beside], called };
    const checks = keys === undefined ? [ok("data folder", `${config.data}, made at the first start`)] : beside;
    return { checks, called };
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const what = config.store === undefined ? "data folder" : "database";
    return { checks: [failure(what, error.message, "See docs/troubleshooting.md, under storage.")], called: [] };
  }
}

async function addresses(listener: ListenerConfig, config: Config): Promise<Check[]> {
  return [await taken(addressPlaceOf(listener), listener), ...examineAddress(listener, config)];
}

async function taken(what: string, { address, tls }: ListenerConfig): Promise<Check> {
  if (address.kind === "unix" || address.port === 0) return ok(what, "free to use");
  const { host: hostname, port } = address;
  try {
    await Bun.serve({ hostname, port, reusePort: false, development: false, fetch: () => new Response() }).stop(true);
    return ok(what, "free to use");
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== "EADDRINUSE")
      return failure(
        what,
        String(code ?? error),
        "Choose an address of this machine in 'listen', and a port this user may have.",
      );
    const host =
      hostname === "0.0.0.0" || hostname === "::" ? "localhost" : hostname.includes(":") ? `[${hostname}]` : hostname;
    const url = `${tls === undefined ? "http" : "https"}://${host}:${port}/version`;
    const answer = await fetch(url, { signal: AbortSignal.timeout(2000), tls: { rejectUnauthorized: false } })
      .then((response) => response.json() as Promise<{ name?: string; version?: string }>)
      .catch(() => undefined);
    if (answer?.name === "troupe") return ok(what, `a Troupe ${answer.version} serves there`);
    return failure(what, "another program has it", `'ss -ltnp' shows which; end it, or choose another port.`);
  }
}

function upstreams(config: Config, call: boolean, env: Environment): Promise<Check[]> {
  const accounts = signedAccounts(config, env).list();
  return examineUpstreams({ accounts, upstream: new Upstream(systemClock), asksSources: true, call });
}

/** Accounts that can be called, with what signs their requests. */
export function signedAccounts(config: Config, env: Environment): Accounts {
  const transport = isBehindForwardProxy(env) ? new FetchTransport() : undefined;
  const sources = openCredentialSources({ clock: systemClock, log: { warn: () => {} }, env, transport });
  return new Accounts(config.providers, providers, (auth, account) => sources.signer(auth, account));
}
