/** What is known of a provider's model: by its provider's list, by the prices in use, by its row, and by what makers announced. */
import type { Model } from "../protocols/models.ts";
import type { ListedModel, RemoteProvider } from "../providers/provider.ts";
import type { BoundAccount } from "../upstream/accounts.ts";
import { endOf, type KnownList } from "../upstream/model-lists.ts";
import type { Prices } from "../usage/prices/prices.ts";

/** The names of an account's models: those that the operator named, else what its provider lists, else well-known ones. */
export function listedNames({ account, provider }: BoundAccount, list: KnownList | undefined): readonly string[] {
  // An account whose operator named none has the very list of its provider.
  const isNamed = account.models !== provider.models;
  return isNamed || list === undefined || list.models.size === 0 ? account.models : [...list.models.keys()];
}

export type FactSources = {
  readonly listed: ListedModel | undefined;
  readonly prices: Prices;
  /** Unix milliseconds. */
  readonly now: number;
};

export type ModelFacts = Pick<
  Model,
  | "context_length"
  | "max_output_tokens"
  | "input_modalities"
  | "output_modalities"
  | "pricing"
  | "formats"
  | "shutdown_date"
  | "deprecated"
>;

/** @returns nothing of models that are compiled in */
export function modelFacts(bound: BoundAccount, model: string, { listed, prices, now }: FactSources): ModelFacts {
  const { provider, account } = bound;
  if (provider.kind === "local") return {};
  const { contextLength, maxOutputTokens, inputModalities, outputModalities, isDeprecated } = listed ?? {};
  // To look for some hundred models in the list of prices would take a sixth of a second.
  const isTold = listed?.price !== undefined && !prices.isConfigured(`${account.name}/${model}`);
  const pricing = isTold ? listed.price : chargedPrice(bound, model, prices, now);
  const ends = endOf(bound, model, listed);
  return {
    ...(contextLength !== undefined && { context_length: contextLength }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...(inputModalities !== undefined && { input_modalities: [...inputModalities] }),
    ...(outputModalities !== undefined && { output_modalities: [...outputModalities] }),
    ...(pricing !== undefined && { pricing }),
    formats: formatsOf(provider, { model, account }),
    ...(ends !== undefined && { shutdown_date: ends }),
    ...(isDeprecated === true && { deprecated: true }),
  };
}

/** Finds the dollars per million tokens of a short prompt, by which its calls are charged. A price for whatever nobody knows is no fact of it. */
function chargedPrice({ account, provider }: BoundAccount, model: string, prices: Prices, now: number) {
  const found = prices.find({
    provider: account.name,
    dialect: provider.name,
    baseUrl: account.baseUrl,
    model,
    isLocal: false,
    isListed: false,
  });
  if (found === undefined || found.source === "fallback") return undefined;
  const { input, output } = found.cardAt(now).base.tokens;
  if (input === undefined || output === undefined) return undefined;
  return { input: Number(input) / 1e9, output: Number(output) / 1e9 };
}

/** Formats in which clients may call, and an upstream may speak itself. */
const formats = ["chat", "responses", "messages", "generate-content"] as const;

function formatsOf(provider: RemoteProvider, { model, account }: Pick<BoundAccount, "account"> & { model: string }) {
  const call = { model, request: { model, messages: [] }, extras: {}, account, media: new Map() };
  return formats.filter((format) => provider.format === format || provider.native?.(format, call) !== undefined);
}
