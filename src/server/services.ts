/** Opens and closes the long-lived objects that every request is given, room by room (`rooms/`). */
import { ModelPages } from "../call/model-pages.ts";
import { BodyMemory, defaultBodyMemory } from "../call/read/body-memory.ts";
import type { Services } from "../call/services.ts";
import { declareHttpMetrics } from "../call/settle/metrics.ts";
import type { Config } from "../config/config.ts";
import type { UpstreamState } from "../conversations/conversations.ts";
import { ReplayMemory } from "../conversations/thinking-state.ts";
import { FetchTransport } from "../lib/http/fetch-transport.ts";
import { Sampler } from "../lib/process/sampler.ts";
import { DeadlineLists } from "../lib/time/deadlines.ts";
import { ToldOnce } from "../lib/time/told-once.ts";
import { Metrics } from "../observability/metrics.ts";
import { openCredentialSources } from "../upstream/credentials/open.ts";
import { Learned } from "../upstream/learned/learned.ts";
import { MediaFetcher } from "../upstream/media.ts";
import { Pools } from "../upstream/pool/pools.ts";
import { ClientNames } from "../usage/ledger/labels.ts";
import { liveFrom } from "./live.ts";
import { sampleServices } from "./metrics.ts";
import { openAnswers } from "./rooms/answers.ts";
import { openHeldBack } from "./rooms/held-back.ts";
import { openLedger } from "./rooms/ledger.ts";
import type { FirstOpening, ServiceOptions } from "./rooms/opening.ts";
import { openPersonas } from "./rooms/personas.ts";
import { openStored } from "./rooms/stored.ts";
import { openUpstreams } from "./rooms/upstreams.ts";

export type { ServiceOptions } from "./rooms/opening.ts";

/** Names of what is left out come from callers. */
const mostTold = 1000;

/** @throws StorageError when the store or the data folder can't be used; whatever was opened before something failed is closed again */
export async function openServices(config: Config, options: ServiceOptions): Promise<Services> {
  const { build, clock, log } = options;
  await using opened = new AsyncDisposableStack();
  const first: FirstOpening = {
    ...{ config, options, build, clock, log, opened },
    own: (part) => opened.adopt(part, (one) => one.close()),
    services: () => services,
    current: () => services.live.config,
  };
  const { own, current } = first;
  const pools = new Pools(clock);
  const transport = options.behindForwardProxy === true ? new FetchTransport() : undefined;
  const credentials = own(openCredentialSources({ clock, log, env: options.env ?? {}, transport }));
  // Each room is closed before those above it here.
  const stored = await openStored(first);
  const metrics = new Metrics(build);
  const opening = { ...first, metrics };
  const httpMetrics = declareHttpMetrics(metrics);
  const heldBack = await openHeldBack(opening, stored);
  const { folder, ...personas } = openPersonas(opening, stored);
  const { sweeper, retiring, priceWatch, ...accounts } = openLedger(opening, stored, heldBack, { folder, ...personas });
  const upstreams = openUpstreams(opening, transport);
  const answers = openAnswers(opening, stored, { folder, ...personas });
  const { store, keys, sharedState, limits, storedLimits, elsewhere, isSweeper } = stored;
  const { budgets, facts, variantStops, firstKey } = heldBack;
  const ownBodyMemory = defaultBodyMemory(config.workers);
  const services: Services = {
    // Facts that other nodes took meanwhile are here by now.
    live: liveFrom(config, log, { pools, credentials }),
    originsOf: options.originsOf ?? (() => new Map()),
    readConfiguration: options.readConfiguration,
    ...{ build, clock, log, metrics, httpMetrics },
    logSampler: new Sampler(),
    toldOnce: new ToldOnce(mostTold),
    ...{ store, keys, firstKey, storedLimits },
    callerLimits: limits.callers,
    anonymousLimits: limits.addresses,
    workers: options.workerChannel,
    ...personas,
    loading: undefined,
    personaFaults: () => folder.lastErrors,
    rereadPersonas: async () => void (await folder.rescan()),
    ...{ ...upstreams, pools, credentials },
    modelPages: new ModelPages(),
    learned: new Learned(clock),
    ...accounts,
    clients: new ClientNames(clock),
    ...{ budgets, facts, variantStops },
    media: new MediaFetcher({ allowPrivate: options.allowPrivateMedia === true }),
    replayMemory: new ReplayMemory(clock, sharedState?.states),
    ...answers,
    forgetUpstream: (state) => forgetUpstream(services, state),
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
  await services.idempotency.interruptAbandoned();
  await budgets.start();
  for (const one of [services.alerts, services.modelLists, retiring, priceWatch, facts]) one.start();
  await sampleServices(services, { sweeper, coordination: elsewhere === undefined ? [] : [elsewhere.connection] });
  services.loading = folder.start().then(() => {
    services.loading = undefined;
    void services.personaVersions.record();
  });
  // Its first word is of what was read.
  void Promise.resolve(services.loading).then(() => services.comparison?.start());
  if (isSweeper) sweeper.start();
  const closing = opened.move();
  return services;
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
