/** LiteLLM's budgets in a configuration: of all calls, of a provider's, and of models for each key. */
import { isObject } from "../../lib/json/json.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { upstreamOf } from "./providers.ts";

type Path = readonly PathPart[];
/** Dollars by period, as `budgets` here has them. */
type Amounts = { readonly day: number } | { readonly month: number } | { readonly prepaid: number };

type Reader = {
  readonly at: (path: Path) => unknown;
  /** A number above 0; what is another value is told of. */
  readonly number: (path: Path) => number | undefined;
  readonly omit: (path: Path, message: string) => void;
  /** The accounts that were made of a provider's models. */
  readonly accounts: (dialect: string) => readonly string[];
  /** What each model of the file calls. */
  readonly targets: ReadonlyMap<string, readonly { readonly id: string }[]>;
};

/** What keys are given that are made without values of their own. */
export const newKeys = "default_key_generate_params";

/**
 * Sources: https://docs.litellm.ai/docs/proxy/users (max_budget, model_max_budget),
 * https://docs.litellm.ai/docs/proxy/provider_budget_routing (provider_budget_config)
 */
export function budgetsOf(reader: Reader): Record<string, unknown> | undefined {
  const all = amountsOf(reader, ["litellm_settings", "max_budget"], ["litellm_settings", "budget_duration"]);
  const models = Object.fromEntries([...ofProviders(reader), ...ofKeys(reader)]);
  if (all === undefined && Object.keys(models).length === 0) return undefined;
  return { ...(all !== undefined && { all }), ...(Object.keys(models).length > 0 && { models }) };
}

function amountsOf(reader: Reader, dollarsAt: Path, durationAt: Path): Amounts | undefined {
  const dollars = reader.number(dollarsAt);
  if (dollars === undefined) return undefined;
  const duration = reader.at(durationAt);
  if (duration === undefined || duration === null) return { prepaid: dollars };
  if (/^(?:1d|24h|86400s)$/.test(String(duration))) return { day: dollars };
  if (/^(?:1mo|30d|31d)$/.test(String(duration))) return { month: dollars };
  reader.omit(durationAt, `'${String(duration)}' is neither a day nor a month: the budget is left out`);
  return undefined;
}

function ofProviders(reader: Reader): [pattern: string, budget: { all: Amounts }][] {
  const path = ["router_settings", "provider_budget_config"];
  return namesIn(reader, path).flatMap((name): [string, { all: Amounts }][] => {
    const at = [...path, name];
    const accounts = reader.accounts(upstreamOf(`${name}/x`)?.dialect ?? "");
    if (accounts.length === 0) reader.omit(at, "is no provider of a model that is carried over");
    if (accounts.length > 1) reader.omit(at, `holds for each of ${accounts.join(", ")} by itself here`);
    const all = accounts.length === 0 ? undefined : amountsOf(reader, [...at, "budget_limit"], [...at, "time_period"]);
    return all === undefined ? [] : accounts.map((account) => [`${account}/*`, { all }]);
  });
}

function ofKeys(reader: Reader): [pattern: string, budget: { keys: Amounts }][] {
  const path = ["litellm_settings", newKeys];
  for (const name of namesIn(reader, path))
    if (name !== "model_max_budget")
      reader.omit([...path, name], "keys are made by `troupe keys create`, with values of their own");
  const budgets = [...path, "model_max_budget"];
  return namesIn(reader, budgets).flatMap((name): [string, { keys: Amounts }][] => {
    const at = [...budgets, name];
    const targets = reader.targets.get(name) ?? [];
    if (targets.length === 0) reader.omit(at, "is no model of this file that is carried over");
    if (targets.length > 1)
      reader.omit(at, `holds for each of ${targets.map(({ id }) => id).join(", ")} by itself here`);
    // The older form is a number for all time.
    const isMapping = isObject(reader.at(at));
    const keys =
      targets.length === 0
        ? undefined
        : amountsOf(reader, isMapping ? [...at, "budget_limit"] : at, [...at, "time_period"]);
    return keys === undefined ? [] : targets.map(({ id }) => [id, { keys }]);
  });
}

function namesIn(reader: Reader, path: Path): string[] {
  const value = reader.at(path);
  if (value === undefined || value === null) return [];
  if (isObject(value)) return Object.keys(value);
  reader.omit(path, "is no mapping");
  return [];
}
