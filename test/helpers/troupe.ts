/** A real Troupe on a real socket, in this process, with its own data folder. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import OpenAI from "openai";
import type { KeySpec } from "../../src/auth/key-spec.ts";
import { buildInfo } from "../../src/build-info.ts";
import type { Config, ProviderConfig, SurfaceName } from "../../src/config/config.ts";
import type { Logger } from "../../src/lib/process/log.ts";
import { type Clock, systemClock } from "../../src/lib/time/clock.ts";
import type { TelemetrySettings } from "../../src/observability/otlp/settings.ts";
import { RunningServer } from "../../src/server/server.ts";
import type { TextCounter } from "../../src/usage/tokens/tokenizer.ts";
import { asFarAsItCame } from "./broken-stream.ts";
import { silentLogger } from "./silent-logger.ts";

export type TroupeOptions = {
  /** Providers by name; `dialect` defaults to the name. */
  readonly providers?: Readonly<Record<string, Partial<ProviderConfig> & { readonly baseUrl: string }>>;
  /** Providers are asked in every format that they speak. Absent: in that of their family alone, which most tests are about. */
  readonly nativeEndpoints?: true;
  /** A folder of personas; absent: those compiled in. */
  readonly personas?: string;
  readonly config?: Partial<Config>;
  readonly clock?: Clock;
  readonly log?: Logger;
  readonly telemetry?: TelemetrySettings;
  /** Public keys by which facts are proved; absent: none are taken. */
  readonly factsKeys?: readonly string[];
  /** Variables, for credentials of providers without a key. */
  readonly env?: Readonly<Record<string, string>>;
  /** It counts tokens as it does in service: a thread that loads for half a second. Absent: it reckons by the length of texts. */
  readonly countsTokens?: true;
  /** What its key may use; absent: both surfaces. */
  readonly surfaces?: KeySpec["surfaces"];
  /** Where the data lives; absent: a folder that goes with the server. */
  readonly data?: string;
};

/** A tokenizer that has no time. */
const reckoning: TextCounter = { count: async () => undefined };

export class Troupe implements AsyncDisposable {
  readonly server: RunningServer;
  /** Without a trailing slash. */
  readonly url: string;
  /** A pro key for both surfaces. */
  readonly key: string;
  readonly data: string;
  readonly #ownsData: boolean;

  private constructor(server: RunningServer, key: string, data: string, ownsData: boolean) {
    this.server = server;
    this.url = server.urls[0]!;
    this.key = key;
    this.data = data;
    this.#ownsData = ownsData;
  }

  static async start(options: TroupeOptions = {}): Promise<Troupe> {
    const data = options.data ?? mkdtempSync(join(tmpdir(), "troupe-test-"));
    const server = await RunningServer.start(testConfig(data, options), {
      build: buildInfo,
      clock: options.clock ?? systemClock,
      log: options.log ?? silentLogger,
      allowPrivateMedia: true,
      ...(!options.countsTokens && { tokenizer: reckoning }),
      ...(options.factsKeys && { factsKeys: options.factsKeys }),
      ...(options.telemetry && { telemetry: options.telemetry }),
      ...(options.env && { env: options.env }),
    });
    const made = await server.services.keys.create({
      name: "test",
      tier: "enterprise",
      perMinute: 1_000_000,
      ...(options.surfaces && { surfaces: options.surfaces }),
    });
    return new Troupe(server, made.secret, data, options.data === undefined);
  }

  /** Another key. @returns its secret */
  async createKey(spec: KeySpec): Promise<string> {
    return (await this.server.services.keys.create(spec)).secret;
  }

  baseUrl(surface: SurfaceName): string {
    return `${this.url}${surface === "gateway" ? "/gateway/v1" : "/v1"}`;
  }

  /** The official client; without automatic retries, so that a test sees what was answered. */
  client(surface: SurfaceName, options: { apiKey?: string; maxRetries?: number } = {}): OpenAI {
    return new OpenAI({ baseURL: this.baseUrl(surface), apiKey: this.key, maxRetries: 0, ...options });
  }

  /** Lets a persona be answered by these models. */
  setTargets(persona: string, targets: readonly string[]): void {
    const { personas } = this.server.services;
    personas.replace(personas.list().map((one) => (one.id === persona ? { ...one, targets } : one)));
  }

  /** @param path below the server's root @returns the answer as far as it came: a broken stream has an end here */
  async fetch(path: string, init: RequestInit & { key?: string | null } = {}): Promise<Response> {
    const { key = this.key, ...rest } = init;
    const headers = new Headers(rest.headers);
    if (key !== null && !headers.has("authorization")) headers.set("authorization", `Bearer ${key}`);
    return asFarAsItCame(await fetch(this.url + path, { ...rest, headers }));
  }

  /** @param body sent as JSON, or as it is when it is a string */
  post(
    path: string,
    body: unknown,
    init: { key?: string | null; headers?: Record<string, string>; signal?: AbortSignal } = {},
  ): Promise<Response> {
    return this.fetch(path, {
      ...init,
      method: "POST",
      headers: { "content-type": "application/json", ...init.headers },
      body: typeof body === "string" ? body : JSON.stringify(body),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.stop(0);
    if (this.#ownsData) rmSync(this.data, { recursive: true, force: true });
  }
}

const closedEndpoints = { messages_base_url: false, responses_base_url: false };
/** Responses are its family's own format, which the same option closes. */
const opensResponses = new Set(["openai"]);

export function testConfig(data: string, { providers = {}, nativeEndpoints, personas, config }: TroupeOptions): Config {
  return {
    listen: [{ address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway"] }],
    data,
    personas: { folder: personas ?? join(data, "none", "personas"), isNamed: personas !== undefined },
    providers: Object.entries(providers).map(
      ([name, provider]): ProviderConfig => ({
        name,
        dialect: name,
        apiKey: `key-of-${name}`,
        headers: {},
        models: [],
        modelRules: [],
        timeouts: { connectSeconds: 5, firstByteSeconds: 30, idleSeconds: 30 },
        ...provider,
        options: {
          ...(nativeEndpoints !== true && !opensResponses.has(provider.dialect ?? name) && closedEndpoints),
          ...provider.options,
        },
      }),
    ),
    workers: 1,
    aliases: {},
    mcpServers: {},
    hostedTools: {},
    mcp: {
      turns: 10,
      parallel: 4,
      calls: 50,
      seconds: 300,
      resultBytes: 65_536,
      totalBytes: 524_288,
      findAbove: 40,
    },
    tiers: { free: 10, pro: 100 },
    budgets: {
      all: {},
      tiers: { free: {}, pro: {}, enterprise: {} },
      keys: {},
      tags: {},
      unknownPrice: "refuse",
      assumedOutputTokens: 4096,
      assumedToolUses: 5,
      estimateFactor: 1,
    },
    limits: {
      bodyBytes: 20 * 1024 * 1024,
      jsonDepth: 64,
      jsonValues: 250_000,
      jsonKeys: 100_000,
      jsonStringBytes: 20 * 1024 * 1024,
      bodySeconds: 120,
      idleConnectionSeconds: 75,
      concurrentRequests: 10_000,
      backgroundResponses: 100,
      anonymousPerMinute: 600,
    },
    streams: { keepAliveSeconds: 15 },
    websockets: { enabled: true, maxConnections: 1000, maxConnectionsPerKey: 100, idleSeconds: 600, maxSeconds: 3600 },
    shutdown: { delaySeconds: 0, drainSeconds: 5 },
    idempotency: { retentionHours: 24, finishAfterDisconnect: true, recordBytes: 16 * 1024 * 1024 },
    conversations: { retentionDays: 30 },
    usage: { retentionDays: 400, metadata: [] },
    prices: [],
    facts: { update: "off" },
    modelLists: { refreshMinutes: 0 },
    allowedHosts: [],
    trustedProxies: [],
    log: { level: "info", format: "json", content: false, sample: 1, omit: [], redact: [] },
    metrics: { money: false },
    admin: {},
    console: { write: false },
    previews: { days: 7, max: 100, maxBytes: 8 * 1024 * 1024 },
    account: { enabled: true, rotate: false, rotateGraceSeconds: 3600 },
    cors: { origins: [] },
    ...config,
  };
}
