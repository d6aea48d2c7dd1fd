/** The configuration, validated and frozen. Where a value came from is known to `cli` only. */
import type { JsonLimits } from "../lib/json/scan.ts";
import type { Tier } from "../protocols/tiers.ts";
import type { AliasConfig } from "./aliases.ts";

/** The surfaces that models are called on. */
export type SurfaceName = "orchestrator" | "gateway";

/** All that a listener can serve and a key can be for: `admin` manages keys and budgets. */
export type ServedSurface = SurfaceName | "admin";

/**
 * One address. With both surfaces of models the orchestrator lives at the root and the gateway's base is `/gateway/v1`;
 * with one of them its base is `/v1`. The base of the admin API is `/admin/v1` everywhere.
 */
export type ListenerConfig = {
  readonly address:
    | { readonly kind: "tcp"; readonly host: string; readonly port: number }
    | { readonly kind: "unix"; readonly path: string };
  readonly surfaces: readonly ServedSurface[];
  /** Paths of PEM files. */
  readonly tls?: { readonly cert: string; readonly key: string };
};

export type Timeouts = {
  readonly connectSeconds: number;
  /** From the request sent to the answer's first byte. */
  readonly firstByteSeconds: number;
  /** Between two events of a stream. */
  readonly idleSeconds: number;
};

export type ProviderConfig = {
  /** The namespace, left of the slash. */
  readonly name: string;
  /** The name of the built-in provider whose format this one speaks. */
  readonly dialect: string;
  /** http or https, without a trailing slash. */
  readonly baseUrl: string;
  readonly apiKey?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly models: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly modelRules: readonly { readonly match: string; readonly [key: string]: unknown }[];
  readonly timeouts: Timeouts;
  /** Tools that the provider does not know are left out, and do not refuse the call. */
  readonly unsupportedTools?: "drop" | undefined;
  /** Whether the upstream may keep chat completions that are to be stored. */
  readonly upstreamStore?: true;
};

/** A PostgreSQL database. */
export type StoreConfig = {
  /** With its password: never shown. */
  readonly url: string;
  /** Connections of each process for calls. */
  readonly pool: number;
  /** How long a call waits for one statement. */
  readonly statementSeconds: number;
  /** After how long without renewal a node's leases are lost. */
  readonly leaseSeconds: number;
  /** How long keys that are known go on while the database is away. */
  readonly keysWithoutDatabaseSeconds: number;
};

/** Dollars that may be spent in a day or a month in UTC, or altogether. */
export type BudgetLimits = { readonly day?: number; readonly month?: number; readonly prepaid?: number };

/** Dollars per million tokens, by their kinds; of a request, an image, and a tool's use. As the file says them. */
export type PriceRates = {
  readonly input?: number;
  readonly cache_read?: number;
  readonly cache_write?: number;
  readonly cache_write_1h?: number;
  readonly output?: number;
  readonly reasoning?: number;
  readonly audio_input?: number;
  readonly audio_cache_read?: number;
  readonly audio_output?: number;
  readonly image_input?: number;
  readonly image_output?: number;
  readonly request?: number;
  readonly image?: number;
  readonly audio_minute?: number;
  readonly tools?: Readonly<Record<string, number>>;
};

export type PriceConfig = PriceRates & {
  /** A glob over `<provider>/<model>`. */
  readonly match: string;
  /** Rates of inputs of more tokens than `above`. */
  readonly tiers?: readonly (PriceRates & { readonly above: number })[];
  /** By the service tier's name: a factor, or rates. */
  readonly service_tiers?: Readonly<Record<string, number | PriceRates>>;
};

/** Where operators are alerted, and the secret that messages are signed with. */
export type AlertsConfig = { readonly urls: readonly string[]; readonly secret: string };

/** The rates of models that no price is known of. */
export type UnknownPriceConfig = { readonly unknown_price: PriceRates };

export type Config = {
  readonly listen: readonly ListenerConfig[];
  /** The data folder. */
  readonly data: string;
  /** What is remembered beyond one machine; absent: SQLite in the data folder. */
  readonly store?: StoreConfig;
  /** The address of the Valkey or Redis server that counts rate limits for all nodes and carries live streams; absent: the store does. */
  readonly coordination?: string;
  /** Where personas are. Those compiled into the executable take the place of a folder that nobody named and that holds none. */
  readonly personas: { readonly folder: string; readonly isNamed: boolean };
  /** How many processes serve; with one there is no other. */
  readonly workers: number;
  /** Those that are set up, each name once. */
  readonly providers: readonly ProviderConfig[];
  /** Other names of models and personas. */
  readonly aliases: AliasConfig;
  /** Requests per minute of a key of that plan tier; enterprise keys bring their own number. */
  readonly tiers: { readonly free: number; readonly pro: number };
  readonly budgets: {
    readonly all: BudgetLimits;
    readonly tiers: Readonly<Record<Tier, BudgetLimits>>;
    readonly tags: Readonly<Record<string, BudgetLimits>>;
    /** Of each key that has none of its own for that period. */
    readonly keys: BudgetLimits;
    /** What becomes of calls that a budget applies to and whose price is unknown. */
    readonly unknownPrice: "refuse" | "allow";
    /** What is reserved for an answer where the request sets no bound. */
    readonly assumedOutputTokens: number;
    /** How many uses of each hosted tool are reserved where the request sets no bound. */
    readonly assumedToolUses: number;
    /** What the estimate of a call's cost is multiplied by. */
    readonly estimateFactor: number;
    /** The header by which a request may add one tag; absent: none. */
    readonly tagHeader?: string;
  };
  readonly limits: JsonLimits & {
    readonly bodyBytes: number;
    /** Of all bodies together that are held at once; absent: a share of the memory that there is. */
    readonly bodyMemoryBytes?: number;
    /** How long a request's body may take to arrive. */
    readonly bodySeconds: number;
    /** Requests that may be under way at once, open streams included; beyond it they are refused. */
    readonly concurrentRequests: number;
    /** Responses in the background that one key may have under way. */
    readonly backgroundResponses: number;
    /** Requests per minute and client address, for calls without a valid key. */
    readonly anonymousPerMinute: number;
    /** Requests per minute and key on the gateway; absent: no limit but the key's own. */
    readonly gatewayPerMinute?: number;
  };
  readonly streams: {
    /** Idle time after which a keep-alive comment is sent; 0: never. */
    readonly keepAliveSeconds: number;
  };
  readonly shutdown: {
    /** For how long requests are still taken after `/healthz` says 503, so that balancers notice first. */
    readonly delaySeconds: number;
    readonly drainSeconds: number;
  };
  readonly idempotency: {
    readonly retentionHours: number;
    /** Whether a call with a service-request-id goes on after its client disconnected. */
    readonly finishAfterDisconnect: boolean;
    /** The most bytes of one recorded answer. */
    readonly recordBytes: number;
  };
  readonly conversations: { readonly retentionDays: number };
  readonly usage: {
    /** How long lines of the ledger are kept. */
    readonly retentionDays: number;
    /** Keys of requests' metadata that lines have, sorted. */
    readonly metadata: readonly string[];
  };
  /** Absent: nobody is alerted. */
  readonly alerts?: AlertsConfig;
  /** The operator's own prices; the first that fits wins. */
  readonly prices: readonly (PriceConfig | UnknownPriceConfig)[];
  /** By which names, besides its own, a listener on a loopback address may be called; `*` stands for any characters. */
  readonly allowedHosts: readonly string[];
  /** CIDR blocks of proxies whose X-Forwarded-For is trusted. */
  readonly trustedProxies: readonly string[];
  readonly log: {
    readonly level: "debug" | "info" | "warn" | "error";
    /** auto: pretty on a terminal, JSON lines elsewhere. */
    readonly format: "auto" | "json" | "pretty";
    /** Whether message content may be logged. */
    readonly content: boolean;
    /** The share of requests answered below 400 that get a line, from 0 to 1; all others always do. */
    readonly sample: number;
    /** Names of fields that are left out of requests' lines. */
    readonly omit: readonly string[];
  };
  /** Whether `/metrics` tells of money to whoever asks. */
  readonly metrics: { readonly money: boolean };
  readonly admin: {
    /** The header by which a trusted proxy names whom it signed in; absent: none. */
    readonly trustedUserHeader?: string;
  };
  readonly cors: { readonly origins: readonly string[] };
};
