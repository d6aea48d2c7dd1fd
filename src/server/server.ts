/** A running Troupe: its addresses, its reload and its drain. */

import type { Services } from "../call/services.ts";
import type { Config, ListenerConfig } from "../config/config.ts";
import { changedSettings } from "../config/difference.ts";
import { formatAddress } from "../config/listeners.ts";
import { type Certificate, readCertificate } from "../lib/http/certificate.ts";
import { pause, withTimeout } from "../lib/time/clock.ts";
import type { TelemetrySettings } from "../observability/otlp/settings.ts";
import { Telemetry, telemetryMetrics } from "../observability/otlp/telemetry.ts";
import { connectionDrainSeconds, Listener } from "./listener.ts";
import { liveFrom } from "./live.ts";
import { openServices, type ServiceOptions } from "./services.ts";

type ServerOptions = ServiceOptions & {
  /** The parent process listens on the port already and hands off to this one. */
  readonly isUpgrade?: boolean;
  /** Absent: nothing is exported. */
  readonly telemetry?: TelemetrySettings;
};

export class RunningServer {
  readonly services: Services;
  readonly #listeners: readonly Listener[];
  readonly #telemetry: Telemetry | undefined;

  private constructor(services: Services, listeners: readonly Listener[], telemetry: Telemetry | undefined) {
    this.services = services;
    this.#listeners = listeners;
    this.#telemetry = telemetry;
  }

  /**
   * Opens the services and listens at every address.
   * @throws StorageError, an Error about a certificate, or the system's for an address that can't be had; then nothing
   * stays open
   */
  static async start(config: Config, options: ServerOptions): Promise<RunningServer> {
    const certificates = config.listen.map(certificateOf);
    const services = await openServices(config, options);
    const telemetry = options.telemetry && new Telemetry({ ...services, settings: options.telemetry });
    if (telemetry !== undefined) services.metrics.sample(telemetryMetrics, telemetry);
    const listeners: Listener[] = [];
    try {
      for (const [at, wanted] of config.listen.entries()) {
        listeners.push(
          new Listener(services, {
            config: wanted,
            certificate: certificates[at],
            telemetry,
            isUpgrade: options.isUpgrade === true,
          }),
        );
      }
      services.mcp.start();
      return new RunningServer(services, listeners, telemetry);
    } catch (error) {
      await Promise.all(listeners.map((listener) => listener.abort()));
      await telemetry?.close();
      await services.close();
      throw error;
    }
  }

  /** Its URLs (unix sockets as `unix:` and the path), with the actual ports. */
  get urls(): string[] {
    return this.#listeners.map(({ url }) => url);
  }

  /** Requests under way, open streams included. */
  get pending(): number {
    return this.#listeners.reduce((sum, { pending }) => sum + pending, 0);
  }

  /**
   * Applies what may change while running: settings, providers' keys, and the certificates of addresses that stay.
   * Everything is read and checked first. Addresses and the data folder stay as they are.
   * @returns what changed, as a person would name it
   * @throws Error about a certificate; then nothing has changed
   */
  reload(config: Config): string[] {
    const changed = changedSettings(this.services.live.config, config);
    const renewals = this.#listeners.flatMap((listener) => {
      const certificate = certificateOf(config.listen.find((one) => isSameAddress(one, listener.config)));
      const isNew = certificate !== undefined && listener.config.tls !== undefined && listener.differs(certificate);
      return isNew ? [{ listener, certificate }] : [];
    });
    this.services.live = liveFrom(config, this.services.log, this.services);
    this.services.mcp.configure(config.mcpServers);
    this.services.modelLists.start();
    for (const { listener, certificate } of renewals) listener.renewCertificate(certificate);
    return [...changed, ...renewals.map(({ listener }) => `the certificate of ${listener.url}`)];
  }

  /**
   * Says that it will stop, and goes on for that time: balancers learn it by `/healthz`, and connections close after their next
   * answer, so that no request meets a closed port.
   */
  async announceStop(seconds: number): Promise<void> {
    if (seconds === 0) return;
    this.services.stopping = true;
    for (const listener of this.#listeners) listener.closeAfterAnswers();
    await pause(this.services.clock, seconds * 1000);
  }

  /**
   * Stops listening, drains, aborts what is left after that time, and closes everything. Drained are also calls with a
   * service-request-id whose client disconnected: their answers are stored for the retry.
   * @returns how many requests were aborted
   */
  async stop(drainSeconds: number): Promise<number> {
    this.services.draining = true;
    const { idempotency } = this.services;
    const drain = async () => {
      await Promise.all(this.#listeners.map((listener) => listener.stop()));
      await idempotency.settled();
      return true;
    };
    const drained = await withTimeout(this.services.clock, drain(), drainSeconds * 1000);
    const aborted = drained ? 0 : Math.max(this.pending, idempotency.running);
    if (!drained) await Promise.all(this.#listeners.map((listener) => listener.abort()));
    if (this.#telemetry !== undefined) {
      // Attempts whose tokens are still being estimated have no span yet.
      await this.services.usage.close();
      await this.#telemetry.close();
    }
    await this.services.close();
    return aborted;
  }

  /**
   * Stops after another process took the new connections: idle connections close first, so that no request in flight is
   * lost, then as `stop`.
   */
  async handOff(drainSeconds: number): Promise<number> {
    for (const listener of this.#listeners) listener.handOff();
    await pause(this.services.clock, connectionDrainSeconds(this.services.live.config) * 1000);
    return this.stop(drainSeconds);
  }
}

function certificateOf(listener: ListenerConfig | undefined): Certificate | undefined {
  return listener?.tls === undefined ? undefined : readCertificate(listener.tls);
}

const isSameAddress = (one: ListenerConfig, other: ListenerConfig) =>
  formatAddress(one.address) === formatAddress(other.address);
