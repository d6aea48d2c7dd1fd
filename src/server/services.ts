/** Opens and closes the long-lived objects that every request is given. */
import { join } from "node:path";
import { Keys } from "../auth/keys.ts";
import type { BuildInfo } from "../build-info.ts";
import { Aliases } from "../config/aliases.ts";
import type { Config } from "../config/config.ts";
import { configVersion } from "../config/version.ts";
import { Conversations, type UpstreamState } from "../conversations/conversations.ts";
import { ReplayMemory } from "../conversations/thinking-state.ts";
import { BackgroundAnswers } from "../http/background.ts";
import { BodyMemory, defaultBodyMemory } from "../http/body-memory.ts";
import type { Live, Services } from "../http/services.ts";
import { Idempotency } from "../idempotency/idempotency.ts";
import { AddressBlocks } from "../lib/addresses.ts";
import type { Clock } from "../lib/clock.ts";
import { FetchTransport } from "../lib/http/fetch-transport.ts";
import type { Logger } from "../lib/log.ts";
import { Sampler } from "../lib/sampler.ts";
import { formatDiagnostic } from "../lib/yaml/yaml.ts";
import { ClusterLimiter } from "../limits/cluster-limiter.ts";
import { openLimits } from "../limits/limits.ts";
import { Metrics } from "../observability/metrics.ts";
import { NodeComparison } from "../observability/node-versions.ts";
import { builtinPersonas } from "../personas/builtin.ts";
import { PersonaFolder } from "../personas/folder.ts";
import { Personas } from "../personas/registry.ts";
import { personaFileWith } from "../personas/schema.ts";
import { optionSchemas } from "../providers/options.ts";
import { providers } from "../providers/registry.ts";
import { openStoreFor } from "../store/open.ts";
import { openRedisStreams } from "../store/redis/live-streams.ts";
import { openRedisCounter } from "../store/redis/pool-counter.ts";
import { openRedisWindows } from "../store/redis/shared-windows.ts";
import { firstKeyName } from "../store/sqlite/loss-guard.ts";
import type { Store } from "../store/store.ts";
import { Sweeper, sweepRulesOf } from "../store/sweeper.ts";
import { Accounts } from "../upstream/accounts.ts";
import { Upstream } from "../upstream/client.ts";
import { MediaFetcher } from "../upstream/media.ts";
import { Budgets } from "../usage/budgets.ts";
import { LedgerJournal, writeLeftLines } from "../usage/ledger-journal.ts";
import { LedgerWriter } from "../usage/ledger-writer.ts";
import { PooledBudgets } from "../usage/pooled-budgets.ts";
import { Prices } from "../usage/prices/prices.ts";
import { Tokenizer } from "../usage/tokenizer.ts";
import { UsageRecorder } from "../usage/usage.ts";
import { openSharedState } from "./shared-state.ts";
import type { WorkerChannel } from "./worker.ts";
export type ServiceOptions = {
  readonly build: BuildInfo;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether calls go through a forward proxy, which only `fetch` can. */
  readonly behindForwardProxy?: boolean;
  /** Present in a worker. */
  readonly workerChannel?: WorkerChannel;
  /** Lets images be fetched from private addresses: for tests. */
  readonly allowPrivateMedia?: boolean;
};

/** @throws StorageError when the store or the data folder can't be used; whatever was opened before something failed is closed again */
export async function openServices(config: Config, options: ServiceOptions): Promise<Services> {
  const { build, clock, log, workerChannel } = options;
  await using opened = new AsyncDisposableStack();
  const live = liveFrom(config);
  const store = opened.adopt(await openStoreFor(config, log, true), (one) => one.close());
  await writeLeftLines(config.data, store.ledger, log);
  const sharedState =
    workerChannel && opened.adopt(openSharedState(workerChannel.settings, clock, log), (one) => one.close());
  // One worker sweeps for all.
  const isSweeper = workerChannel === undefined || workerChannel.settings.index === 1;
  const processes = workerChannel?.settings.workers ?? 1;
  const limits = opened.adopt(openLimits(config.data, { clock, log, processes, isSweeper }), (one) => one.close());
  const { coordination } = config;
  const elsewhere =
    coordination === undefined
      ? undefined
      : opened.adopt(openRedisWindows(coordination, clock), (windows) => windows.close());
  const cluster =
    store.windows &&
    opened.adopt(
      new ClusterLimiter({
        windows: elsewhere ?? store.windows,
        ...(elsewhere && { counter: store.windows }),
        clock,
        log,
        place: elsewhere?.place ?? store.path,
      }),
      (one) => one.close(),
    );
  await cluster?.start();
  const keys = opened.adopt(new Keys(store.keys, clock, config.tiers), (one) => flushUses(one, log));
  const metrics = new Metrics(build);
  const counter =
    coordination === undefined ? undefined : opened.adopt(openRedisCounter(coordination, clock), (one) => one.close());
  const nodes = () => cluster?.status.nodes ?? 1;
  const pooled =
    store.poolRepository &&
    opened.adopt(
      new PooledBudgets({
        store: store.budgets,
        poolRepository: store.poolRepository,
        ...(counter && { counter }),
        clock,
        log,
        nodes,
      }),
      (one) => one.close(),
    );
  const budgets = opened.adopt(
    new Budgets({
      store: pooled ?? store.budgets,
      clock,
      log,
      settings: () => current().budgets,
      now: () => limits.now(),
      tokensPerMinute: (keyId) => keys.tokensPerMinute(keyId),
      price: (attempt, usage) => services.usage.price(attempt, usage),
      onSpending: (scope, period, limit, used) => metrics.budget(scope, period, limit, used),
      onRefusal: (kind) => metrics.budgetRefusal(kind),
    }),
    (one) => one.close(),
  );
  keys.beside = () => budgets.load();
  await keys.load();
  const firstKey = await keys.ensureFirstKey(join(config.data, firstKeyName));
  const personas = new Personas();
  const folder = openPersonas(config.personas, personas, options);
  opened.defer(() => folder?.close());
  const ownBodyMemory = defaultBodyMemory(config.workers);
  const current = () => services.live.config;
  const sweeper = opened.adopt(new Sweeper(store, clock, () => sweepRulesOf(current()), log), (one) => one.stop());
  // Closed after all that makes calls.
  const openJournal = () => LedgerJournal.open(config.data);
  const ledger = opened.adopt(new LedgerWriter(store, clock, log, openJournal), (one) => one.close());
  const tokenizer = opened.adopt(new Tokenizer(clock, log), (one) => one.close());
  const usage = opened.adopt(
    new UsageRecorder({
      clock,
      log,
      writer: ledger,
      tokenizer,
      prices: () => services.live.prices,
      onLine: (line, isListed) => services.metrics.ledgerLine(line, isListed),
    }),
    (one) => one.close(),
  );
  const transport = options.behindForwardProxy === true ? new FetchTransport() : undefined;
  const upstream = opened.adopt(new Upstream(clock, transport), (one) => one.close());
  const conversations = new Conversations(store, clock, () => current().conversations.retentionDays);
  // Closed in reverse: what the records' end cancels is written by the answers' own.
  const closingBackground = () => background.close();
  opened.defer(closingBackground);
  const streams = coordination === undefined ? undefined : openRedisStreams(coordination, clock);
  const idempotency = opened.adopt(new Idempotency(store, clock, () => current().idempotency, log, streams), (one) =>
    one.close(),
  );
  const background = opened.adopt(new BackgroundAnswers(idempotency, conversations, clock, log), (one) =>
    one.closing(),
  );
  const comparison =
    store.nodes &&
    opened.adopt(
      new NodeComparison({
        nodes: store.nodes,
        clock,
        log,
        versions: () => ({
          program: `${build.version} ${build.commit}`,
          configuration: configVersion(current()),
          personas: personas.version,
        }),
      }),
      (one) => one.close(),
    );
  const services: Services = {
    live,
    build,
    clock,
    log,
    logSampler: new Sampler(),
    metrics,
    store,
    keys,
    firstKey,
    callerLimits: cluster ?? limits.callers,
    cluster,
    anonymousLimits: limits.addresses,
    comparison,
    arePooled: pooled && counter && (() => pooled.isPooled),
    workers: workerChannel,
    personas,
    loading: undefined,
    personaErrors: () => folder?.lastErrors.length ?? 0,
    rereadPersonas: async () => void (await folder?.rescan()),
    upstream,
    usage,
    ledger,
    tokenizer,
    budgets,
    media: new MediaFetcher({ allowPrivate: options.allowPrivateMedia === true }),
    replayMemory: new ReplayMemory(clock, sharedState?.states),
    conversations,
    background,
    forgetUpstream: (state) => forgetUpstream(services, state),
    idempotency,
    startedAt: clock.monotonic(),
    stopping: false,
    draining: false,
    running: 0,
    bodyMemory: new BodyMemory(() => current().limits.bodyMemoryBytes ?? ownBodyMemory),
    close: () => closing.disposeAsync(),
  };
  services.usage.gate = budgets;
  await idempotency.interruptAbandoned();
  await budgets.start();
  services.metrics.sampleGauge(
    "troupe_requests_running",
    "Requests under way, open streams included.",
    () => services.running,
  );
  services.metrics.sampleGauge(
    "troupe_request_body_bytes",
    "Bytes of request bodies that are held in memory.",
    () => services.bodyMemory.heldBytes,
  );
  services.metrics.sampleGauge(
    "troupe_background_responses_running",
    "Responses that are made in the background.",
    () => background.size,
  );
  sampleLedger(services);
  if (cluster !== undefined) sampleCluster(metrics, cluster);
  if (pooled !== undefined && counter !== undefined) samplePools(metrics, pooled);
  sampleNetwork(services);
  sampleLive(services);
  sampleStores(services, sweeper, await storeSize(store));
  services.loading = folder?.start().then(() => {
    services.loading = undefined;
  });
  if (comparison !== undefined) {
    sampleComparison(metrics, comparison);
    // Its first word is of what was read.
    void Promise.resolve(services.loading).then(() => comparison.start());
  }
  if (isSweeper) sweeper.start();
  const closing = opened.move();
  return services;
}

async function flushUses(keys: Keys, log: Logger): Promise<void> {
  try {
    await keys.flush();
  } catch (error) {
    log.warn("when keys were last used could not be written", { error });
  }
}

async function forgetUpstream({ live, upstream, log }: Services, { account: name, responseId }: UpstreamState) {
  const bound = live.accounts.find(name);
  if (bound?.provider.kind !== "remote" || bound.provider.forget === undefined) return;
  const { account, provider, timeouts } = bound;
  try {
    const request = provider.forget!(responseId, account);
    const answer = await upstream.send(request, account, timeouts, AbortSignal.timeout(60_000));
    answer.drain();
    if (answer.status >= 300 && answer.status !== 404) throw new Error(`status ${answer.status}`);
  } catch (error) {
    log.warn("an upstream's copy of a deleted conversation may remain until it expires", { provider: name, error });
  }
}

/** @returns what gives the size in bytes as it was when last asked, and asks anew */
async function storeSize({ maintenance }: Store): Promise<() => number> {
  let { bytes } = await maintenance.size();
  const ask = async () => {
    ({ bytes } = await maintenance.size());
  };
  return () => {
    ask().catch(() => {});
    return bytes;
  };
}

function sampleCluster(metrics: Metrics, cluster: ClusterLimiter): void {
  const { counts } = cluster;
  metrics.sampleGauge(
    "troupe_limit_nodes",
    "Nodes that share the rate limits, as last known.",
    () => cluster.status.nodes,
    "max",
  );
  metrics.sampleGauge(
    "troupe_limit_shared",
    "Whether rate limits are counted over all nodes; 0: the node admits its share.",
    () => (cluster.status.isAlone ? 0 : 1),
    "min",
  );
  metrics.sampleCounter(
    "troupe_limit_waits_total",
    "Requests that waited for the store of the rate limits.",
    () => counts.waited,
  );
  metrics.sampleCounter(
    "troupe_limit_share_decisions_total",
    "Requests admitted or refused by the node's share of a limit.",
    () => counts.byShare,
  );
  metrics.sampleCounter(
    "troupe_limit_losses_total",
    "How often the store of the rate limits was lost.",
    () => counts.lost,
  );
}

function sampleComparison(metrics: Metrics, comparison: NodeComparison): void {
  for (const part of ["program", "configuration", "personas"] as const) {
    metrics.sampleGauge(
      `troupe_nodes_other_${part}`,
      `Nodes whose ${part} ${part === "personas" ? "are" : "is"} another than of this one.`,
      () => comparison.difference[part],
      "max",
    );
  }
}

function samplePools(metrics: Metrics, pooled: PooledBudgets): void {
  const { counts } = pooled;
  metrics.sampleGauge(
    "troupe_budget_pools_shared",
    "Whether calls are counted in pools of budgets; 0: all go by the database.",
    () => (pooled.isPooled ? 1 : 0),
    "min",
  );
  metrics.sampleGauge(
    "troupe_budget_pools_waiting",
    "Pools of budgets of which the database is yet to be told what was spent.",
    () => pooled.waiting,
  );
  metrics.sampleCounter(
    "troupe_budget_pooled_calls_total",
    "Calls whose cost was reserved in pools of budgets.",
    () => counts.pooled,
  );
  metrics.sampleCounter(
    "troupe_budget_stored_calls_total",
    "Calls whose cost was reserved in the database although there are pools.",
    () => counts.stored,
  );
  metrics.sampleCounter(
    "troupe_budget_pool_losses_total",
    "How often the pools of budgets could not be reached any more.",
    () => counts.lost,
  );
  metrics.sampleCounter(
    "troupe_token_share_decisions_total",
    "Calls whose tokens were admitted or refused by the node's share of a limit.",
    () => counts.byShare,
  );
}

function sampleLedger({ metrics, ledger }: Services): void {
  const { counts } = ledger;
  metrics.sampleCounter("troupe_ledger_lines_total", "Lines of the ledger written.", () => counts.written);
  metrics.sampleCounter("troupe_ledger_lost_total", "Lines that were never written.", () => counts.lost);
  metrics.sampleCounter("troupe_ledger_failures_total", "Writes of the ledger that failed.", () => counts.failures);
  metrics.sampleGauge("troupe_ledger_waiting", "Lines that are not written yet.", () => ledger.waiting);
  metrics.sampleGauge(
    "troupe_ledger_lag_seconds",
    "For how long the oldest line waits to be written.",
    () => ledger.lagSeconds,
    "max",
  );
}

function sampleNetwork({ metrics, store }: Services): void {
  if (store.network === undefined) return;
  const counted = (name: string, help: string, of: "statements" | "failed" | "late" | "replaced" | "deaf") =>
    metrics.sampleCounter(`troupe_database_${name}_total`, help, () => store.network!()[of]);
  counted("statements", "Statements and transactions sent to PostgreSQL.", "statements");
  counted("failures", "Those that failed.", "failed");
  counted("late", "Those that did not end in time.", "late");
  counted("pools_replaced", "Pools of connections thrown away, as one of them had gone silent.", "replaced");
  counted("deaf", "How often notifications were found not to come any more.", "deaf");
  metrics.sampleGauge(
    "troupe_database_listening",
    "Whether notifications come: 1, or 0.",
    () => Number(store.network!().isListening),
    "max",
  );
}

function sampleLive({ metrics, idempotency }: Services): void {
  metrics.sampleGauge(
    "troupe_joined_live",
    "Readers of calls on other nodes who get events as they come.",
    () => idempotency.joined.live,
  );
  metrics.sampleGauge(
    "troupe_joined_stored",
    "Readers of calls in other processes who get events from the store.",
    () => idempotency.joined.stored,
  );
  const { live } = idempotency;
  if (live === undefined) return;
  const counted = (name: string, help: string, of: keyof typeof live.counts) =>
    metrics.sampleCounter(`troupe_live_${name}_total`, help, () => live.counts[of]);
  metrics.sampleGauge(
    "troupe_live_connected",
    "Whether calls on other nodes are followed live: 1, or 0.",
    () => Number(live.isHearing),
    "min",
  );
  counted("published", "Entries published for readers on other nodes.", "published");
  counted("heard", "Entries of other nodes.", "heard");
  counted("publish_failures", "Failures to publish; readers then get events from the database.", "unpublished");
  counted("losses", "How often the server of live streams was lost.", "lost");
  counted("fallbacks", "How often a reader went on from the database.", "fellBack");
}

function sampleStores({ metrics, idempotency, log }: Services, sweeper: Sweeper, storeBytes: () => number): void {
  const { counts } = idempotency;
  const swept = sweeper.counts;
  metrics.sampleCounter("troupe_swept_answers_total", "Expired idempotency records removed.", () => swept.answers);
  metrics.sampleCounter("troupe_swept_turns_total", "Expired conversation turns removed.", () => swept.turns);
  metrics.sampleCounter("troupe_swept_ledger_total", "Old lines of the ledger removed.", () => swept.ledger);
  metrics.sampleCounter("troupe_sweeps_total", "Sweeps that ended.", () => swept.sweeps);
  metrics.sampleCounter("troupe_sweep_failures_total", "Sweeps that failed in the store.", () => swept.failures);
  metrics.sampleCounter(
    "troupe_idempotent_released_total",
    "Ids freed by errors and cancellation.",
    () => counts.released,
  );
  metrics.sampleCounter(
    "troupe_idempotent_interrupted_total",
    "Calls found half done after a crash.",
    () => counts.interrupted,
  );
  metrics.sampleCounter("troupe_store_failures_total", "Answers that could not be stored.", () => counts.storeFailures);
  metrics.sampleCounter(
    "troupe_log_lines_dropped_total",
    "Log lines lost because nobody read them.",
    () => log.dropped,
  );
  metrics.sampleGauge(
    "troupe_idempotent_running",
    "Calls with a service-request-id in flight.",
    () => idempotency.running,
  );
  metrics.sampleGauge("troupe_store_bytes", "Size of the database file.", storeBytes, "max");
}

/** @returns the watched folder; undefined where the compiled-in personas are used */
function openPersonas(
  path: string | undefined,
  personas: Personas,
  { clock, log }: ServiceOptions,
): PersonaFolder | undefined {
  if (path === undefined) {
    personas.replace(builtinPersonas());
    return undefined;
  }
  return new PersonaFolder({
    schema: personaFileWith(optionSchemas(providers)),
    path,
    personas,
    clock,
    onReload: ({ added, changed, removed, errors }) => {
      for (const diagnostic of errors)
        log.error("a persona is invalid; its last good version stays", { at: formatDiagnostic(diagnostic) });
      log.info("personas", { in_service: personas.list().length, added, changed, removed, errors: errors.length });
    },
  });
}

export function liveFrom(config: Config): Live {
  return {
    config,
    accounts: new Accounts(config.providers, providers),
    aliases: new Aliases(config.aliases),
    prices: new Prices(config.prices),
    trustedProxies: new AddressBlocks(config.trustedProxies),
  };
}
