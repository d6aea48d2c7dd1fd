/** `GET /v1/usage`: what a key's own calls used and cost, by the ledger; and what the admin API's routes of the ledger share with it. */
import { type TProperties, Type } from "@sinclair/typebox";
import { OwnUsage, Usage } from "../api/usage.ts";
import { admit } from "../call/admit/admit.ts";
import type { Host } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import type { SurfaceName } from "../config/config.ts";
import { ApiError } from "../protocols/errors.ts";
import type { LedgerFilter } from "../store/contract/usage.ts";
import { severalNames } from "../store/ledger/chosen-lines.ts";
import { ledgerFilters } from "../store/ledger/columns.ts";
import {
  leastFilters,
  maxLeast,
  severalPattern,
  severalWords,
  statusPattern,
  statusWords,
  type UsageQuestion,
} from "../usage/budgets/own-filters.ts";
import { budgetStates, heldBudgetJson } from "../usage/budgets/states.ts";
import {
  groupWords,
  type KeyNames,
  maxRows,
  parseFilter,
  parseUsageQuestion,
  timeOf,
  usagePage,
} from "../usage/ledger/report.ts";
import { checkedRoutes, documented } from "./checked-routes.ts";
import { type DescribedOperation, keyed, MetadataFilter, oneOf, queryOf, tags } from "./openapi/describe.ts";

const text = (description: string) => Type.Optional(Type.String({ description }));
const time =
  "A day (2026-11-22), a time, Unix seconds, or a duration (7d, 24h, 10m): days are whole ones in UTC, with today's.";

const words = (pattern: string, description: string, must: string) =>
  Type.Optional(Type.String({ pattern, description, patternErrorMessage: `must be ${must}` }));

const severalHelp: Readonly<Record<string, string>> = {
  ended: "Only calls that ended so",
  failure: "Only attempts that were left for that reason",
  price_source: "Only calls priced by it (unknown: of unknown cost)",
};

const ownParameters: TProperties = {
  ...Object.fromEntries(
    Object.entries(leastFilters).map(([name, { description }]) => [
      name,
      Type.Optional(Type.Integer({ minimum: 0, maximum: maxLeast, description })),
    ]),
  ),
  status: words(statusPattern, statusWords, "a status, a class such as 5xx, or several, separated by commas"),
};

/** Parameters that choose single lines, by their own numbers. @param names absent: all */
export const ownQuery = (...names: readonly string[]): TProperties =>
  Object.fromEntries(Object.entries(ownParameters).filter(([name]) => names.length === 0 || names.includes(name)));

/** Parameters that choose lines of the ledger. @param left is not chosen by */
export function ledgerQuery(...left: readonly string[]): TProperties {
  const filters = ledgerFilters.map((name) => [
    name,
    severalNames.includes(name)
      ? words(severalPattern(name), `${severalHelp[name]}: ${severalWords(name)}.`, severalWords(name))
      : text(`Only calls of that ${name.replace("_", " ")}; empty: those without one.`),
  ]);
  const all: TProperties = {
    since: text(`${time} Default: 30 days.`),
    until: text("Likewise. Default: the end of today in UTC."),
    ...Object.fromEntries(filters),
    key: text("Only calls of that key, or of several, their ids separated by commas; empty: those without one."),
    metadata: MetadataFilter,
  };
  return Object.fromEntries(Object.entries(all).filter(([name]) => !left.includes(name)));
}

/** Documents a route of sums. @param left is not chosen by */
export const usageOperation = (
  {
    parameters = {},
    ...operation
  }: Pick<DescribedOperation, "tag" | "operationId" | "summary" | "description" | "response" | "also"> & {
    /** Beside those of every such route. */
    readonly parameters?: TProperties;
  },
  ...left: readonly string[]
) =>
  documented({
    response: Usage,
    ...operation,
    query: queryOf({
      by: text(`${groupWords}. Default: day.`),
      ...ledgerQuery(...left),
      first_token: Type.Optional(
        oneOf(["true", "false"], { description: "true: with quantiles of the time to the first token." }),
      ),
      top: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: maxRows,
          description: "Only so many of the costliest rows, those first, in place of pages.",
        }),
      ),
      ...parameters,
      after: text("The next of the page before."),
      limit: Type.Optional(
        Type.Integer({ minimum: 1, maximum: maxRows, default: 1000, description: "The most rows of a page." }),
      ),
    }),
    errors: [400, 403, ...keyed],
  });

/** The operator's alone: which of its keys and addresses were used. */
const operatorsOwn = ["upstream_key", "upstream_endpoint"];

/** @throws ApiError invalid_value */
function checkOwn({ by }: UsageQuestion): void {
  const hidden = by?.split(",").find((name) => operatorsOwn.includes(name.trim()));
  if (hidden !== undefined)
    throw ApiError.invalidValue("by", `by must not be ${hidden.trim()}, which only the operator sees.`);
}

/** A key sees its own calls alone, those on the other surface too. */
export const usageRoutes = (host: Host, surface: SurfaceName, prefix: string) =>
  checkedRoutes(host, { area: surface, prefix }, (services, context) => admit(services, context, surface)).get(
    "/v1/usage",
    async ({ services, context, request, caller: { keyId, tier }, query }) => {
      const question = questionOf(query);
      checkOwn(question);
      const page = await usageJson(services, request.signal, { ...question, key: keyId }, async () => {
        const { name } = await services.keys.show(keyId);
        return new Map([[keyId, name]]);
      });
      const rules = services.budgets.rules.of({ keyId, tier, tags: context.tags });
      const { store, clock } = services;
      const budgets = await budgetStates(store.budgets, rules, clock.now());
      return { ...page, budgets: budgets.map(heldBudgetJson) };
    },
    usageOperation(
      {
        tag: tags[surface],
        operationId: `${surface}Usage`,
        summary: "What the key's calls used and cost, and what is left of its budgets",
        description:
          "By the ledger; on both surfaces together. Rows are in the order of their groups. Budgets are as they stand now, whatever is asked for.",
        response: OwnUsage,
      },
      "key",
      ...operatorsOwn,
    ),
  );

/** A page of usage. @throws ApiError invalid_value, storage_unavailable */
export async function usageJson(
  services: Services,
  signal: AbortSignal,
  question: UsageQuestion,
  keyNames: () => Promise<KeyNames>,
) {
  const { query, names } = await usageQuery(services, question, keyNames);
  return usagePage(services.store.ledger, query, names, signal);
}

/** Reads a question, and has what ended until now written, the last half second too. @throws ApiError invalid_value, storage_unavailable */
export async function usageQuery(services: Services, question: UsageQuestion, keyNames: () => Promise<KeyNames>) {
  const query = parseUsageQuestion(question, services.clock.now(), metadataOf(services));
  await services.ledger.flush();
  const names = query.by.includes("key") ? await keyNames() : new Map<string, string>();
  return { query, names };
}

/** Reads the ledger's lines that a request's query chooses. @param days how far back without a beginning. @throws ApiError invalid_value */
export const filterOf = (services: Services, query: object, days: number): LedgerFilter =>
  parseFilter(questionOf(query), services.clock.now(), days, metadataOf(services));

const metadataOf = ({ live }: Services) => live.config.usage.metadata;

/** A parameter that is a time, in Unix milliseconds; null: it is not given. @throws ApiError invalid_value */
export const timeParameter = ({ clock }: Services, name: string, value: string | undefined): number | null =>
  value === undefined ? null : timeOf(name, value, clock.now());

/** The query as a question, in which `metadata.team` asks for that member. */
export function questionOf(query: object): UsageQuestion {
  const { metadata = {}, ...texts } = query as { readonly metadata?: Record<string, string> };
  const members = Object.entries(metadata).map(([key, value]) => [`metadata.${key}`, value]);
  return Object.fromEntries([...Object.entries(texts).map(([name, value]) => [name, String(value)]), ...members]);
}
