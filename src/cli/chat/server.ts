/** Finds the server that a chat calls: one that is named, the configuration's if it runs, or one of this process. */
import { join } from "node:path";
import type { Config, ListenerConfig } from "../../config/config.ts";
import { firstKeyName } from "../../store/sqlite/loss-guard.ts";
import { reachable } from "../commands/health.ts";
import { CommandError, type Context, type ExitCode, UsageError } from "../context.ts";
import { withLocalServer } from "../local-server.ts";
import type { Server } from "./client.ts";

export type ServerOptions = {
  readonly url?: string;
  readonly key?: string;
};

const patienceMs = 1000;

/** @throws UsageError where a server is named and there is no key */
export async function withServer(
  context: Context,
  config: Config,
  options: ServerOptions,
  use: (server: Server) => Promise<ExitCode>,
): Promise<ExitCode> {
  const server = await findServer(context, config, options);
  return server === undefined ? withLocalServer(context, config, use, { keepsInterrupt: true }) : use(server);
}

/** @returns undefined where none is named and none runs whose key is known. @throws UsageError where one is named and there is no key */
export async function findServer(
  context: Context,
  config: Config,
  { url, key: given }: ServerOptions,
): Promise<Server | undefined> {
  const { env } = context.io;
  const key = given ?? (env["TROUPE_KEY"] || env["TROUPE_API_KEY"] || undefined);
  if (url !== undefined) {
    if (key === undefined) throw new UsageError("The server's key is missing: give it by TROUPE_KEY or --key.");
    return { url: addressOf(url), key };
  }
  const running = await runningServer(config.listen);
  const usable = key ?? (running && firstKeyOf(context, config));
  return running !== undefined && usable !== undefined ? { ...running, key: usable } : undefined;
}

/** The server that is named, or the configuration's where it runs. @throws UsageError where there is no key, CommandError for no server */
export async function serverOf(
  { io: { env } }: Context,
  config: Config,
  { url, key: given }: ServerOptions,
): Promise<Server> {
  const key = given ?? (env["TROUPE_KEY"] || env["TROUPE_API_KEY"] || undefined);
  if (key === undefined) throw new UsageError("The server's key is missing: give it by TROUPE_KEY or --key.");
  if (url !== undefined) return { url: addressOf(url), key };
  const running = await runningServer(config.listen);
  if (running === undefined)
    throw new CommandError("No server of this configuration runs here: say which one by --url.");
  return { ...running, key };
}

/** Without what its base paths add. @throws CommandError */
function addressOf(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null || !/^https?:$/.test(parsed.protocol))
    throw new CommandError(`'${url}' is no http or https URL.`);
  return `${parsed.origin}${parsed.pathname.replace(/(?:\/gateway)?(?:\/v1)?\/*$/, "")}`;
}

/** @returns the first listener that answers as this program does */
async function runningServer(listen: readonly ListenerConfig[]): Promise<Omit<Server, "key"> | undefined> {
  for (const { address, tls } of listen) {
    if (address.kind === "tcp" && address.port === 0) continue;
    const host = address.kind === "unix" ? "localhost" : `${reachable(address.host)}:${address.port}`;
    const url = `${tls === undefined ? "http" : "https"}://${host}`;
    // The certificate is made for another name than this one.
    const fetchOptions = {
      ...(address.kind === "unix" && { unix: address.path }),
      ...(tls !== undefined && { tls: { rejectUnauthorized: false } }),
    };
    const signal = AbortSignal.timeout(patienceMs);
    const answer = await fetch(`${url}/healthz`, { ...fetchOptions, redirect: "manual", signal }).catch(
      () => undefined,
    );
    if (answer?.status === 200 && (await answer.text()) === "ok") return { url, fetchOptions };
  }
  return undefined;
}

/** The key of a first start, where its file is still there. */
function firstKeyOf({ io }: Context, { data }: Config): string | undefined {
  try {
    return io.readFile(join(data, firstKeyName))?.trim() || undefined;
  } catch {
    return undefined;
  }
}
