/**
 * `troupe demo`: a throw-away server with believable data, providers of its own and calls that go on, for a look at the console. It lives in a
 * temporary folder, and neither reads nor writes anything of the user's: no configuration, no variables, no data.
 */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { buildInfo } from "../../build-info.ts";
import type { Services } from "../../call/services.ts";
import { isBehindForwardProxy } from "../../lib/http/forward-proxy.ts";
import type { Io } from "../../lib/process/io.ts";
import type { Logger } from "../../lib/process/log.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { dayMs } from "../../lib/time/duration.ts";
import { formatDiagnostic } from "../../lib/yaml/yaml.ts";
import { RunningServer } from "../../server/server.ts";
import { firstKeyName } from "../../store/sqlite/loss-guard.ts";
import { CommandError, type Context, type ExitCode, loadFrom } from "../context.ts";
import { surfaces } from "../local-server.ts";
import { type DemoProviders, editSupport, personaIds, writeFolder, writeProviders } from "./folder.ts";
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
    const folder = opened.adopt(mkdtempSync(join(tmpdir(), "troupe-demo-")), (one) =>
      rmSync(one, { recursive: true, force: true }),
    );
    const own: Io = { ...io, env: {}, cwd: folder };
    const serve = async (config: string, port = "0", unix?: string) => {
      const data = `${config}.data`;
      const flags = { config, personas: join(folder, "personas"), data, host: "127.0.0.1", port };
      const server = await startServer({ io: own, flags }, unix);
      opened.defer(async () => void (await server.stop(0)));
      await server.services.loading;
      // The keys that are used are others: nobody needs this one, and the doctor would say so.
      rmSync(join(data, firstKeyName), { force: true });
      return server;
    };
    const { personaCount = personaIds.length } = options;
    const providers = await keyedProviders(await serve(writeProviders(folder)));
    const unix = isBehindForwardProxy(io.env) ? join(folder, "socket") : undefined;
    const server = await serve(writeFolder(folder, providers, personaCount), flags.port, unix);
    const { services } = server;
    const { secret: key } = await services.keys.create({ name: "you", tier: "enterprise", perMinute: 6000, surfaces });
    const members = await makeMembers(services);
    const random = new Random(options.seed ?? 24);
    const ended = new AbortController();
    const calls = { url: server.urls[0]!, members, random, signal: ended.signal, fetchOptions: unix ? { unix } : {} };
    // Each persona has served in its first version before one of them is edited.
    for (const id of personaIds) await call(calls, members[0]!, id);
    // Their lines are written before anybody looks.
    while (services.ledger.begun.length > 0) await setImmediate();
    await services.ledger.flush();
    const version = versionOf(services, "acme/support");
    editSupport(folder);
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
    return new Demo({ server, key, folder }, opened.move());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#opened.disposeAsync();
  }
}

/** @param unix a socket where it listens, too @throws CommandError */
async function startServer(context: Context, unix: string | undefined): Promise<RunningServer> {
  const loaded = loadFrom(context);
  if ("errors" in loaded) throw new CommandError(loaded.errors.map(formatDiagnostic).join("\n"));
  const { config, origins } = loaded;
  const socket = unix === undefined ? [] : [{ address: { kind: "unix", path: unix } as const, surfaces }];
  const options = { build: buildInfo, clock: systemClock, log: silent, originsOf: () => origins };
  try {
    return await RunningServer.start({ ...config, listen: [...config.listen, ...socket] }, options);
  } catch (error) {
    throw new CommandError((error as Error).message);
  }
}

/** Keys of the server that stands for the providers. */
async function keyedProviders({ urls, services: { keys } }: RunningServer): Promise<DemoProviders> {
  const keyOf = async (perMinute: number) =>
    (await keys.create({ name: `${perMinute}`, tier: "enterprise", perMinute })).secret;
  return { url: urls[0]!, key: await keyOf(1_000_000), scarceKey: await keyOf(1) };
}

const versionOf = ({ personas }: Services, id: string) => personas.list().find((one) => one.id === id)!.version;
