/**
 * One address of the configuration, with the servers that listen at it. Bun can't change the certificate of a running server,
 * so a renewed certificate gets a new server on the same port, and the old one drains.
 */
import { chmodSync, unlinkSync } from "node:fs";
import { accountRoutes } from "../account/routes.ts";
import { adminRoutes } from "../admin/routes.ts";
import type { ServerHandle } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import type { Config, ListenerConfig } from "../config/config.ts";
import { formatAddress, isLoopback } from "../config/listeners.ts";
import { type App, buildApp } from "../http/app.ts";
import { webSocketHandlers } from "../http/websocket/upgrade.ts";
import type { Certificate } from "../lib/http/certificate.ts";
import { canShare, listenBeside, type Sockets, steerTo } from "../lib/linux/reuse-port.ts";
import { probeSilentPeers } from "../lib/linux/tcp-keep-alive.ts";
import type { Telemetry } from "../observability/otlp/telemetry.ts";

/** In seconds. Bun checks idle timeouts every few seconds: after this time every connection that was idle is closed. */
export const connectionDrainSeconds = ({ limits }: Pick<Config, "limits">): number => limits.idleConnectionSeconds + 5;
/** Turns Bun's own limit off, which would answer with an empty body; `limits.body_bytes` is checked while the body arrives. */
const noNativeBodyLimit = 2 ** 50;

/** A server on the address, its listening sockets, and whether it drains. */
type Instance = {
  readonly app: App["app"];
  readonly sockets: Sockets;
  readonly host: { draining: boolean; readonly sockets: ReadonlySet<{ goAway(): void }> };
};

type ListenerOptions = {
  readonly config: ListenerConfig;
  readonly certificate: Certificate | undefined;
  readonly telemetry: Telemetry | undefined;
  /** Listens beside the parent process and takes all new connections from it. */
  readonly isUpgrade: boolean;
};

export class Listener {
  readonly config: ListenerConfig;
  readonly #services: Services;
  readonly #telemetry: Telemetry | undefined;
  /** Instances that listen, in the order of the kernel's reuseport group. */
  #listening: Instance[] = [];
  /** Instances that listen or drain. */
  readonly #instances = new Set<Instance>();
  #current: Instance;
  #certificate: Certificate | undefined;
  #cancelTimers: (() => void)[] = [];
  /** The address belongs to the new process of an upgrade. */
  #isHandedOff = false;

  /** Listens. @throws the system's error where it can't listen there */
  constructor(services: Services, { config, certificate, telemetry, isUpgrade }: ListenerOptions) {
    this.config = config;
    this.#services = services;
    this.#telemetry = telemetry;
    this.#certificate = certificate;
    // For workers their supervisor has checked this.
    if (!isUpgrade && services.live.config.workers === 1) assertFree(config.address);
    this.#current = this.#listen(config.address, isUpgrade);
  }

  /** Its URL (a unix socket as `unix:` and the path), with the actual port. */
  get url(): string {
    const { hostname = "", port = 0 } = this.#current.app.server!;
    const { address } = this.config;
    return formatUrl({
      ...this.config,
      address: address.kind === "unix" ? address : { ...address, host: hostname, port },
    });
  }

  /** Requests under way, open streams included. */
  get pending(): number {
    return [...this.#instances].reduce((sum, { app }) => sum + (app.server?.pendingRequests ?? 0), 0);
  }

  /** True if this is another certificate than the one in use. */
  differs({ cert, key }: Certificate): boolean {
    return cert !== this.#certificate?.cert || key !== this.#certificate.key;
  }

  /** New connections get this certificate; those that are open keep the old one. */
  renewCertificate(certificate: Certificate): void {
    this.#certificate = certificate;
    const old = this.#current;
    const { address } = this.config;
    const port = old.app.server?.port ?? 0;
    // Connections that come in between are refused where a port can't be shared.
    if (!canShare()) void this.#drain(old);
    this.#current = this.#listen(address.kind === "unix" ? address : { ...address, port }, true);
    closeAfterAnswers(old.host);
    if (canShare())
      this.#cancelTimers.push(
        this.#services.clock.setTimer(
          connectionDrainSeconds(this.#services.live.config) * 1000,
          () => void this.#drain(old),
        ),
      );
  }

  /** Another process accepts new connections now: those here close after their next answer. */
  handOff(): void {
    this.#isHandedOff = true;
    this.closeAfterAnswers();
  }

  /** Goes on, but each connection closes after its next answer. */
  closeAfterAnswers(): void {
    for (const { host } of this.#instances) closeAfterAnswers(host);
  }

  /** Stops listening and drains. @returns when all connections are closed */
  async stop(): Promise<void> {
    for (const cancel of this.#cancelTimers) cancel();
    this.closeAfterAnswers();
    await Promise.all([...this.#instances].map(({ app }) => app.server!.stop()));
    this.#removeSocket();
  }

  /** Closes all connections, whatever runs on them. */
  async abort(): Promise<void> {
    for (const cancel of this.#cancelTimers) cancel();
    await Promise.all([...this.#instances].map(({ app }) => app.server!.stop(true)));
    this.#removeSocket();
  }

  #removeSocket(): void {
    if (!this.#isHandedOff) removeSocket(this.config);
  }

  /** @param takesAll whether this server gets all new connections, and those that listen there already none */
  #listen(address: ListenerConfig["address"], takesAll: boolean): Instance {
    const host = {
      surfaces: this.config.surfaces,
      services: this.#services,
      telemetry: this.#telemetry,
      checksNames: isLoopback(this.config),
      draining: false,
      server: null as ServerHandle | null,
      sockets: new Set<{ readonly keyId: string; goAway(): void }>(),
    };
    const { app } = buildApp(host, adminRoutes, accountRoutes);
    if (address.kind === "unix") removeSocket(this.config);
    const listen = () => {
      app.listen({
        ...(address.kind === "unix"
          ? { unix: address.path, reusePort: false }
          : { hostname: address.host, port: address.port, reusePort: canShare() }),
        ...(this.#certificate === undefined
          ? {}
          : { tls: { cert: this.#certificate.cert, key: this.#certificate.key } }),
        development: false,
        // While a request is being received, and between requests.
        idleTimeout: this.#services.live.config.limits.idleConnectionSeconds,
        maxRequestBodySize: noNativeBodyLimit,
        websocket: webSocketHandlers(this.#services.live.config.limits.bodyBytes),
      } as never);
    };
    const sockets = namingAddress(address, () => {
      if (takesAll) return listenBeside(listen, this.#services.live.config.workers);
      listen();
      return [];
    });
    probeSilentPeers();
    host.server = app.server;
    if (address.kind === "unix") chmodSync(address.path, 0o660);
    const instance = { app, sockets, host };
    this.#listening.push(instance);
    this.#instances.add(instance);
    return instance;
  }

  async #drain(old: Instance): Promise<void> {
    const stopped = old.app.server!.stop();
    const place = this.#listening.indexOf(old);
    const last = this.#listening.at(-1)!;
    // The kernel moves the group's last socket to the freed place.
    this.#listening = this.#listening.with(place, last).slice(0, -1);
    // With workers the places of all sockets are not known; for a wrong one the kernel picks any socket of the group.
    if (this.#services.live.config.workers === 1)
      steerTo(this.#current.sockets, this.#listening.indexOf(this.#current));
    await stopped;
    this.#instances.delete(old);
  }
}

function closeAfterAnswers(host: Instance["host"]): void {
  host.draining = true;
  for (const socket of host.sockets) socket.goAway();
}

/**
 * Checks that nobody listens at the address: with SO_REUSEPORT a second server would start without an error.
 * @returns the address, with a port that is free where any would do
 * @throws the system's error where one can't listen there
 */
export function assertFree(address: ListenerConfig["address"]): ListenerConfig["address"] {
  if (address.kind === "unix") return address;
  const { host: hostname, port } = address;
  const server = namingAddress(address, () =>
    Bun.serve({ hostname, port, reusePort: false, development: false, fetch: () => new Response() }),
  );
  const given = server.port ?? port;
  void server.stop(true);
  return { ...address, port: given };
}

/** @throws what `listen` throws, with the whole address, of which the system's words hold little or nothing */
function namingAddress<T>(address: ListenerConfig["address"], listen: () => T): T {
  try {
    return listen();
  } catch (error) {
    const { message } = error as Error;
    throw new Error(`Can't listen at ${formatAddress(address)}: ${message}`, { cause: error });
  }
}

/** The URL of a listener; a unix socket as `unix:` and the path. */
export function formatUrl({ address, tls }: ListenerConfig): string {
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
