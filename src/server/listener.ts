/**
 * One address: the server that takes its connections, and those before it that only finish theirs. Bun can't change the
 * certificate of a server that runs, so a new one takes over the port.
 */
import { chmodSync, unlinkSync } from "node:fs";
import type { ListenerConfig } from "../config/config.ts";
import { formatAddress } from "../config/listeners.ts";
import { isLoopback } from "../http/allowed-host.ts";
import { type App, buildApp } from "../http/app.ts";
import type { Services } from "../http/services.ts";
import { canShare, listenBeside, type Sockets, steerTo } from "../lib/linux/reuse-port.ts";
import type { Telemetry } from "../observability/otlp/telemetry.ts";
import type { Certificate } from "./certificate.ts";

/** Seconds without any progress after which Bun drops a connection, while a request is still being received. */
export const idleSeconds = 30;
/** Bun looks only every few seconds. After this time no connection is left that was idle all along. */
export const connectionDrainSeconds = idleSeconds + 5;
/** Our own limit is checked first and answers in the API's form; Bun's would answer with an empty body. */
const noNativeBodyLimit = 2 ** 50;

/** One server on the address, and whether it has been succeeded. */
type Generation = { readonly app: App; readonly sockets: Sockets; readonly host: { draining: boolean } };

export type ListenerOptions = {
  readonly config: ListenerConfig;
  readonly certificate: Certificate | undefined;
  readonly telemetry: Telemetry | undefined;
  /** Listens although another process does, and takes all new connections from it. */
  readonly isUpgrade: boolean;
};

export class Listener {
  readonly config: ListenerConfig;
  readonly #services: Services;
  readonly #telemetry: Telemetry | undefined;
  /** Those that listen, in the order in which the kernel counts them. */
  #generations: Generation[] = [];
  /** Those with connections. */
  readonly #alive = new Set<Generation>();
  #current: Generation;
  #certificate: Certificate | undefined;
  #offs: (() => void)[] = [];
  /** Another process has the address now. */
  #isHandedOff = false;

  /** Listens. @throws the system's error for an address that can't be had */
  constructor(services: Services, { config, certificate, telemetry, isUpgrade }: ListenerOptions) {
    this.config = config;
    this.#services = services;
    this.#telemetry = telemetry;
    this.#certificate = certificate;
    const sharers = services.live.config.workers;
    // Of several processes' address their supervisor has made sure.
    if (!isUpgrade && sharers === 1) assertFree(config.address);
    this.#current = this.#listen(config.address, isUpgrade);
  }

  /** As a URL (a unix socket as `unix:` and the path), with the port that was really given. */
  get address(): string {
    const { hostname = "", port = 0 } = this.#current.app.server!;
    const { address } = this.config;
    return addressText({
      ...this.config,
      address: address.kind === "unix" ? address : { ...address, host: hostname, port },
    });
  }

  /** Requests that are being answered, open streams included. */
  get pending(): number {
    return [...this.#alive].reduce((sum, { app }) => sum + (app.server?.pendingRequests ?? 0), 0);
  }

  /** Whether this is another certificate than the one in use. */
  differs({ cert, key }: Certificate): boolean {
    return cert !== this.#certificate?.cert || key !== this.#certificate.key;
  }

  /** From now on new connections see this certificate; those that stand go on with the old one until they end. */
  renew(certificate: Certificate): void {
    this.#certificate = certificate;
    const old = this.#current;
    const { address } = this.config;
    const port = old.app.server?.port ?? 0;
    // Where a port can't be shared, connections that come in between are refused.
    if (!canShare()) void this.#end(old);
    this.#current = this.#listen(address.kind === "unix" ? address : { ...address, port }, true);
    old.host.draining = true;
    if (canShare())
      this.#offs.push(this.#services.clock.setTimer(connectionDrainSeconds * 1000, () => void this.#end(old)));
  }

  /** Another process takes the new connections: each one here ends with its next answer. */
  handOff(): void {
    this.#isHandedOff = true;
    for (const { host } of this.#alive) host.draining = true;
  }

  /** Takes no connections any more. @returns when what runs has ended */
  async stop(): Promise<void> {
    for (const off of this.#offs) off();
    for (const { host } of this.#alive) host.draining = true;
    await Promise.all([...this.#alive].map(({ app }) => app.server!.stop()));
    this.#leave();
  }

  /** Ends what runs. */
  async cut(): Promise<void> {
    for (const off of this.#offs) off();
    await Promise.all([...this.#alive].map(({ app }) => app.server!.stop(true)));
    this.#leave();
  }

  #leave(): void {
    if (!this.#isHandedOff) removeSocket(this.config);
  }

  /** @param takesAll whether those who listen there already are given no new connections any more */
  #listen(address: ListenerConfig["address"], takesAll: boolean): Generation {
    const host = {
      services: this.#services,
      telemetry: this.#telemetry,
      checksNames: isLoopback(this.config),
      draining: false,
    };
    const app = buildApp(host, this.config.surfaces);
    if (address.kind === "unix") removeSocket(this.config);
    const listen = () => {
      app.listen({
        ...(address.kind === "unix"
          ? { unix: address.path }
          : { hostname: address.host, port: address.port, reusePort: canShare() }),
        ...(this.#certificate === undefined
          ? {}
          : { tls: { cert: this.#certificate.cert, key: this.#certificate.key } }),
        development: false,
        idleTimeout: idleSeconds,
        maxRequestBodySize: noNativeBodyLimit,
      } as never);
    };
    const sockets = takesAll ? listenBeside(listen, this.#services.live.config.workers) : [];
    if (!takesAll) listen();
    if (address.kind === "unix") chmodSync(address.path, 0o660);
    const generation = { app, sockets, host };
    this.#generations.push(generation);
    this.#alive.add(generation);
    return generation;
  }

  async #end(old: Generation): Promise<void> {
    const stopped = old.app.server!.stop();
    const place = this.#generations.indexOf(old);
    const last = this.#generations.at(-1)!;
    // The kernel fills the gap with the last.
    this.#generations = this.#generations.with(place, last).slice(0, -1);
    // Among several workers nobody knows the places of all; where one is wrong, the kernel spreads over those that are left.
    if (this.#services.live.config.workers === 1)
      steerTo(this.#current.sockets, this.#generations.indexOf(this.#current));
    await stopped;
    this.#alive.delete(old);
  }
}

/**
 * Servers that share a port do not notice each other, so one started by mistake must be told.
 * @returns the address, with a port that is free where any would do
 * @throws the system's error for an address that can't be had
 */
export function assertFree(address: ListenerConfig["address"]): ListenerConfig["address"] {
  if (address.kind === "unix") return address;
  const { host: hostname, port } = address;
  const server = Bun.serve({ hostname, port, reusePort: false, development: false, fetch: () => new Response() });
  const given = server.port ?? port;
  void server.stop(true);
  return { ...address, port: given };
}

/** As a URL; a unix socket as `unix:` and the path. */
export function addressText({ address, tls }: ListenerConfig): string {
  const text = formatAddress(address);
  return address.kind === "unix" ? text : `${tls === undefined ? "http" : "https"}://${text}`;
}

function removeSocket({ address }: ListenerConfig): void {
  if (address.kind !== "unix") return;
  try {
    unlinkSync(address.path);
  } catch {
    // It was not there.
  }
}
