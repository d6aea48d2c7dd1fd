/** A running Troupe: its listeners, its drain, and the signals that move it. */
import { chmodSync, unlinkSync } from "node:fs";
import type { Config, Listener } from "../config/config.ts";
import type { Clock } from "../lib/clock.ts";
import { liveFrom, openServices, type ServiceOptions, type Services } from "../services/services.ts";
import { type App, buildApp } from "./app.ts";

/** Seconds without any progress after which Bun drops a connection, while a request is still being received. */
const idleSeconds = 30;
/** Our own limit is checked first and answers in the API's form; Bun's would answer with an empty body. */
const noNativeBodyLimit = 2 ** 50;

export class RunningServer {
  readonly services: Services;
  readonly #apps: readonly { readonly app: App; readonly listener: Listener }[];

  private constructor(services: Services, apps: readonly { app: App; listener: Listener }[]) {
    this.services = services;
    this.#apps = apps;
  }

  /**
   * Opens the services and listens at every address.
   * @throws StorageError, or the system's error for an address that can't be had; then nothing stays open
   */
  static async start(config: Config, options: ServiceOptions): Promise<RunningServer> {
    const services = await openServices(config, options);
    const apps: { app: App; listener: Listener }[] = [];
    try {
      for (const listener of config.listen) apps.push({ app: listen(services, listener), listener });
      return new RunningServer(services, apps);
    } catch (error) {
      await Promise.all(apps.map(({ app }) => app.stop(true)));
      await services.close();
      throw error;
    }
  }

  /** Where it listens, as URLs (unix sockets as `unix:` and the path), with the ports that were really given. */
  get addresses(): string[] {
    return this.#apps.map(({ app, listener }) => {
      if (listener.address.kind === "unix") return `unix:${listener.address.path}`;
      const { hostname, port } = app.server!;
      const host = hostname?.includes(":") ? `[${hostname}]` : hostname;
      return `${listener.tls === undefined ? "http" : "https"}://${host}:${port}`;
    });
  }

  /** Requests that are being answered, open streams included. */
  get pending(): number {
    return this.#apps.reduce((sum, { app }) => sum + (app.server?.pendingRequests ?? 0), 0);
  }

  /** Takes over what may change while running; listeners and the data folder stay as they are. */
  reload(config: Config): void {
    this.services.live = liveFrom(config);
  }

  /**
   * Stops taking connections, lets what runs end for as long as given, cuts the rest, and closes everything.
   * @returns how many requests were cut
   */
  async stop(drainSeconds: number): Promise<number> {
    this.services.draining = true;
    const stopped = Promise.all(this.#apps.map(({ app }) => app.server!.stop()));
    const drained = await raceWith(this.services.clock, stopped, drainSeconds * 1000);
    const cut = drained ? 0 : this.pending;
    if (!drained) await Promise.all(this.#apps.map(({ app }) => app.server!.stop(true)));
    for (const { listener } of this.#apps) removeSocket(listener);
    await this.services.close();
    return cut;
  }
}

function listen(services: Services, { address, surfaces, tls }: Listener): App {
  const app = buildApp({ services, retiring: false }, surfaces);
  if (address.kind === "unix") removeSocket({ address, surfaces });
  const where =
    address.kind === "unix" ? { unix: address.path } : { hostname: address.host, port: address.port, reusePort: false };
  app.listen({
    ...where,
    ...(tls === undefined ? {} : { tls: { cert: Bun.file(tls.cert), key: Bun.file(tls.key) } }),
    development: false,
    idleTimeout: idleSeconds,
    maxRequestBodySize: noNativeBodyLimit,
  } as never);
  if (address.kind === "unix") chmodSync(address.path, 0o660);
  return app;
}

function removeSocket({ address }: Listener): void {
  if (address.kind !== "unix") return;
  try {
    unlinkSync(address.path);
  } catch {
    // It was not there.
  }
}

/** @returns whether the work was done in time */
async function raceWith(clock: Clock, work: Promise<unknown>, ms: number): Promise<boolean> {
  let off = () => {};
  const over = new Promise<boolean>((resolve) => {
    off = clock.after(ms, () => resolve(false));
  });
  try {
    return await Promise.race([work.then(() => true), over]);
  } finally {
    off();
  }
}
