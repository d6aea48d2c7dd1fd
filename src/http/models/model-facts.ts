/** What is known of a provider's model: by its provider's list, by the prices in use, by its row, and by the facts. */
import { factsOf, type ModelFacts } from "../../facts/facts.ts";
import { ApiError } from "../../protocols/errors.ts";
import { capabilitiesIn, capabilityNames, type Model } from "../../protocols/models.ts";
import type { ListedModel, RemoteProvider } from "../../providers/provider.ts";
import type { BoundAccount } from "../../upstream/accounts.ts";
import { type KnownList, modelEndOf } from "../../upstream/model-lists.ts";
import type { Prices } from "../../usage/prices/prices.ts";

/** The names of an account's models: those that the operator named, else what its provider lists, else well-known ones. */
export function listedNames({ account, provider }: BoundAccount, list: KnownList | undefined): readonly string[] {
  // An account whose operator named none has the very list of its provider.
  const isNamed = account.models !== provider.models;
  return isNamed || list === undefined || list.models.size === 0 ? account.models : [...list.models.keys()];
}

type FactSources = {
  readonly listed: ListedModel | undefined;
  readonly prices: Prices;
  /** Unix milliseconds. */
  readonly now: number;
};

export type ModelDetails = Pick<
  Model,
  | "context_length"
  | "max_output_tokens"
  | "input_modalities"
  | "output_modalities"
  | "capabilities"
  | "assumed"
  | "pricing"
  | "formats"
  | "shutdown_date"
  | "deprecated"
>;

/** @returns nothing of models that are compiled in */
export function modelFacts(bound: BoundAccount, model: string, { listed, prices, now }: FactSources): ModelDetails {
  const { provider, account } = bound;
  if (provider.kind === "local") return {};
  const known = factsOf(provider.name, model);
  // What the provider itself lists goes before.
  const {
    contextLength = known.context,
    maxOutputTokens = known.output,
    inputModalities = known.input_modalities,
    outputModalities = known.output_modalities,
    isDeprecated,
  } = listed ?? {};
  const capabilities = capabilitiesOf({ ...known, inputModalities, outputModalities });
  // To look for some hundred models in the list of prices would take a sixth of a second.
  const isTold = listed?.price !== undefined && !prices.isConfigured(`${account.name}/${model}`);
  const pricing = isTold ? listed.price : chargedPrice(bound, model, prices, now);
  const ends = modelEndOf(bound, model, listed);
  return {
    ...(contextLength !== undefined && { context_length: contextLength }),
    ...(maxOutputTokens !== undefined && { max_output_tokens: maxOutputTokens }),
    ...(inputModalities !== undefined && { input_modalities: [...inputModalities] }),
    ...(outputModalities !== undefined && { output_modalities: [...outputModalities] }),
    ...(capabilities.length > 0 && { capabilities }),
    ...(known.assumed !== undefined && { assumed: known.assumed }),
    ...(pricing !== undefined && { pricing }),
    formats: formatsOf(provider, { model, account }),
    ...(ends !== undefined && { shutdown_date: ends }),
    ...(isDeprecated === true && { deprecated: true }),
  };
}

type Abilities = Pick<ModelFacts, "tools" | "structured_output" | "reasoning"> & {
  readonly inputModalities: readonly string[] | undefined;
  readonly outputModalities: readonly string[] | undefined;
};

function capabilitiesOf({ inputModalities: reads, outputModalities: gives, ...known }: Abilities): string[] {
  const has: Readonly<Record<(typeof capabilityNames)[number], boolean | undefined>> = {
    vision: reads?.includes("image"),
    audio_input: reads?.includes("audio"),
    video: reads?.includes("video"),
    files: reads?.includes("file"),
    image_output: gives?.includes("image"),
    audio_output: gives?.includes("audio"),
    tools: known.tools,
    structured_output: known.structured_output,
    reasoning: known.reasoning,
  };
  return capabilityNames.filter((name) => has[name] === true);
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

/** @param has a query's value @returns whether a model has them all; of whom nothing is known has none @throws ApiError invalid_value */
export function havingAll(has: string): (model: Pick<Model, "capabilities">) => boolean {
  const names = capabilitiesIn(has);
  if (names === undefined)
    throw ApiError.invalidValue("has", `has must be words of ${capabilityNames.join(", ")}, with commas between.`);
  return ({ capabilities = [] }) => names.every((name) => capabilities.includes(name));
}
