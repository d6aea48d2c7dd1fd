/** `troupe prices show`: what a model costs and why. */

import type { Config } from "../../config/config.ts";
import { type RateCard, type Rates, type RatesByLength, unitKinds } from "../../facts/prices/rates.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { snakeCaseNumbered } from "../../lib/text/snake-case.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { Prices } from "../../usage/prices/prices.ts";
import { type ListInUse, listInUse } from "../../usage/prices/stored-list.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";
import { count } from "./usage.ts";

type PriceOptions = { readonly json?: boolean };

/** @param modelId `<provider>/<model>` */
export function showPrice(context: Context, modelId: string, { json }: PriceOptions): Promise<ExitCode> {
  return withConfig(context, (config) => {
    const id = parseModelId(modelId);
    if (id === undefined)
      throw new UsageError(`Name the model as <provider>/<model>, not '${printableLine(modelId)}'.`);
    // A provider that is not set up has its list price all the same.
    const bound = new Accounts(config.providers, providers).find(id.namespace);
    const provider = bound?.provider ?? providers.find(({ name }) => name === id.namespace);
    const { list, source: origin } = listFor(context, config);
    const found = new Prices(config.prices, list).find({
      provider: id.namespace,
      dialect: provider?.name ?? id.namespace,
      baseUrl: bound?.account.baseUrl ?? "",
      model: id.name,
      isLocal: provider?.kind === "local",
      isListed: false,
    });
    if (found === undefined) {
      throw new CommandError(
        `No price is known for ${printableLine(modelId)}: its calls cost 'unknown'. Add a row to 'prices' in the configuration.`,
      );
    }
    const card = found.cardAt(systemClock.now());
    const { source, name, date } = found;
    const words = source === "list" && origin !== undefined ? `the list of ${printableLine(origin)},` : sources[source];
    if (json) printJson(context.io, { model: modelId, source, name, date, ...cardJson(card) });
    else context.io.stdout.write(priceText(modelId, `${words} ${name}`, date, card));
    return 0;
  });
}

const sources = {
  configuration: "the configuration's row",
  list: "the list in the executable (public lists, MIT),",
  fallback: "the configuration's rates for models that no list knows,",
  free: "compiled in:",
} as const;

const perMillion = (rate: bigint) => Number(rate) / 1e9;
const perUse = (rate: bigint) => Number(rate) / 1e15;

function ratesJson({ tokens, request, image, audioSecond, tools }: Rates) {
  const kinds = unitKinds.flatMap((kind) =>
    tokens[kind] === undefined ? [] : [[snakeCaseNumbered(kind), perMillion(tokens[kind])]],
  );
  return {
    per_million_tokens: Object.fromEntries(kinds),
    ...(request !== undefined && { per_request: perUse(request) }),
    ...(image !== undefined && { per_image: perUse(image) }),
    ...(audioSecond !== undefined && { per_audio_minute: perUse(audioSecond * 60n) }),
    tools: Object.fromEntries(Object.entries(tools).map(([tool, rate]) => [tool, perUse(rate)])),
  };
}

const lengthsJson = ({ base, tiers }: RatesByLength) => ({
  ...ratesJson(base),
  tiers: tiers.map(({ above, rates }) => ({ above, ...ratesJson(rates) })),
});

function cardJson({ serviceTiers, ...lengths }: RateCard) {
  return {
    ...lengthsJson(lengths),
    service_tiers: Object.fromEntries(
      Object.entries(serviceTiers).map(([name, tier]) => [
        name,
        typeof tier === "bigint" ? Number(tier) / 1000 : lengthsJson(tier),
      ]),
    ),
  };
}

function priceText(modelId: string, origin: string, date: string | null, card: RateCard): string {
  const lines = [`${printableLine(modelId)}: by ${origin}${date === null ? "" : ` of ${date}`}\n`];
  const add = (title: string, rates: Rates) => {
    const { per_million_tokens, per_request, per_image, per_audio_minute, tools } = ratesJson(rates);
    const rows = Object.entries(per_million_tokens).map(([kind, price]) => [kind, `$${price}`, "per million tokens"]);
    if (per_request !== undefined) rows.push(["request", `$${per_request}`, "each"]);
    if (per_image !== undefined) rows.push(["image", `$${per_image}`, "each"]);
    if (per_audio_minute !== undefined) rows.push(["audio", `$${per_audio_minute}`, "per minute"]);
    for (const [tool, price] of Object.entries(tools)) rows.push([tool, `$${price}`, "each"]);
    if (rows.length > 0) lines.push(`\n${formatTable([title, "price", ""], rows)}`);
  };
  const addAll = ({ base, tiers }: RatesByLength, title: string, prefix = "") => {
    add(title, base);
    for (const { above, rates } of tiers) add(`${prefix}above ${count(above)} input tokens`, rates);
  };
  addAll(card, "what");
  const factors = Object.entries(card.serviceTiers).filter(([, tier]) => typeof tier !== "bigint" || tier !== 1000n);
  for (const [name, tier] of factors) {
    if (typeof tier === "bigint") lines.push(`\nservice tier ${name}: × ${Number(tier) / 1000}\n`);
    else addAll(tier, `service tier ${name}`, `${name}, `);
  }
  return lines.join("");
}

/** The list that a server on that data folder uses. */
export function listFor({ io }: Context, { data }: Config): ListInUse {
  const found = listInUse(data);
  if (found.warning !== undefined) io.stderr.write(`warning: ${found.warning}; the list in the executable counts.\n`);
  return found;
}
