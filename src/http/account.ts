/** What who holds a key sees of it: `GET /v1/account`, which `/account` shows in a browser, and a new secret where the operator allows that. */
import { Type } from "@sinclair/typebox";
import { Account } from "../api/account.ts";
import { OrNull } from "../api/shape.ts";
import type { UsageSums } from "../api/usage.ts";
import { keyFields } from "../auth/key-info.ts";
import type { Caller } from "../auth/keys.ts";
import { admit } from "../call/admit/admit.ts";
import type { Host, RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import type { SurfaceName } from "../config/config.ts";
import { isoTime } from "../lib/time/clock.ts";
import { hourMs } from "../lib/time/duration.ts";
import { rotateKey } from "../operate/keys.ts";
import { ApiError } from "../protocols/errors.ts";
import type { LedgerLine } from "../store/contract/usage.ts";
import { budgetStates, heldBudgetJson } from "../usage/budgets/states.ts";
import { checkedRoutes, documented } from "./checked-routes.ts";
import { modelsFor } from "./models/models.ts";
import { keyed, queryOf, tags } from "./openapi/describe.ts";
import { operatorOf } from "./operator.ts";
import { basePath } from "./routes.ts";
import { filterOf, usageJson } from "./usage.ts";

/** The most models that are told; who may call more finds them by the lists of the surfaces. */
const maxModels = 1_000;
/** Failed calls that are told, and how many lines of the ledger are looked at for them. */
const maxFailed = 20;
const maxLooked = 20_000;
const maxDays = 90;
/** Within which the further attempts of a request begin. */
const followedMs = 6 * hourMs;

const Rotated = Type.Object({
  object: Type.Literal("account.key"),
  key: Type.String({ description: "The new secret, shown this once." }),
  old_key_expires_at: OrNull(Type.String()),
});

/** What an account is asked for. */
type Asking = {
  readonly caller: Caller;
  /** The budgets that tags bring count too. */
  readonly tags: readonly string[];
  readonly days: number;
  readonly signal: AbortSignal;
};

/** @throws ApiError storage_unavailable */
export async function accountJson(host: Host, { caller, tags, days, signal }: Asking) {
  const { services, surfaces } = host;
  const { keyId, tier } = caller;
  const key = keyFields(await services.keys.show(keyId));
  const question = { since: `${days}d`, key: keyId };
  const usage = async <By extends "day" | "model">(by: By, top?: string) => {
    const asked = { ...question, by, ...(top !== undefined && { top }) };
    const page = await usageJson(services, signal, asked, async () => new Map());
    return { ...page, data: page.data as (UsageSums & { readonly [Name in By]: string | null })[] };
  };
  const [byDay, byModel] = [await usage("day"), await usage("model", "50")];
  const rules = services.budgets.rules.of({ keyId, tier, tags });
  const budgets = await budgetStates(services.store.budgets, rules, services.clock.now());
  const { rotate, rotateGraceSeconds } = services.live.config.account;
  return {
    object: "account" as const,
    key: {
      ...{ id: key.id, name: key.name, tier: key.tier, surfaces: key.surfaces, models: key.models, tags: key.tags },
      ...{ created_at: key.created_at, expires_at: key.expires_at, old_key_expires_at: key.old_key_expires_at },
    },
    limits: { requests_per_minute: caller.perMinute, tokens_per_minute: services.keys.tokensPerMinute(keyId) ?? null },
    usage: {
      ...{ since: byDay.since, until: byDay.until, by_day: byDay.data, by_model: byModel.data },
      total: byDay.total,
    },
    budgets: budgets.map(heldBudgetJson),
    models: await callable(host, caller),
    failed: await lastFailed(services, keyId, days, signal),
    rotation: { allowed: rotate, grace_seconds: rotateGraceSeconds },
    base_urls: Object.fromEntries(
      surfaces.flatMap((name) => (name === "admin" ? [] : [[name, `${basePath(name, surfaces)}/v1`]])),
    ),
  };
}

/** The models of each surface of the listener that the key may use: personas first. */
async function callable({ services, surfaces }: Host, caller: Caller) {
  // Personas are read beside the first calls after a start.
  await services.loading;
  const found: { id: string; surface: string; description?: string }[] = [];
  for (const surface of ["orchestrator", "gateway"] as const) {
    if (!surfaces.includes(surface) || !caller.surfaces.has(surface)) continue;
    for (const { id, description } of await modelsFor(services, surface, caller))
      found.push({ id, surface, ...(description !== undefined && { description }) });
  }
  return { data: found.slice(0, maxModels), has_more: found.length > maxModels };
}

/** Calls whose last attempt failed or was refused: where a fallback answered, nobody saw the failure. */
async function lastFailed(services: Services, keyId: string, days: number, signal: AbortSignal) {
  const { store, personas } = services;
  const filter = filterOf(services, { key: keyId, ended: "broken,interrupted,refused", since: `${days}d` }, days);
  const { lines } = await store.ledger.search({ ...filter, limit: 2 * maxFailed, signal }, maxLooked);
  const byRequest = Map.groupBy(lines, ({ requestId }) => requestId);
  const last = await Promise.all(
    [...byRequest.values()].slice(0, maxFailed).map(async ([line]) => {
      const around = { since: line!.at, until: line!.at + followedMs, requestId: line!.requestId, limit: 100, signal };
      const attempts = await store.ledger.lines(around);
      return attempts.every(({ attempt }) => attempt <= line!.attempt) ? [line!] : [];
    }),
  );
  return last.flat().map((line) => failedJson(line, personas.find(line.persona ?? "")?.hidesUpstream === true));
}

/** What its caller was told, not what the operator knows of it: a persona that hides its upstream hides its words too. */
const failedJson = (line: LedgerLine, hidesUpstream: boolean) => ({
  at: isoTime(line.at),
  request_id: line.requestId,
  model: line.model,
  ended: line.ended,
  status: line.status,
  error_code: line.errorCode,
  error_text: hidesUpstream ? null : line.errorText,
});

/** Gives the key a new secret; the old one counts for the configured time. @throws ApiError not_found where key holders may not */
export async function rotateOwn(services: Services, { keyId }: Caller, context: RequestContext) {
  const { rotate, rotateGraceSeconds } = services.live.config.account;
  if (!rotate) throw ApiError.notFound("Keys are rotated by whoever runs this server, who has not allowed it here.");
  const operator = operatorOf(services, context, keyId, "account");
  const { secret, after } = await rotateKey(operator, await operator.keys.show(keyId), rotateGraceSeconds * 1000);
  return { object: "account.key" as const, key: secret, old_key_expires_at: after.old_key_expires_at };
}

/** @throws ApiError not_found where the operator serves no accounts */
export function checkServed({ live }: Services): void {
  if (!live.config.account.enabled) throw ApiError.notFound("Accounts are not served here.");
}

export const daysQuery = queryOf({
  days: Type.Integer({ minimum: 1, maximum: maxDays, default: 30, description: "How many days of usage, with today." }),
});

export const accountRoutes = (host: Host, surface: SurfaceName, prefix: string) =>
  checkedRoutes(host, { area: surface, prefix }, async (services, context) => {
    const caller = await admit(services, context, surface);
    checkServed(services);
    context.headers["cache-control"] = "no-store";
    return caller;
  })
    .get(
      "/v1/account",
      ({ context, request, caller, query: { days } }) =>
        accountJson(host, { caller, tags: context.tags, days, signal: request.signal }),
      documented({
        tag: tags[surface],
        operationId: `${surface}Account`,
        summary: "The key's account: usage by day and model, budgets, models, and the last calls that failed",
        description: "Of the key's own calls alone, on both surfaces. Asked for over budget, it is answered.",
        query: daysQuery,
        response: Account,
        errors: [400, 403, 404, ...keyed],
      }),
    )
    .post(
      "/v1/account/rotate",
      ({ services, context, caller }) => rotateOwn(services, caller, context),
      documented({
        tag: tags[surface],
        operationId: `${surface}RotateOwnKey`,
        summary: "Gives the key a new secret, where the operator allows it; the old one is good for a while",
        response: Rotated,
        errors: [403, 404, ...keyed],
      }),
    );
