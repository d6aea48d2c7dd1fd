/** `troupe usage` and `troupe prices`: what calls used and cost, and why. A running server's last half second may be missing. */
import { systemClock } from "../lib/clock.ts";
import { snakeCaseNumbered } from "../lib/snake-case.ts";
import { parseModelId } from "../protocols/model-id.ts";
import { providers } from "../providers/registry.ts";
import type { LedgerSum } from "../store/store.ts";
import { Accounts } from "../upstream/accounts.ts";
import { Prices } from "../usage/prices/prices.ts";
import { type RateCard, type Rates, unitKinds } from "../usage/prices/rates.ts";
import {
  dollarsOf,
  parseUsageQuestion,
  reportUsage,
  UsageQueryError,
  type UsageQuestion,
  type UsageReport,
  usageCsv,
  usageJson,
} from "../usage/report.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "./context.ts";
import { printJson } from "./print-json.ts";
import { keysIn, withStore } from "./storage.ts";
import { formatTable } from "./table.ts";

export type UsageOptions = UsageQuestion & { readonly json?: boolean; readonly csv?: boolean };

export function showUsage(context: Context, { json, csv, ...question }: UsageOptions): Promise<ExitCode> {
  const { io } = context;
  // A wrong question is told before anything is opened.
  const { filter } = asked(question);
  return withStore(context, async (store, config) => {
    const keys = await keysIn(store, config);
    const keyId = filter.keyId === undefined ? undefined : (await keys.show(filter.keyId)).id;
    const report = await reportUsage(store.ledger, asked({ ...question, key: keyId }));
    if (json) printJson(io, usageJson(report));
    else if (csv) io.stdout.write(usageCsv(report));
    else {
      const names = new Map((await keys.list()).map(({ id, name }) => [id, name]));
      io.stdout.write(usageTable(report, names, io.stdout.isTerminal));
    }
  });
}

function asked(question: UsageQuestion) {
  try {
    return parseUsageQuestion(question, systemClock.now());
  } catch (error) {
    if (error instanceof UsageQueryError) throw new UsageError(error.message);
    throw error;
  }
}

const barWidth = 20;

function usageTable(
  { query: { by }, rows, total }: UsageReport,
  names: ReadonlyMap<string, string>,
  bars: boolean,
): string {
  const most = Math.max(...rows.map(({ cost }) => cost), 1);
  const barOf = ({ cost }: LedgerSum) => "█".repeat(Math.round((cost / most) * barWidth));
  const cells = ({ group, calls, tokens, cost, unknownCosts }: LedgerSum, named = group) => [
    ...named,
    count(calls),
    count(tokens.input),
    count(tokens.cacheRead),
    count(tokens.output),
    `$${dollarsOf(cost)}`,
    unknownCosts === 0 ? undefined : count(unknownCosts),
  ];
  const named = (sum: LedgerSum) =>
    sum.group.map((value, at) => printable(by[at] === "key" ? (names.get(value) ?? value) : value) || "(none)");
  const table = formatTable(
    [
      ...by.map((group) => group.replace("upstreamModel", "upstream model")),
      "calls",
      "input",
      "cached",
      "output",
      "cost",
      "unknown",
      ...(bars ? [""] : []),
    ],
    [
      ...rows.map((sum) => [...cells(sum, named(sum)), ...(bars ? [barOf(sum)] : [])]),
      [
        ...cells(
          total,
          by.map((_, at) => (at === 0 ? "total" : "")),
        ),
        ...(bars ? [""] : []),
      ],
    ],
  );
  const left = total.unknownCosts;
  return left === 0
    ? table
    : `${table}The cost leaves out ${count(left)} ${left === 1 ? "call" : "calls"} whose price is not known.\n`;
}

const count = (number: number) => number.toLocaleString("en-US");

/** Names of models are callers' text: nothing in them may steer a terminal. */
const printable = (text: string) => text.replace(/\p{Cc}/gu, "�");

export type PriceOptions = { readonly json?: boolean };

/** @param modelId `<provider>/<model>` */
export function showPrice(context: Context, modelId: string, { json }: PriceOptions): Promise<ExitCode> {
  return withConfig(context, (config) => {
    const id = parseModelId(modelId);
    if (id === undefined) throw new UsageError(`Name the model as <provider>/<model>, not '${printable(modelId)}'.`);
    // A provider that is not set up has its list price all the same.
    const bound = new Accounts(config.providers, providers).find(id.namespace);
    const provider = bound?.provider ?? providers.find(({ name }) => name === id.namespace);
    const found = new Prices(config.prices).find({
      provider: id.namespace,
      dialect: provider?.name ?? id.namespace,
      baseUrl: bound?.account.baseUrl ?? "",
      model: id.name,
      isLocal: provider?.kind === "local",
      isListed: false,
    });
    if (found === undefined) {
      throw new CommandError(
        `No price is known for ${printable(modelId)}: its calls cost 'unknown'. Add a row to 'prices' in the configuration.`,
      );
    }
    const card = found.cardAt(systemClock.now());
    const { source, name, date } = found;
    if (json) printJson(context.io, { model: modelId, source, name, date, ...cardJson(card) });
    else context.io.stdout.write(priceText(modelId, `${sources[source]} ${name}`, date, card));
    return 0;
  });
}

const sources = {
  configuration: "the configuration's row",
  list: "the list in the executable (genai-prices, MIT),",
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

function cardJson({ base, tiers, serviceTiers }: RateCard) {
  return {
    ...ratesJson(base),
    tiers: tiers.map(({ above, rates }) => ({ above, ...ratesJson(rates) })),
    service_tiers: Object.fromEntries(
      Object.entries(serviceTiers).map(([name, tier]) => [
        name,
        typeof tier === "bigint" ? Number(tier) / 1000 : ratesJson(tier),
      ]),
    ),
  };
}

function priceText(modelId: string, origin: string, date: string | null, card: RateCard): string {
  const lines = [`${printable(modelId)}: by ${origin}${date === null ? "" : ` of ${date}`}\n`];
  const add = (title: string, rates: Rates) => {
    const { per_million_tokens, per_request, per_image, per_audio_minute, tools } = ratesJson(rates);
    const rows = Object.entries(per_million_tokens).map(([kind, price]) => [kind, `$${price}`, "per million tokens"]);
    if (per_request !== undefined) rows.push(["request", `$${per_request}`, "each"]);
    if (per_image !== undefined) rows.push(["image", `$${per_image}`, "each"]);
    if (per_audio_minute !== undefined) rows.push(["audio", `$${per_audio_minute}`, "per minute"]);
    for (const [tool, price] of Object.entries(tools)) rows.push([tool, `$${price}`, "each"]);
    if (rows.length > 0) lines.push(`\n${formatTable([title, "price", ""], rows)}`);
  };
  add("what", card.base);
  for (const { above, rates } of card.tiers) add(`above ${count(above)} input tokens`, rates);
  const factors = Object.entries(card.serviceTiers).filter(([, tier]) => typeof tier !== "bigint" || tier !== 1000n);
  for (const [name, tier] of factors) {
    if (typeof tier === "bigint") lines.push(`\nservice tier ${name}: × ${Number(tier) / 1000}\n`);
    else add(`service tier ${name}`, tier);
  }
  return lines.join("");
}
