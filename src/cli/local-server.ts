/**
 * A server of this process for commands that may run without one: the configuration's providers and personas at a free port of the
 * loopback address, with a key of its own. What it stores is in a temporary folder, which is removed with it.
 */
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildInfo } from "../build-info.ts";
import type { Config } from "../config/config.ts";
import { isBehindForwardProxy } from "../lib/http/forward-proxy.ts";
import type { Io, Signal } from "../lib/process/io.ts";
import type { LogFields, Logger } from "../lib/process/log.ts";
import { systemClock } from "../lib/time/clock.ts";
import type { Persona } from "../personas/persona.ts";
import { storedListPath } from "../usage/prices/stored-list.ts";
import { copyKeptVersions } from "./commands/kept-versions.ts";
import type { ExitCode } from "./context.ts";

/** What it needs of a command's context. */
type LocalContext = { readonly io: Pick<Io, "stderr" | "env" | "onSignal"> };

type LocalServer = {
  /** Without a trailing slash: personas are at `<url>/v1`, models at `<url>/gateway/v1`, the admin API at `<url>/admin/v1`. */
  readonly url: string;
  /** An API key that opens every surface and model; no rate limit and no budget is in its way. */
  readonly key: string;
  /**
   * To be given to each `fetch` of an address below `url`. Behind a forward proxy it names a unix socket, as Bun sends calls of
   * loopback addresses through the proxy too. Source: https://bun.com/docs/runtime/http/fetch (unix domain sockets)
   */
  readonly fetchOptions: { readonly unix?: string };
};

type LocalServerOptions = {
  /** True where `use` handles SIGINT itself, as a chat does whose answer it ends. */
  readonly keepsInterrupt?: boolean;
  /** Changes each persona before it is served, also after its file has changed. */
  readonly personas?: (persona: Persona) => Persona;
  /** Earlier versions that are asked, `<id>@<version>`: they are taken from where the configuration's server keeps them. */
  readonly versions?: readonly string[];
  /** Told why calls failed, as a server's log says it and no answer does. */
  readonly onFailure?: (cause: string) => void;
};

export const surfaces = ["orchestrator", "gateway", "admin"] as const;

/** Exit codes of a process that a signal ended: 128 and the signal's number. */
const signalCodes: Partial<Record<Signal, ExitCode>> = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 };

/**
 * Runs `use` with a server of this process, and stops it afterwards. A signal ends both. Faults that the start finds, such as an
 * invalid persona, are written to stderr; nothing is logged from then on.
 * @returns the exit code of `use`, or the signal's
 * @throws StorageError where there is no room for temporary files, or what is kept of earlier versions can't be read
 */
export async function withLocalServer(
  { io }: LocalContext,
  config: Config,
  use: (server: LocalServer) => Promise<ExitCode>,
  { keepsInterrupt = false, personas, versions = [], onFailure }: LocalServerOptions = {},
): Promise<ExitCode> {
  // The server is not loaded for the other commands.
  const { RunningServer } = await import("../server/server.ts");
  await using opened = new AsyncDisposableStack();
  const data = opened.adopt(mkdtempSync(join(tmpdir(), "troupe-local-")), (folder) =>
    rmSync(folder, { recursive: true, force: true }),
  );
  copyPriceList(config.data, data);
  const log = new StartLog(io, onFailure);
  const behindForwardProxy = isBehindForwardProxy(io.env);
  const socket = behindForwardProxy ? join(data, "socket") : undefined;
  const own = localConfig(config, data, socket);
  await copyKeptVersions(config, own, versions);
  const options = { build: buildInfo, clock: systemClock, log, behindForwardProxy, env: io.env };
  const server = opened.adopt(
    await RunningServer.start(own, { ...options, ...(personas && { changePersona: personas }) }),
    async (one) => void (await one.stop(0)),
  );
  await server.services.loading;
  log.isOver = true;
  const { secret } = await server.services.keys.create({
    name: "local",
    tier: "enterprise",
    perMinute: 1_000_000,
    surfaces,
  });
  const stopped = Promise.withResolvers<ExitCode>();
  for (const [name, code] of Object.entries(signalCodes) as [Signal, ExitCode][]) {
    if (name !== "SIGINT" || !keepsInterrupt) opened.defer(io.onSignal(name, () => stopped.resolve(code)));
  }
  const fetchOptions = socket === undefined ? {} : { unix: socket };
  return await Promise.race([use({ url: server.urls[0]!, key: secret, fetchOptions }), stopped.promise]);
}

/** The same providers, personas and prices; nothing that reaches other machines' state or holds up a call. */
function localConfig(config: Config, data: string, socket: string | undefined): Config {
  const { store: _, coordination: __, alerts: ___, ...rest } = config;
  const { gatewayPerMinute: ____, ...limits } = config.limits;
  return {
    ...rest,
    listen: [
      { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces },
      ...(socket === undefined ? [] : [{ address: { kind: "unix", path: socket } as const, surfaces }]),
    ],
    data,
    modelLists: { refreshMinutes: 0 },
    workers: 1,
    budgets: { ...config.budgets, all: {}, tiers: { free: {}, pro: {}, enterprise: {} }, keys: {}, tags: {} },
    limits,
  };
}

/** Takes the price list along that 'troupe prices update' stored, so that costs are those of the server. */
function copyPriceList(from: string, to: string): void {
  try {
    copyFileSync(storedListPath(from), storedListPath(to));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
}

/** Writes what a start warns of as other commands do, and once it is over only tells why calls failed. */
class StartLog implements Logger {
  isOver = false;
  readonly dropped = 0;
  readonly #io: Pick<Io, "stderr">;
  readonly #onFailure: LocalServerOptions["onFailure"];

  constructor(io: Pick<Io, "stderr">, onFailure: LocalServerOptions["onFailure"]) {
    this.#io = io;
    this.#onFailure = onFailure;
  }

  debug(): void {}

  info(_message: string, { cause }: LogFields = {}): void {
    if (cause !== undefined) this.#onFailure?.(cause instanceof Error ? cause.message : String(cause));
  }

  warn(message: string, fields?: LogFields): void {
    this.#write("warning", message, fields);
  }

  error(message: string, fields?: LogFields): void {
    this.#write("error", message, fields);
  }

  async flush(): Promise<void> {}

  #write(level: string, message: string, fields: LogFields = {}): void {
    if (this.isOver) {
      this.info(message, fields);
      return;
    }
    const details = Object.values(fields).map((value) => (value instanceof Error ? value.message : String(value)));
    this.#io.stderr.write(`${level}: ${[message, ...details].join(": ")}\n`);
  }
}
