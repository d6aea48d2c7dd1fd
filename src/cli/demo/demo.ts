/**
 * `troupe demo`: a throw-away server with believable data, providers of its own and calls that go on, for a look at the console. It lives in a
 * temporary folder, and neither reads nor writes anything of the user's: no configuration, no variables, no data.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildInfo } from "../../build-info.ts";
import type { Services } from "../../call/services.ts";
import type { Config } from "../../config/config.ts";
import type { LoadedConfig } from "../../config/load.ts";
import { isBehindForwardProxy } from "../../lib/http/forward-proxy.ts";
import type { Io } from "../../lib/process/io.ts";
import type { Logger } from "../../lib/process/log.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { RunningServer } from "../../server/server.ts";
import { CommandError, type Context, type ExitCode, loadFrom } from "../context.ts";
import { surfaces } from "../local-server.ts";
import { startFakeProviders } from "./fake-providers.ts";
import { DemoFolder, personaIds } from "./folder.ts";
import { call, makeLiveCalls } from "./live-calls.ts";
import { Month } from "./month.ts";
import { openBrowser } from "./open-browser.ts";
import { makeMembers, settleBudgets, writeAudit } from "./people.ts";
import { Random } from "./random.ts";

type DemoOptions = {
  readonly seed?: number;
  /** Epoch milliseconds at which the month of calls ends; default: now. */
  readonly now?: number;
  /** Lines of the ledger. */
  readonly lines?: number;
  readonly personaCount?: number;
  readonly open?: boolean;
  readonly live?: boolean;
};

const silent: Logger = { debug() {}, info() {}, warn() {}, error() {}, flush: async () => {}, dropped: 0 };

export async function demo(given: Context, options: DemoOptions = {}): Promise<ExitCode> {
  const { io } = given;
  const stopped = Promise.withResolvers<void>();
  await using running = new AsyncDisposableStack();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    running.defer(io.onSignal(name, () => stopped.resolve()));
  io.stderr.write("Making a server with a month of calls …\n");
  const started = running.use(await Demo.start(given, options));
  const { url, key } = started;
  io.stdout.write(`
Console:    ${url}/console
Admin key:  ${key}

Sign in with the key. Everything is made up, and gone when this ends: Ctrl-C.
`);
  if (options.open !== false) openBrowser(io, `${url}/console`);
  await stopped.promise;
  return 0;
}

export class Demo implements AsyncDisposable {
  /** Without a trailing slash. */
  readonly url: string;
  /** A key that opens everything, the admin API included. */
  readonly key: string;
  /** Where it keeps all that it has; removed at its end. */
  readonly folder: string;
  readonly server: RunningServer;
  readonly #opened: AsyncDisposableStack;

  private constructor({ server, key, folder }: Pick<Demo, "server" | "key" | "folder">, opened: AsyncDisposableStack) {
    this.server = server;
    this.url = server.urls[0]!;
    this.key = key;
    this.folder = folder;
    this.#opened = opened;
  }

  /** @throws CommandError where the port is taken; or the system's, where there is no room for temporary files */
  static async start({ io, flags }: Context, options: DemoOptions = {}): Promise<Demo> {
    await using opened = new AsyncDisposableStack();
    const path = opened.adopt(mkdtempSync(join(tmpdir(), "troupe-demo-")), (one) =>
      rmSync(one, { recursive: true, force: true }),
    );
    const folder = new DemoFolder(path);
    const providers = opened.use(startFakeProviders());
    folder.write(providers.url, options.personaCount ?? personaIds.length);
    const own: Io = { ...io, env: {}, cwd: path };
    const { personas, config } = folder;
    const place = { config, personas, data: join(path, "data"), host: "127.0.0.1", port: flags.port ?? "0" };
    const loaded = loadFrom({ io: own, flags: place });
    if ("errors" in loaded) throw new CommandError(loaded.errors.map(formatDiagnostic).join("\n"));
    const socket = isBehindForwardProxy(io.env) ? join(path, "socket") : undefined;
    const listen = [
      ...loaded.config.listen,
      ...(socket === undefined ? [] : [{ address: { kind: "unix", path: socket } as const, surfaces }]),
    ];
    const server = opened.adopt(
      await startServer({ ...loaded.config, listen }, loaded.origins),
      async (one) => void (await one.stop(0)),
    );
    const { services } = server;
    await services.loading;
    const { secret: key } = await services.keys.create({ name: "you", tier: "enterprise", perMinute: 6000, surfaces });
    // The key that is printed is another: nobody needs this one, and the doctor would say so.
    rmSync(join(place.data, "first-key"), { force: true });
    const members = await makeMembers(services);
    const random = new Random(options.seed ?? 24);
    const ended = new AbortController();
    const fetchOptions = socket === undefined ? {} : { unix: socket };
    const calls = { url: server.urls[0]!, members, random, signal: ended.signal, fetchOptions };
    // Each persona has served in its first version before one of them is edited.
    for (const id of personaIds) await call(calls, members[0]!, id);
    const version = versionOf(services, "acme/support");
    folder.edit();
    await services.rereadPersonas();
    await writeAudit(services, members);
    const now = options.now ?? systemClock.now();
    const before = { version, until: now - 2 * dayMs };
    const lines = options.lines ?? 24_000;
    await new Month({ services, members, random, now, before }).fill(lines);
    await settleBudgets(services, members);
    if (options.live !== false) {
      const live = makeLiveCalls(calls, lines);
      opened.defer(() => live);
    }
    opened.defer(() => ended.abort());
    return new Demo({ server, key, folder: path }, opened.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}

async function startServer(config: Config, origins: LoadedConfig["origins"]): Promise<RunningServer> {
  const options = { build: buildInfo, clock: systemClock, log: silent, originsOf: () => origins };
  try {
    return await RunningServer.start(config, options);
  } catch (error) {
    throw new CommandError((error as Error).message);
  }
}

const versionOf = ({ personas }: Services, id: string) => personas.list().find((one) => one.id === id)!.version;
