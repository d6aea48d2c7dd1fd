/** The open endpoints: health, version and metrics. */
import { Type } from "@sinclair/typebox";
import { isAdmin, showAnonymousLimit } from "../call/admit/admit.ts";
import type { Host, RequestContext } from "../call/context.ts";
import { jsonAnswer, textAnswer } from "../call/relay/relay.ts";
import type { Services, Workers } from "../call/services.ts";
import { configVersion } from "../config/version.ts";
import { Open, titled, Words } from "../lib/json/schemas.ts";
import type { StoredLimiterStatus } from "../limits/stored.ts";
import { ApiError } from "../protocols/errors.ts";
import { StorageError } from "../store/contract/storage-error.ts";
import type { WholeAnswer } from "../upstream/answer.ts";
import type { PoolView } from "../upstream/pool/pools.ts";
import { poolState } from "../upstream/pool/state.ts";
import { checkedRoutes } from "./checked-routes.ts";
import { type DescribedOperation, describeOperation } from "./openapi/describe.ts";

type Check = {
  readonly status: "ok" | "failing";
  readonly message?: string;
  /** For a database on a server: true where changes by other nodes are notified, and not only asked for. */
  readonly listening?: boolean;
};

/**
 * Storage lost is the one fault that makes the service unhealthy: without it no key can be trusted to be current. While a database
 * server is away, full or failing and its keys may still be trusted, calls without an id go on, and a balancer is not to take every node out.
 */
/** @param isForAdmin true where names and fingerprints may be shown */
export async function serverHealthOf(services: Services, isForAdmin: boolean) {
  await services.loading;
  const { goesOn, ...storage } = await checkStorage(services);
  const checks = {
    storage,
    ...checkKeys(services, storage),
    ledger: {
      ...working(!services.ledger.isFailing, "No line of the ledger can be written: they wait in memory."),
      waiting: services.ledger.waiting,
    },
    personas: {
      status: services.personaFaults().length > 0 ? ("failing" as const) : ("ok" as const),
      loaded: services.personas.list().length,
      version: services.personas.version,
      ...others(services, "personas"),
    },
    configuration: {
      status: "ok" as const,
      version: configVersion(services.live.config),
      ...others(services, "configuration"),
    },
    providers: checkProviders(services, isForAdmin),
    ...(services.storedLimits !== undefined && { rate_limits: checkLimits(await services.storedLimits.check()) }),
    ...(services.workers !== undefined && { workers: await checkWorkers(services.workers) }),
  };
  const ok = Object.values(checks).every(({ status }) => status === "ok");
  const body = {
    status: ok ? ("ok" as const) : ("degraded" as const),
    version: services.build.version,
    uptime_seconds: Math.floor((services.clock.monotonic() - services.startedAt) / 1000),
    checks,
  };
  return { body, isHealthy: storage.status === "ok" || goesOn === true };
}

async function health(services: Services, context: RequestContext): Promise<WholeAnswer> {
  const { body, isHealthy } = await serverHealthOf(services, isAdmin(services, context));
  return jsonAnswer(body, isHealthy ? 200 : 503);
}

/** `goesOn`: what needs no storage is answered all the same. */
async function checkStorage({ store, log, keys }: Services): Promise<Check & { readonly goesOn?: boolean }> {
  const database = store.database?.();
  try {
    await store.maintenance.check();
    if (store.maintenance.refusal !== undefined) throw store.maintenance.refusal;
    return { status: "ok" };
  } catch (error) {
    log.error("storage check failed", { error });
    if (database === undefined) return { status: "failing", message: "The data folder can't be written." };
    return { status: "failing", message: databaseFailure(error), goesOn: keys.areTrusted };
  }
}

/** Present only where keys fail: what that means for those who call, and for those who make keys. */
function checkKeys({ keys }: Services, storage: Check): { readonly keys?: Check } {
  const failing = (message: string) => ({ keys: { status: "failing" as const, message } });
  if (!keys.areTrusted) return failing("Keys can't be read: no change of a key counts, and in the end none is let in.");
  if (keys.areOld)
    return failing("Keys can't be read: those that are known are let in, and no change of a key counts.");
  return storage.status === "ok" ? {} : failing("Keys can't be made, changed or revoked, as the storage fails.");
}

/** For whoever may ask: no address, no cause. The log has them. */
function databaseFailure(error: unknown): string {
  const kind = error instanceof StorageError ? error.kind : undefined;
  if (kind === "away") return "The database can't be reached.";
  if (kind === "full") return "The database's disk is full.";
  if (kind === "readonly") return "The database takes no writes.";
  if (kind === "busy") return "The database did not answer in time.";
  return "The database fails; the log says how.";
}

/** For whoever may ask: counts. Names and fingerprints are for who administers. */
function checkProviders({ live, pools }: Services, isShownNames: boolean) {
  const views = pools.view(live.accounts);
  const resting = views.filter((pool) => poolState(pool) === "resting");
  const degraded = views.filter((pool) => poolState(pool) === "degraded");
  const named = ({ provider, members }: PoolView) => ({
    provider,
    keys: members.flatMap(({ fingerprint, cooldowns, breaker }) => {
      const until = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());
      const all = cooldowns.map((cooldown) => ({ key: fingerprint, ...cooldown, until: until(cooldown.until) }));
      if (breaker.state === "closed") return all;
      return [
        ...all,
        { key: fingerprint, breaker: breaker.state, reason: breaker.reason, until: until(breaker.until) },
      ];
    }),
  });
  return {
    ...working(resting.length === 0, "Every key and endpoint of a provider is in cooldown after errors."),
    set_up: views.length,
    ...(resting.length > 0 && { resting: resting.length }),
    ...(degraded.length > 0 && { degraded: degraded.length }),
    ...(isShownNames && resting.length + degraded.length > 0 && { rests: [...resting, ...degraded].map(named) }),
  };
}

function checkLimits({ state, nodes, cause }: StoredLimiterStatus) {
  if (state === "counted") return { status: "ok" as const, nodes };
  const failure = state === "lost" ? "were lost less than a minute ago" : windowsFailure(cause);
  const message = `The windows of all nodes ${failure}: this node admits its share of each limit.`;
  return { status: "failing" as const, message, nodes };
}

function windowsFailure(cause: StoredLimiterStatus["cause"]): string {
  if (cause === "readonly") return "take no writes, as on a replica";
  if (cause === "full") return "have no room left";
  if (cause === "unusable" || cause === "missing") return "are refused to it, and the log says how";
  return "can't be reached";
}

function working(isWorking: boolean, otherwise: string): Check {
  return isWorking ? { status: "ok" } : { status: "failing", message: otherwise };
}

/** A warning that does not make a node unhealthy: nodes differ while they are replaced. */
function others({ comparison }: Services, part: "personas" | "configuration") {
  if (comparison === undefined) return {};
  const { nodes, [part]: differing } = comparison.difference;
  if (differing === 0) return { nodes_differing: 0 };
  const verb = part === "personas" ? "are" : "is";
  const message = `Of ${nodes} nodes ${differing} serve with another version: ${part} ${verb} in files on each node.`;
  return { nodes_differing: differing, message };
}

async function checkWorkers(group: Workers) {
  const status = await group.ask("status");
  if (status === undefined) return { status: "failing" as const, message: "The supervisor does not answer." };
  const { workers, running, restarts } = status;
  return { status: running === workers ? ("ok" as const) : ("failing" as const), workers, running, restarts };
}

/** Renders the metrics of all processes together: a part of them would look like a restart to whoever collects it. */
async function metrics(services: Services, context: RequestContext): Promise<WholeAnswer> {
  const { metrics, workers, live, keys } = services;
  const text = workers === undefined ? metrics.render() : await workers.ask("metrics");
  if (text === undefined) throw ApiError.unavailable("overloaded", "The workers did not answer in time.");
  await keys.refresh();
  const tellsMoney = live.config.metrics.money || isAdmin(services, context);
  return textAnswer(tellsMoney ? text : text.replace(sumsOfMoney, ""), 200, metrics.contentType);
}

/** Lines of metrics in dollars, and what describes them. */
const sumsOfMoney = /^(?:# \w+ )?troupe_\w*dollars.*\n/gm;

const CheckResult = Open({ status: Words(["ok", "failing"]), message: Type.Optional(Type.String()) });
const Health = Type.Object({
  status: Words(["ok", "degraded"]),
  version: Type.String(),
  uptime_seconds: Type.Integer(),
  checks: Type.Record(Type.String(), CheckResult),
});
const Version = Type.Object({
  name: Type.String(),
  version: Type.String(),
  api_version: Type.String(),
  commit: Type.String(),
  built_at: Type.String(),
  runtime: Type.String(),
});

titled({ Health, Version });

/** A plugin of routes that anybody may ask, and that count against no limit. */
export const openRoutes = (host: Host) => checkedRoutes(host, { area: "operations", prefix: "" }, showAnonymousLimit);

export const openOperation = (operation: Omit<DescribedOperation, "tag" | "open">) => ({
  detail: { describe: () => describeOperation({ tag: "Operations", open: true, ...operation }) } as object,
});

export const opsRoutes = (host: Host) =>
  openRoutes(host)
    .get(
      "/health",
      ({ services, context }) => health(services, context),
      openOperation({
        operationId: "health",
        summary: "Service status with its checks",
        response: Health,
        others: { 503: { description: "Storage is lost.", content: { "application/json": { schema: Health } } } },
      }),
    )
    .get(
      "/healthz",
      ({ services }) => (services.stopping || services.draining ? textAnswer("draining", 503) : textAnswer("ok")),
      openOperation({
        operationId: "ready",
        summary: "ok while new requests are taken",
        media: "text/plain",
        others: {
          503: {
            description: "The server is shutting down.",
            content: { "text/plain": { schema: { type: "string" }, example: "draining" } },
          },
        },
      }),
    )
    .get(
      "/version",
      ({ services: { build } }) => {
        const { name, version, commit, builtAt, runtime } = build;
        return { name, version, api_version: "v1", commit, built_at: builtAt, runtime };
      },
      openOperation({ operationId: "version", summary: "What is running", response: Version }),
    )
    .get(
      "/metrics",
      ({ services, context }) => metrics(services, context),
      openOperation({
        operationId: "metrics",
        summary: "Metrics in the Prometheus text format",
        media: "text/plain",
        errors: [503],
      }),
    );
