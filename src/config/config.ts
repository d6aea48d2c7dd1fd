/** The configuration, validated and frozen. Where a value came from is known to `cli` only. */
import type { Static } from "@sinclair/typebox";
import type { Strategy } from "../lib/http/strategies.ts";
import type { Filled, Frozen } from "./filled.ts";
import type { McpServerConfig } from "./mcp.ts";
import type { PriceFile, PriceRatesFile, UnknownPriceFile } from "./price-schema.ts";
import type { BudgetFile, ConfigFile, StoreFile } from "./schema.ts";
import type { modelSurfaces, surfaceNames } from "./surfaces.ts";

/** The surfaces that models are called on. */
export type SurfaceName = (typeof modelSurfaces)[number];

/** All that a listener can serve and a key can be for: `admin` manages keys and budgets. */
export type ServedSurface = (typeof surfaceNames)[number];

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

export type ProviderConfig = {
  /** The namespace, left of the slash. */
  readonly name: string;
  /** The name of the built-in provider whose format this one speaks. */
  readonly dialect: string;
  /** http or https, without a trailing slash. */
  readonly baseUrl: string;
  readonly apiKey?: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly models: readonly string[];
  readonly options: Readonly<Record<string, unknown>>;
  readonly modelRules: readonly { readonly match: string; readonly [key: string]: unknown }[];
  readonly timeouts: Timeouts;
  /** Tools that the provider does not know are left out, and do not refuse the call. */
  readonly unsupportedTools?: "drop" | undefined;
  /** True if the upstream may keep chat completions that are to be stored. */
  readonly upstreamStore?: true;
  /** Its keys at its endpoints, where there are several; the first is `apiKey` at `baseUrl`. */
  readonly pool?: PoolConfig;
};

export type PoolConfig = {
  readonly strategy: Strategy;
  readonly members: readonly PoolMemberConfig[];
};

/** A key at an endpoint. */
export type PoolMemberConfig = {
  /** Absent: the endpoint takes calls without one. */
  readonly apiKey?: string | undefined;
  readonly keyName?: string | undefined;
  /** As the account's. */
  readonly baseUrl: string;
  readonly weight: number;
  /** The only models that the endpoint has; absent: all. */
  readonly models?: readonly string[] | undefined;
};

/** A PostgreSQL database. Its address holds a password, and is never shown. */
export type StoreConfig = Filled<typeof StoreFile>;

/** Dollars that may be spent in a day or a month in UTC, or altogether. */
export type BudgetLimits = Filled<typeof BudgetFile>;

/** Dollars per million tokens, by their kinds; of a request, an image, and a tool's use. As the file says them. */
export type PriceRates = Frozen<Static<typeof PriceRatesFile>>;

export type PriceConfig = Frozen<Static<typeof PriceFile>>;

/** The rates of models that no price is known of. */
export type UnknownPriceConfig = Frozen<Static<typeof UnknownPriceFile>>;

/** The addresses that messages to operators go to, and the secret that they are signed with. */
export type AlertsConfig = { readonly urls: readonly string[]; readonly secret: string };

type Settings = Filled<typeof ConfigFile>;

export type Timeouts = Settings["timeouts"];

/** The settings of the file, of which the schema says what they mean, and those that are more than what the file says. */
export type Config = Omit<
  Settings,
  "listen" | "data" | "store" | "personas" | "providers" | "mcpServers" | "timeouts" | "alerts"
> & {
  readonly listen: readonly ListenerConfig[];
  readonly data: string;
  /** The database of several machines; absent: SQLite in the data folder. */
  readonly store?: StoreConfig;
  /** The folder of personas. Those compiled into the executable take the place of one that nobody named and that holds none. */
  readonly personas: { readonly folder: string; readonly isNamed: boolean };
  /** Providers that are set up, each name once. */
  readonly providers: readonly ProviderConfig[];
  /** By name. */
  readonly mcpServers: Readonly<Record<string, McpServerConfig>>;
  /** Absent: nobody is alerted. */
  readonly alerts?: AlertsConfig;
};
