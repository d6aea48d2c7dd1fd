/** Opens and closes the long-lived objects that every request is given. */
import { join } from "node:path";
import { Keys } from "../auth/keys.ts";
import type { BuildInfo } from "../build-info.ts";
import { BackgroundAnswers } from "../call/background-answers.ts";
import { ModelPages } from "../call/model-pages.ts";
import { PersonaKnowledge } from "../call/plan/knowledge.ts";
import { PersonaVersions } from "../call/plan/persona-versions.ts";
import { Previews } from "../call/plan/previews.ts";
import { BodyMemory, defaultBodyMemory } from "../call/read/body-memory.ts";
import { Reports } from "../call/reports.ts";
import type { Services } from "../call/services.ts";
import { declareHttpMetrics } from "../call/settle/metrics.ts";
import type { Config } from "../config/config.ts";
import type { LoadResult, OriginsOf } from "../config/load.ts";
import type { Environment } from "../config/variables.ts";
import { configVersion } from "../config/version.ts";
import { Conversations, type UpstreamState } from "../conversations/conversations.ts";
import { ReplayMemory } from "../conversations/thinking-state.ts";
import { Idempotency } from "../idempotency/idempotency.ts";
import { FetchTransport } from "../lib/http/fetch-transport.ts";
import type { Logger } from "../lib/process/log.ts";
import { Sampler } from "../lib/process/sampler.ts";
import type { Clock } from "../lib/time/clock.ts";
import { DeadlineLists } from "../lib/time/deadlines.ts";
import { ToldOnce } from "../lib/time/told-once.ts";
import { formatDiagnostic } from "../lib/yaml/yaml.ts";
import { openMachineLimits } from "../limits/machine/limiter.ts";
import { StoredLimiter } from "../limits/stored.ts";
import { McpServers } from "../mcp/servers.ts";
import { Metrics } from "../observability/metrics.ts";
import { NodeComparison } from "../observability/node-versions.ts";
import { namedModels } from "../operate/checks/named-models.ts";
import { builtinFiles, builtinPersonas } from "../personas/builtin.ts";
import { PersonaFolder } from "../personas/folder.ts";
import type { Persona } from "../personas/persona.ts";
import { Personas } from "../personas/registry.ts";
import { personaFileWith } from "../personas/schema.ts";
import { optionSchemas } from "../providers/options.ts";
import { providers } from "../providers/registry.ts";
import { openStoreFor } from "../store/open.ts";
import { openRedisWindows } from "../store/redis/windows.ts";
import { openKnowledgeIndex } from "../store/sqlite/knowledge/thread.ts";
import { firstKeyName } from "../store/sqlite/loss-guard.ts";
import { Sweeper, sweepRulesOf } from "../store/sweeper.ts";
import { Upstream } from "../upstream/client.ts";
import { openCredentialSources } from "../upstream/credentials/open.ts";
import { hasNoPrice } from "../upstream/failures.ts";
import { Learned } from "../upstream/learned/learned.ts";
import { MediaFetcher } from "../upstream/media.ts";
import { ModelLists } from "../upstream/model-lists.ts";
import { Pools } from "../upstream/pool/pools.ts";
import { Budgets } from "../usage/budgets.ts";
import { CallRecovery } from "../usage/call-recovery.ts";
import { factsMetrics } from "../usage/facts/renewal.ts";
import { ClientNames } from "../usage/labels.ts";
import { LedgerJournal } from "../usage/ledger-journal.ts";
import { LedgerWriter } from "../usage/ledger-writer.ts";
import { LineCounter } from "../usage/metrics.ts";
import { PriceWatch, priceMetrics } from "../usage/price-watch.ts";
import { RetiringModels, retiringMetrics } from "../usage/retiring-models.ts";
import { Tokenizer } from "../usage/tokenizer.ts";
import { UsageRecorder } from "../usage/usage.ts";
import { VariantStops } from "../usage/variant-stops.ts";
import { openAlerts } from "./alerts.ts";
import { openFacts } from "./facts.ts";
import { liveFrom } from "./live.ts";
import { sampleServices } from "./metrics.ts";
import { openSharedState } from "./shared-state.ts";
import type { WorkerChannel } from "./worker.ts";
export type ServiceOptions = {
  readonly build: BuildInfo;
  readonly clock: Clock;
  readonly log: Logger;
  /** True if calls go through a forward proxy, which only `fetch` can. */
  readonly behindForwardProxy?: boolean;
  /** The environment, for credentials of providers without a key. Default: empty. */
  readonly env?: Environment;
  /** Present in a worker. */
  readonly workerChannel?: WorkerChannel;
  /** Public keys by which facts are proved: `factsKeys` of the build. Default: none. */
  readonly factsKeys?: readonly string[];
  /** Where the values of a configuration came from. Default: nobody knows. */
  readonly originsOf?: OriginsOf;
  /** Reads the configuration as its files are now. */
  readonly readConfiguration?: () => LoadResult;
  /** Changes each persona before it is in service. */
  readonly changePersona?: (persona: Persona) => Persona;
  /** Lets images be fetched from private addresses: for tests. */
  readonly allowPrivateMedia?: boolean;
};

/** @throws StorageError when the store or the data folder can't be used; whatever was opened before something failed is closed again */
export async function openServices(config: Config, options: ServiceOptions): Promise<Services> {
  const { build, clock, log, workerChannel } = options;
  await using opened = new AsyncDisposableStack();
  /** Has a part closed with the others. */
  const own = <T extends { close(): void | Promise<void> }>(part: T): T => opened.adopt(part, (one) => one.close());
  const pools = new Pools(clock);
  const transport = options.behindForwardProxy === true ? new FetchTransport() : undefined;
  const credentials = own(openCredentialSources({ clock, log, env: options.env ?? {}, transport }));
  const store = own(await openStoreFor(config, log, true));
  const recovery = own(new CallRecovery(config.data, store.ledger, clock, log));
  await recovery.start();
  const sharedState = workerChannel && own(openSharedState(workerChannel.settings, clock, log));
  // One worker sweeps for all.
  const isSweeper = workerChannel === undefined || workerChannel.settings.index === 1;
  const processes = workerChannel?.settings.workers ?? 1;
  const limits = own(openMachineLimits(config.data, { clock, log, processes, isSweeper }));
  const { coordination } = config;
  const elsewhere = coordination === undefined ? undefined : own(openRedisWindows(coordination, clock));
  const storedLimits =
    store.windows &&
    own(
      new StoredLimiter({
        windows: elsewhere ?? store.windows,
        clock,
        log,
        place: elsewhere?.place ?? store.path,
        group: () => services.comparison?.group ?? alone,
      }),
    );
  const keys = opened.adopt(new Keys(store.keys, clock, config.tiers), (one) => flushUses(one, log));
  const metrics = new Metrics(build);
  const httpMetrics = declareHttpMetrics(metrics);
  const lines = new LineCounter(metrics, metrics.models);
  const budgets: Budgets = own(
    new Budgets({
      store: store.budgets,
      clock,
      log,
      settings: () => services.live.config.budgets,
      now: () => limits.now(),
      tokensPerMinute: (keyId) => keys.tokensPerMinute(keyId),
      price: (attempt, usage) => services.usage.price(attempt, usage),
      onRefusal: (kind) => lines.metrics.refusals.series(kind).add(),
      settleNow: () => ledger.settleNow(),
    }),
  );
  const variantStops = own(new VariantStops({ store: store.variants, clock, log }));
  const facts = own(openFacts(store, config.data, () => services, options));
  keys.beside = async () => void (await Promise.all([budgets.load(), variantStops.load(), facts.besideKeys()]));
  await keys.load();
  const firstKey = await keys.ensureFirstKey(join(config.data, firstKeyName));
  const personas = new Personas([], options.changePersona);
  const index = own(openKnowledgeIndex());
  const knowledge = new PersonaKnowledge({ index, folder: config.personas.folder, clock, log, metrics });
  const versions = store.personaVersions;
  const rules = () => current().previews;
  const previews = new Previews({ store: store.previews, versions, personas, rules, clock, log });
  const reports = new Reports({ store: store.reports, rules, clock });
  const personaVersions = own(new PersonaVersions({ versions, personas, previews, clock, log }));
  const folder = openPersonas(config.personas, personas, { knowledge, versions: personaVersions }, options);
  opened.defer(() => folder.close());
  const ownBodyMemory = defaultBodyMemory(config.workers);
  const current = () => services.live.config;
  const sweeper = opened.adopt(new Sweeper(store, clock, () => sweepRulesOf(current()), log), (one) => one.stop());
  // Closed after all that makes calls.
  const ledger = own(
    new LedgerWriter({
      ledger: store.ledger,
      clock,
      log,
      openJournal: () => LedgerJournal.open(config.data, store.processName?.()),
      isShared: store.nodes !== undefined,
      onWritten: () => budgets.settled(),
      // The other processes learn of it by the version of the keys; this one at once. What can't be read now is read then.
      onStopped: () => void variantStops.load().catch(() => {}),
    }),
  );
  const tokenizer = own(new Tokenizer(clock, log));
  const usage = own(
    new UsageRecorder({
      clock,
      log,
      writer: ledger,
      tokenizer,
      prices: () => services.live.prices,
      onLine: (line, attempt) => {
        lines.count(line, attempt);
        attempt.trace?.ended(line);
        alerts.attempted(line);
        const { provider, upstreamModel, errorCode } = line;
        if (errorCode !== null && provider !== null && upstreamModel !== null && hasNoPrice({ code: errorCode }))
          priceWatch.refused(provider, upstreamModel);
      },
    }),
  );
  const servedVersion = (id: string) => (services.loading === undefined ? personas.find(id)?.version : null);
  const retiring = own(
    new RetiringModels({
      used: () => lines.used(),
      accounts: () => services.live.accounts,
      lists: { find: (bound, model) => modelLists.find(bound, model) },
      clock,
      log,
    }),
  );
  metrics.sample(retiringMetrics, retiring);
  const priceWatch = own(
    new PriceWatch({
      used: () => lines.used(),
      named: () => namedModels(personas.list(), current()),
      accounts: () => services.live.accounts,
      prices: () => services.live.prices,
      clock,
      log,
    }),
  );
  metrics.sample(priceMetrics, priceWatch);
  metrics.sample(factsMetrics, facts);
  const alerts = own(
    openAlerts(
      {
        store,
        config: current,
        budgets,
        keys,
        ledger,
        metrics,
        variantStops,
        servedVersion,
        retiring,
        priceWatch,
        comparison: () => services.comparison,
      },
      options,
    ),
  );
  const upstream = own(new Upstream(clock, transport));
  const modelLists = own(
    new ModelLists({
      upstream,
      accounts: () => services.live.accounts,
      clock,
      log,
      data: config.data,
      refreshMinutes: () => current().modelLists.refreshMinutes,
    }),
  );
  const mcp = own(new McpServers({ clock, log, version: build.version }));
  mcp.configure(config.mcpServers);
  const conversations = new Conversations(store, clock, () => current().conversations.retentionDays);
  // Closed in reverse: what the records' end cancels is written by the answers' own.
  const closingBackground = () => background.close();
  opened.defer(closingBackground);
  const idempotency = own(new Idempotency(store, clock, () => current().idempotency, log));
  const background = opened.adopt(new BackgroundAnswers(idempotency, conversations, clock, log), (one) =>
    one.closing(),
  );
  const comparison =
    store.nodes &&
    own(
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
    );
  // Facts that other nodes took meanwhile are here by now.
  const services: Services = {
    live: liveFrom(config, log, { pools, credentials }),
    originsOf: options.originsOf ?? (() => new Map()),
    readConfiguration: options.readConfiguration,
    build,
    clock,
    log,
    logSampler: new Sampler(),
    toldOnce: new ToldOnce(mostTold),
    metrics,
    httpMetrics,
    store,
    keys,
    firstKey,
    callerLimits: storedLimits ?? limits.callers,
    storedLimits,
    anonymousLimits: limits.addresses,
    comparison,
    workers: workerChannel,
    personas,
    personaVersions,
    previews,
    reports,
    loading: undefined,
    personaFaults: () => folder.lastErrors,
    rereadPersonas: async () => void (await folder.rescan()),
    knowledge,
    upstream,
    pools,
    credentials,
    modelLists,
    modelPages: new ModelPages(),
    learned: new Learned(clock),
    mcp,
    usage,
    ledger,
    clients: new ClientNames(clock),
    tokenizer,
    budgets,
    alerts,
    facts,
    variantStops,
    media: new MediaFetcher({ allowPrivate: options.allowPrivateMedia === true }),
    replayMemory: new ReplayMemory(clock, sharedState?.states),
    conversations,
    background,
    forgetUpstream: (state) => forgetUpstream(services, state),
    idempotency,
    startedAt: clock.monotonic(),
    stopping: false,
    draining: false,
    lastReload: undefined,
    running: 0,
    bodyDeadlines: new DeadlineLists(clock),
    bodyMemory: new BodyMemory(() => current().limits.bodyMemoryBytes ?? ownBodyMemory),
    close: () => closing.disposeAsync(),
  };
  services.usage.gate = budgets;
  await idempotency.interruptAbandoned();
  await budgets.start();
  alerts.start();
  modelLists.start();
  retiring.start();
  priceWatch.start();
  facts.start();
  await sampleServices(services, {
    sweeper,
    coordination: elsewhere === undefined ? [] : [elsewhere.connection],
  });
  services.loading = folder.start().then(() => {
    services.loading = undefined;
    void personaVersions.record();
  });
  if (comparison !== undefined) {
    // Its first word is of what was read.
    void Promise.resolve(services.loading).then(() => comparison.start());
  }
  if (isSweeper) sweeper.start();
  const closing = opened.move();
  return services;
}

/** Until nodes are known. */
/** Names of what is left out come from callers. */
const mostTold = 1000;

const alone = { nodes: 1, rank: 0 };

async function flushUses(keys: Keys, log: Logger): Promise<void> {
  try {
    await keys.flush();
  } catch (error) {
    log.warn("when keys were last used could not be written", { error });
  }
}

async function forgetUpstream({ live, upstream, log }: Services, { account: name, member, responseId }: UpstreamState) {
  const found = live.accounts.find(name);
  const bound = found?.pool?.members.find((one) => one.member.id === member) ?? found;
  if (bound?.provider.kind !== "remote" || bound.provider.forget === undefined) return;
  try {
    const request = bound.provider.forget(responseId, bound.account);
    const answer = await upstream.send(request, bound, AbortSignal.timeout(60_000));
    answer.drain();
    if (answer.status >= 300 && answer.status !== 404) throw new Error(`status ${answer.status}`);
  } catch (error) {
    log.warn("an upstream's copy of a deleted conversation may remain until it expires", { provider: name, error });
  }
}

function openPersonas(
  { folder, isNamed }: Config["personas"],
  personas: Personas,
  { knowledge, versions }: { readonly knowledge: PersonaKnowledge; readonly versions: PersonaVersions },
  { clock, log }: ServiceOptions,
): PersonaFolder {
  let saysHidden = true;
  return new PersonaFolder({
    schema: personaFileWith(optionSchemas(providers)),
    path: folder,
    personas,
    clock,
    load: (names) => versions.load(names),
    ...(!isNamed && { otherwise: builtinPersonas() }),
    onRead: (all) => void knowledge.update(all),
    onReload: ({ added, changed, removed, errors, areOwn }) => {
      for (const diagnostic of errors)
        log.error("a persona is invalid; its last good version stays", { at: formatDiagnostic(diagnostic) });
      const from = areOwn ? folder : "the executable";
      log.info("personas", {
        from,
        in_service: personas.list().length,
        added,
        changed,
        removed,
        errors: errors.length,
      });
      const hidden =
        areOwn && saysHidden ? Object.keys(builtinFiles).filter((id) => personas.find(id) === undefined) : [];
      if (hidden.length > 0) log.info("own personas take the place of those in the executable", { not_served: hidden });
      saysHidden = !areOwn;
      void versions.record();
    },
  });
}
