/** Checks what the configuration names: data folder, addresses, certificates, personas. */
import { statfsSync, statSync } from "node:fs";
import { join } from "node:path";
import { retiringModels } from "../../admin/checks/retiring.ts";
import { lostAliases, unknownInPersonas } from "../../admin/checks/unknown-names.ts";
import type { Config, ListenerConfig } from "../../config/config.ts";
import { formatAddress, isLoopback } from "../../config/listeners.ts";
import type { LoadedConfig, LoadResult } from "../../config/load.ts";
import { systemClock } from "../../lib/clock.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { limitsDiagnostic } from "../../limits/machine/limiter.ts";
import { readCertificate } from "../../server/certificate.ts";
import { dryRun } from "../../server/dry-run.ts";
import { inspectRedis } from "../../store/redis/inspect.ts";
import { firstKeyName } from "../../store/sqlite/loss-guard.ts";
import { StorageError } from "../../store/storage-error.ts";
import type { Context } from "../context.ts";
import { loadPersonas, noProvider, unreachable } from "../personas.ts";
import { type Check, failure, ok, warning } from "./check.ts";
import { examineDatabase } from "./database.ts";
import { examineMcpServers } from "./mcp.ts";
import { examineUpstreams } from "./upstreams.ts";

const mebibyte = 1024 ** 2;
const lowDisk = 512 * mebibyte;
const soonDays = 14;

/** @param call whether each provider is sent one small request */
export async function examineInstallation(context: Context, loaded: LoadResult, call: boolean): Promise<Check[]> {
  if ("errors" in loaded) {
    return loaded.errors.map((one) =>
      failure("configuration", formatDiagnostic(one), "'troupe check' shows the same once it is mended."),
    );
  }
  const { config, file = "none: every default", warnings, hints } = loaded;
  return [
    ok("configuration", file),
    ...warnings.map((one) => warning("configuration", formatDiagnostic(one), "Correct the name, or remove it.")),
    ...hints.map((one) => warning("configuration", formatDiagnostic(one), "Remove that line, unless it is meant so.")),
    ...(await data(config)),
    ...(await coordination(config)),
    ...(await Promise.all(config.listen.map((listener) => addresses(listener, config)))).flat(),
    ...money(config),
    ...(await personas(context, loaded)),
    ...(await examineUpstreams(config, call, context.io.env)),
    ...(await examineMcpServers(context, config, call)),
  ];
}

async function data(config: Config): Promise<Check[]> {
  try {
    const { keys, database } = await dryRun(config, systemClock, true);
    if (database !== undefined) return [...examineDatabase(database), ...folder(config)];
    if (keys === undefined) return [ok("data folder", `${config.data}, made at the first start`)];
  } catch (error) {
    if (!(error instanceof StorageError)) throw error;
    const what = config.store === undefined ? "data folder" : "database";
    return [failure(what, error.message, "See docs/troubleshooting.md, under storage.")];
  }
  return folder(config);
}

async function coordination({ coordination: url }: Config): Promise<Check[]> {
  if (url === undefined) return [];
  const advice =
    "Until then nodes admit their shares of the limits, and read each other's streams from the database. See docs/postgres.md, under Valkey or Redis.";
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

function folder(config: Config): Check[] {
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

async function addresses(listener: ListenerConfig, config: Config): Promise<Check[]> {
  const what = `address ${formatAddress(listener.address)}`;
  return [await taken(what, listener), ...exposure(what, listener, config), ...certificate(what, listener)];
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

const loopback = ["127.", "::1", "localhost"];

function exposure(what: string, { address, tls }: ListenerConfig, { trustedProxies }: Config): Check[] {
  if (address.kind === "unix" || tls !== undefined || trustedProxies.length > 0) return [];
  if (loopback.some((start) => address.host.startsWith(start))) return [];
  const advice =
    "Give it a certificate (listen.tls), or put a proxy in front and name it in trusted_proxies. See docs/reverse-proxy.md.";
  return [warning(what, "open to the network without TLS: keys travel readable", advice)];
}

/** Metrics need no key, on every listener. */
function money({ listen, metrics }: Config): Check[] {
  if (!metrics.money || listen.every(isLoopback)) return [];
  const advice =
    "Set metrics.money: false, and send a key with 'admin' among its surfaces to see it. See docs/security.md.";
  return [warning("metrics", "what is spent, in dollars, is open to whoever reaches /metrics", advice)];
}

function certificate(what: string, { tls }: ListenerConfig): Check[] {
  if (tls === undefined) return [];
  try {
    const { expiresAt } = readCertificate(tls);
    const days = Math.floor((expiresAt.getTime() - Date.now()) / 86_400_000);
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

async function personas(context: Context, configured: LoadedConfig): Promise<Check[]> {
  const { config } = configured;
  const loaded = await loadPersonas(context, config.personas);
  const unreached = unreachable(loaded.personas, config);
  const misspelt = unknownInPersonas(context, loaded, configured);
  const aliases = lostAliases(loaded.personas, configured);
  return [
    ok("personas", `${loaded.personas.length} in ${loaded.from}`),
    ...loaded.errors.map((one) => failure("personas", formatDiagnostic(one), "See docs/personas.md for every field.")),
    ...misspelt.map((one) => failure("personas", formatDiagnostic(one), "Correct the name, or set it up.")),
    ...aliases.errors.map((one) => failure("aliases", one, "Correct the name, or remove the alias.")),
    ...aliases.warnings.map((one) => warning("aliases", one, "Set the provider up, or remove the alias.")),
    ...retiringModels(context, loaded, configured, systemClock.now()).map((one) =>
      warning("models", formatDiagnostic(one), "'troupe models' shows which ones live on."),
    ),
    ...unreached.map((id) =>
      warning(`persona ${id}`, noProvider, "Set up one of its models' providers, or add a model."),
    ),
  ];
}
