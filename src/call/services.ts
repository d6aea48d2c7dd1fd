/** The long-lived objects that every handler gets; `server/services.ts` opens and closes them. */

import type { Keys, NewKey } from "../auth/keys.ts";
import type { BuildInfo } from "../build-info.ts";
import type { Aliases } from "../config/aliases.ts";
import type { Config } from "../config/config.ts";
import type { LoadResult, OriginsOf } from "../config/load.ts";
import type { Conversations, UpstreamState } from "../conversations/conversations.ts";
import type { ReplayMemory } from "../conversations/thinking-state.ts";
import type { Idempotency } from "../idempotency/idempotency.ts";
import type { AddressBlocks } from "../lib/http/addresses.ts";
import type { Logger } from "../lib/process/log.ts";
import type { Sampler } from "../lib/process/sampler.ts";
import type { Clock } from "../lib/time/clock.ts";
import type { DeadlineLists } from "../lib/time/deadlines.ts";
import type { ToldOnce } from "../lib/time/told-once.ts";
import type { Diagnostic } from "../lib/yaml/yaml.ts";
import type { Limiter } from "../limits/limiter.ts";
import type { StoredLimiter } from "../limits/stored.ts";
import type { McpServers } from "../mcp/servers.ts";
import type { AlertWatch } from "../observability/alerts/watch.ts";
import type { Metrics } from "../observability/metrics.ts";
import type { NodeComparison } from "../observability/node-versions.ts";
import type { Personas } from "../personas/versions/registry.ts";
import type { Model } from "../protocols/models.ts";
import type { Store } from "../store/contract/store.ts";
import type { Accounts } from "../upstream/accounts.ts";
import type { Upstream } from "../upstream/client.ts";
import type { CredentialSources } from "../upstream/credentials/sources.ts";
import type { Learned } from "../upstream/learned/learned.ts";
import type { MediaFetcher } from "../upstream/media.ts";
import type { ModelLists } from "../upstream/model-lists.ts";
import type { Pools, PoolView } from "../upstream/pool/pools.ts";
import type { Budgets } from "../usage/budgets/budgets.ts";
import type { FactsRenewal } from "../usage/facts/renewal.ts";
import type { ClientNames } from "../usage/ledger/labels.ts";
import type { OpenCalls, OpenCallsQuestion } from "../usage/ledger/open-calls.ts";
import type { LedgerWriter } from "../usage/ledger/writer.ts";
import type { Prices } from "../usage/prices/prices.ts";
import type { TextCounter } from "../usage/tokens/tokenizer.ts";
import type { UsageRecorder } from "../usage/usage.ts";
import type { VariantStops } from "../usage/variants/stops.ts";
import type { BackgroundAnswers } from "./background-answers.ts";
import type { ModelPages } from "./model-pages.ts";
import type { PersonaKnowledge } from "./plan/knowledge.ts";
import type { PersonaVersions } from "./plan/persona-versions.ts";
import type { BodyMemory } from "./read/body-memory.ts";
import type { HttpMetrics } from "./settle/metrics.ts";

/** When the configuration was read anew last: the settings that changed, or why the one in force stays. */
export type LastReload = { readonly at: number; readonly changed: readonly string[]; readonly error?: string };

export type WorkerStatus = { readonly workers: number; readonly running: number; readonly restarts: number };

/** Calls under way in the workers that answered in time. */
export type WorkersCalls = OpenCalls & { readonly workers: number; readonly answered: number };

/** What each worker that answered in time knows of the providers' keys and endpoints. */
export type WorkersPools = { readonly workers: number; readonly views: readonly (readonly PoolView[])[] };

/** All workers, asked through the supervisor. @returns undefined when it does not answer in time */
export interface Workers {
  ask(about: "metrics"): Promise<string | undefined>;
  ask(about: "status"): Promise<WorkerStatus | undefined>;
  ask(about: "pools"): Promise<WorkersPools | undefined>;
  ask(about: "calls", asked: OpenCallsQuestion): Promise<WorkersCalls | undefined>;
}

/** The objects that a reload replaces, atomically. */
export type Live = {
  readonly config: Config;
  readonly accounts: Accounts;
  readonly aliases: Aliases;
  readonly prices: Prices;
  readonly trustedProxies: AddressBlocks;
};

export type Services = {
  live: Live;
  readonly originsOf: OriginsOf;
  /** Reads the configuration as its files are now, without taking it over; absent: it is of no file. */
  readonly readConfiguration: (() => LoadResult) | undefined;
  readonly build: BuildInfo;
  readonly clock: Clock;
  /** Names of the programs that call, for the accounts. */
  readonly clients: ClientNames;
  readonly log: Logger;
  /** What was said in the log, and is not said again. */
  readonly toldOnce: ToldOnce;
  /** Decides which successful requests are logged. */
  readonly logSampler: Sampler;
  readonly metrics: Metrics;
  readonly httpMetrics: HttpMetrics;
  readonly store: Store;
  readonly keys: Keys;
  readonly callerLimits: Limiter;
  /** Asked in their place where several nodes share the limits. */
  readonly storedLimits: StoredLimiter | undefined;
  readonly anonymousLimits: Limiter;
  /** Compares what is served, where several nodes should serve the same. */
  readonly comparison: NodeComparison | undefined;
  readonly personas: Personas;
  readonly personaVersions: PersonaVersions;
  /** Resolves when the personas' folder has been read for the first time; undefined from then on. */
  loading: Promise<void> | undefined;
  /** The errors that the latest reading of the personas' folder found. */
  personaFaults(): readonly Diagnostic[];
  /** Reads their folder again now. */
  rereadPersonas(): Promise<void>;
  readonly knowledge: PersonaKnowledge;
  readonly upstream: Upstream;
  /** Chooses among several keys and endpoints. */
  readonly pools: Pools;
  /** Of accounts without a key. */
  readonly credentials: CredentialSources;
  readonly modelLists: ModelLists;
  readonly modelPages: ModelPages<Model>;
  /** What upstreams' refusals taught of their models. */
  readonly learned: Learned;
  readonly mcp: McpServers;
  /** Accounts for what calls use. */
  readonly usage: UsageRecorder;
  readonly ledger: LedgerWriter;
  readonly tokenizer: TextCounter;
  readonly budgets: Budgets;
  readonly alerts: AlertWatch;
  readonly facts: FactsRenewal;
  readonly variantStops: VariantStops;
  readonly media: MediaFetcher;
  readonly replayMemory: ReplayMemory;
  readonly idempotency: Idempotency;
  readonly conversations: Conversations;
  readonly background: BackgroundAnswers;
  /** Deletes an upstream's copy of a conversation; failures are logged. */
  forgetUpstream(state: UpstreamState): Promise<void>;
  /** The API key that a first start created. */
  readonly firstKey: NewKey | undefined;
  /** Present in a worker. */
  readonly workers: Workers | undefined;
  readonly startedAt: number;
  /** Set before a shutdown that waits for balancers: requests are taken, and `/healthz` says 503. */
  stopping: boolean;
  /** Set at shutdown: requests under way finish, new ones are refused. */
  draining: boolean;
  /** Undefined until the configuration was read anew. */
  lastReload: LastReload | undefined;
  /** Requests under way, open streams included. */
  running: number;
  readonly bodyMemory: BodyMemory;
  /** Of bodies that are on their way. */
  readonly bodyDeadlines: DeadlineLists;
  close(): Promise<void>;
};
