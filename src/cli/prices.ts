/** `troupe prices`: what a model costs and why, and a newer list of prices. */
import type { Config } from "../config/config.ts";
import { systemClock } from "../lib/clock.ts";
import { snakeCaseNumbered } from "../lib/snake-case.ts";
import { parseModelId } from "../protocols/model-id.ts";
import { providers } from "../providers/registry.ts";
import { Accounts } from "../upstream/accounts.ts";
import { compiledList } from "../usage/prices/list.ts";
import { changesBetween, ListError, type PriceChange, parseList } from "../usage/prices/list-format.ts";
import type { ListedPrice } from "../usage/prices/listed.ts";
import { Prices } from "../usage/prices/prices.ts";
import { type RateCard, type Rates, type RatesByLength, unitKinds } from "../usage/prices/rates.ts";
import { type ListInUse, listInUse, sha256Of, storedListPath, storeList } from "../usage/prices/stored-list.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "./context.ts";
import { printJson } from "./print-json.ts";
import { assertDataFolder } from "./storage.ts";
import { formatTable } from "./table.ts";
import { count, printable } from "./usage.ts";

export type PriceOptions = { readonly json?: boolean };

/** @param modelId `<provider>/<model>` */
export function showPrice(context: Context, modelId: string, { json }: PriceOptions): Promise<ExitCode> {
  return withConfig(context, (config) => {
    const id = parseModelId(modelId);
    if (id === undefined) throw new UsageError(`Name the model as <provider>/<model>, not '${printable(modelId)}'.`);
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
        `No price is known for ${printable(modelId)}: its calls cost 'unknown'. Add a row to 'prices' in the configuration.`,
      );
    }
    const card = found.cardAt(systemClock.now());
    const { source, name, date } = found;
    const words = source === "list" && origin !== undefined ? `the list of ${printable(origin)},` : sources[source];
    if (json) printJson(context.io, { model: modelId, source, name, date, ...cardJson(card) });
    else context.io.stdout.write(priceText(modelId, `${words} ${name}`, date, card));
    return 0;
  });
}

const sources = {
  configuration: "the configuration's row",
  list: "the list in the executable (genai-prices, MIT),",
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
function listFor({ io }: Context, { data }: Config): ListInUse {
  const found = listInUse(data);
  if (found.warning !== undefined) io.stderr.write(`warning: ${found.warning}; the list in the executable counts.\n`);
  return found;
}

export type UpdateOptions = { readonly sha256?: string; readonly json?: boolean };

/**
 * Shows what a list would change; takes it where its hash is given, which is shown with the changes.
 * @param source a file, or an address
 */
export function updatePrices(context: Context, source: string, { sha256, json }: UpdateOptions): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    const { io } = context;
    const bytes = await readList(context, source);
    const hash = sha256Of(bytes);
    if (sha256 !== undefined && sha256.toLowerCase() !== hash) {
      throw new CommandError(
        `${printable(source)} has the SHA-256 ${hash}, not the one that is given: nothing was changed.`,
      );
    }
    const now = systemClock.now();
    const list = listFrom(source, bytes, now);
    const oldest = compiledList.content.date;
    if (list.date < oldest) {
      throw new CommandError(
        `${printable(source)} is of ${list.date}, and the list in the executable of ${oldest}: nothing was changed.`,
      );
    }
    const { list: before } = listFor(context, config);
    const changes = changesBetween(before.content, list, now);
    const isTaken = sha256 !== undefined;
    if (isTaken) {
      assertDataFolder(context, config.data);
      storeList(config.data, source, list.date, JSON.stringify(list));
    }
    if (json) {
      printJson(io, { source, sha256: hash, date: list.date, before: before.content.date, taken: isTaken, changes });
      return 0;
    }
    io.stdout.write(changes.map(changeText).join(""));
    const size = changes.length === 0 ? "No price differs" : `${count(changes.length)} models differ`;
    io.stderr.write(
      `${size} from the list of ${before.content.date}.\n${
        isTaken
          ? `Stored as ${storedListPath(config.data)}: used from the next start or reload (SIGHUP) on.\n`
          : `Nothing was changed. To use the list:\n  troupe prices update ${printable(source)} --sha256 ${hash}\n`
      }`,
    );
    return 0;
  });
}

/** Lists have some hundred kilobytes. */
const maxListBytes = 16 * 1024 * 1024;
const fetchMs = 30_000;

/** @throws CommandError */
async function readList({ io }: Context, source: string): Promise<Uint8Array> {
  try {
    if (/^https?:\/\//i.test(source)) return await fetchList(source);
    const text = io.readFile(source);
    if (text === undefined) throw new CommandError(`There is no file ${printable(source)}.`);
    return new TextEncoder().encode(text);
  } catch (error) {
    if (error instanceof CommandError) throw error;
    throw new CommandError(`${printable(source)} can't be read: ${(error as Error).message}`);
  }
}

async function fetchList(source: string): Promise<Uint8Array> {
  const answer = await fetch(source, { signal: AbortSignal.timeout(fetchMs) });
  if (!answer.ok) throw new CommandError(`${printable(source)} answers with the status ${answer.status}.`);
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of answer.body ?? []) {
    size += piece.length;
    if (size > maxListBytes) throw new CommandError(`${printable(source)} is too large for a price list.`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

/** @throws CommandError */
function listFrom(source: string, bytes: Uint8Array, now: number) {
  try {
    return parseList(new TextDecoder().decode(bytes), new Date(now).toISOString().slice(0, 10));
  } catch (error) {
    if (error instanceof ListError)
      throw new CommandError(`${printable(source)} is no price list: ${error.message}. Nothing was changed.`);
    throw error;
  }
}

const marks = { added: "+", removed: "-", changed: "~" } as const;

function changeText({ model, change, prices }: PriceChange): string {
  const parts = Object.entries(prices).map(([kind, { before, after }]) => {
    if (change === "added") return `${kind} ${priceWords(after)}`;
    if (change === "removed") return `${kind} ${priceWords(before)}`;
    return `${kind} ${priceWords(before)} → ${priceWords(after)}`;
  });
  const words = parts.length === 0 ? "the same now, other conditions" : parts.join(", ");
  return `${marks[change]} ${printable(model)}: ${printable(words)}\n`;
}

function priceWords(price: ListedPrice | undefined): string {
  if (price === undefined) return "none";
  if (typeof price === "number") return `$${price}`;
  return `$${price.base}${price.tiers.map(({ start, price: long }) => ` ($${long} above ${count(start)})`).join("")}`;
}
