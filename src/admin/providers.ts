/** The admin API's routes of providers: the state of their keys and endpoints, what went wrong of late, and a small call to test them. */

import { Type } from "@sinclair/typebox";
import { ProviderDetail, ProviderList, ProviderTested } from "../api/providers.ts";
import type { Services } from "../call/services.ts";
import { writing } from "../http/openapi/describe.ts";
import { hourMs } from "../lib/time/duration.ts";
import { testProvider } from "../operate/providers.ts";
import { ApiError } from "../protocols/errors.ts";
import type { LedgerLine } from "../store/contract/usage.ts";
import type { BoundAccount } from "../upstream/accounts.ts";
import { joinPools } from "../upstream/pool/joined.ts";
import type { PoolView } from "../upstream/pool/pools.ts";
import { poolState } from "../upstream/pool/state.ts";
import { quantileOf } from "../usage/ledger/quantile.ts";
import type { AdminPlugin } from "./act.ts";
import { adminOperation } from "./pages.ts";

const Test = Type.Object({ model: Type.Optional(Type.String({ minLength: 1, maxLength: 256 })) });
const Named = Type.Object({ name: Type.String() });

const iso = (at: number | undefined) => (at === undefined ? null : new Date(at).toISOString());

type Counted = { readonly workers: number | null; readonly answered: number } | null;

/** All that the server knows of its pools, be it in one process or in several workers. */
async function readPools({ workers, pools, live }: Services): Promise<{ pools: PoolView[]; counted: Counted }> {
  const own = pools.view(live.accounts);
  if (workers === undefined) return { pools: own, counted: null };
  const all = await workers.ask("pools");
  if (all === undefined) return { pools: own, counted: { workers: null, answered: 1 } };
  return { pools: joinPools(own, all.views), counted: { workers: all.workers, answered: all.views.length } };
}

const providerJson = (pool: PoolView, { provider }: BoundAccount, counted: Counted) => ({
  object: "provider" as const,
  id: pool.provider,
  dialect: provider.name,
  state: poolState(pool, counted?.answered),
  workers: counted,
  strategy: pool.strategy,
  keys: pool.members.map((member) => ({
    fingerprint: member.fingerprint,
    name: member.name ?? null,
    endpoint: member.endpoint,
    weight: member.weight,
    calls_under_way: member.callsUnderWay,
    first_token_ms: member.firstTokenMs ?? null,
    rests: member.cooldowns.map(({ model, until, ...rest }) => ({ ...rest, model: model ?? null, until: iso(until)! })),
    breaker: {
      state: member.breaker.state,
      reason: member.breaker.reason ?? null,
      until: iso(member.breaker.until),
      workers: member.breaker.workers,
      failures: member.breaker.failures,
    },
  })),
});

/** @throws ApiError not_found */
function boundOf({ live }: Services, name: string): BoundAccount {
  const bound = live.accounts.find(name);
  if (bound === undefined || bound.provider.kind === "local")
    throw ApiError.notFound("No such provider is set up.", "name");
  return bound;
}

const maxLines = 500;
const maxErrors = 10;
/** Of the request: they say nothing of the provider. */
const ofRequest: ReadonlySet<string> = new Set(["invalid_request", "context_length", "content_filter"]);

async function lastHour(services: Services, provider: string) {
  const { store, clock, ledger } = services;
  await ledger.flush();
  const filter = { since: clock.now() - hourMs, until: clock.now() + 1, where: { provider } };
  const lines = await store.ledger.lines({ ...filter, limit: maxLines });
  const failed = lines.filter(({ failure }) => failure !== null && !ofRequest.has(failure));
  const quantile = (share: number) => quantileOf(lines, share, ({ firstTokenMs }) => firstTokenMs);
  return {
    last_hour: {
      attempts: lines.length,
      failures: failed.length,
      error_rate: lines.length === 0 ? null : failed.length / lines.length,
      first_token_ms: { p50: quantile(0.5), p95: quantile(0.95) },
    },
    last_errors: lines
      .filter(({ failure }) => failure !== null)
      .slice(0, maxErrors)
      .map(errorJson),
  };
}

const errorJson = ({ at, requestId, failure, status, errorCode, errorText, ...line }: LedgerLine) => ({
  at: iso(at)!,
  request_id: requestId,
  reason: failure!,
  status,
  error_code: errorCode,
  error_text: errorText,
  key: line.upstreamKey,
  endpoint: line.upstreamEndpoint,
});

export const providerRoutes = (plugin: AdminPlugin) =>
  plugin
    .get(
      "/v1/providers",
      async ({ services }) => {
        const { accounts } = services.live;
        const { pools, counted } = await readPools(services);
        const data = pools.flatMap((pool) => {
          const bound = accounts.find(pool.provider);
          return bound === undefined ? [] : providerJson(pool, bound, counted);
        });
        return { object: "list" as const, data };
      },
      adminOperation({
        operationId: "adminListProviders",
        summary: "The providers that are set up, and the state of their keys and endpoints",
        response: ProviderList,
      }),
    )
    .get(
      "/v1/providers/:name",
      async ({ services, params: { name } }) => {
        const bound = boundOf(services, name);
        const { pools, counted } = await readPools(services);
        const pool = pools.find(({ provider }) => provider === name);
        if (pool === undefined) throw ApiError.notFound("No such provider is set up.", "name");
        return { ...providerJson(pool, bound, counted), ...(await lastHour(services, name)) };
      },
      adminOperation({
        operationId: "adminGetProvider",
        summary: "A provider with its last errors, and how it answered in the last hour",
        params: Named,
        response: ProviderDetail,
        errors: [404],
      }),
    )
    .post(
      "/v1/providers/:name/test",
      async ({ services, params: { name }, body, operator }) => {
        const bound = boundOf(services, name);
        const model = body.model ?? bound.account.models[0];
        if (model === undefined) throw ApiError.missingField("model");
        return testProvider(operator, services, bound, model);
      },
      adminOperation({
        operationId: "adminTestProvider",
        summary: "Sends each key at each endpoint one small call, which costs a few tokens",
        params: Named,
        body: Test,
        response: ProviderTested,
        errors: [400, 404, ...writing],
      }),
    );
