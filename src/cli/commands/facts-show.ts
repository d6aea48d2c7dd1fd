/** `troupe facts show`: which facts are in use, and what they say of a model. */

import { factsKeys } from "../../build-info.ts";
import type { Explained } from "../../facts/explain.ts";
import { factsOf } from "../../facts/facts.ts";
import { parseJson } from "../../lib/json/json.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { explainedAt } from "../../operate/checks/explained-at.ts";
import { factsState } from "../../operate/facts.ts";
import { formatModelId, parseModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts } from "../../upstream/accounts.ts";
import { billedTarget } from "../../usage/prices/outlook.ts";
import { Prices } from "../../usage/prices/prices.ts";
import type { ServerOptions } from "../chat/server.ts";
import { CommandError, type Context, type ExitCode, UsageError, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatFields, formatTable } from "../print/table.ts";
import { type LearnedFacts, learnedBy } from "./facts-learned.ts";
import { listFor } from "./prices.ts";
import { isStored, usingStore } from "./storage.ts";
import { count } from "./usage.ts";

type FactsShowOptions = ServerOptions & { readonly explain?: boolean; readonly json?: boolean };

/** @param modelId `<provider>/<model>`; absent: which facts are in use */
export function showFacts(context: Context, modelId: string | undefined, options: FactsShowOptions): Promise<ExitCode> {
  return modelId === undefined ? showState(context, options) : showModel(context, modelId, options);
}

function showState(context: Context, { json, ...server }: FactsShowOptions): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    const { list } = listFor(context, config);
    const state = (await isStored(config)) ? await usingStore(config, ({ facts }) => facts.state()) : undefined;
    const learned = await learnedBy(context, config, server);
    const known = { keys: factsKeys.length, pricesAsOf: list.asOf, now: systemClock.now() };
    const shown = factsState({ state, settings: config.facts, ...known });
    if (json) {
      printJson(context.io, {
        ...shown,
        learned: learned === undefined || learned.failure !== undefined ? null : learned.facts,
      });
      return 0;
    }
    const { as_of: asOf, days_old: days, source, sha256, models_as_of: models, update, last_look: look } = shown;
    context.io.stdout.write(
      formatFields({
        facts: `of ${asOf}, ${days} ${days === 1 ? "day" : "days"} old`,
        from: printableLine(source ?? "the executable"),
        ...(sha256 !== null && { sha256 }),
        models: `of ${models}`,
        prices: `of ${list.asOf}`,
        update: update.from === null ? update.mode : `${update.mode}, from ${printableLine(update.from)}`,
        key: factsKeys.length === 0 ? "none in this build: only files with their hash are taken" : "in this build",
        ...(look.at !== null && { "last look": printableLine(`${look.at}: ${look.failure ?? "no failure"}`) }),
        ...(update.awaited !== null && {
          "not here yet": `${update.awaited}: a server takes it at its start or next call`,
        }),
        learned: learnedPhrase(learned),
      }),
    );
    if (learned !== undefined && learned.facts.length > 0)
      context.io.stdout.write(`\n${formatTable(["learned of", "fact", "until"], learned.facts.map(learnedCells))}`);
    return 0;
  });
}

/** For people. */
function learnedPhrase(learned: LearnedFacts | undefined): string {
  if (learned === undefined) return "not known: no server of this configuration runs here (--url, --key)";
  return printableLine(learned.failure ?? `${count(learned.facts.length)} by refusals, for a day each`);
}

const learnedCells = ({ provider, model, fact, until }: LearnedFacts["facts"][number]) =>
  [`${provider}/${model}`, fact, until].map(printableLine);

function showModel(
  context: Context,
  modelId: string,
  { explain, json, ...server }: FactsShowOptions,
): Promise<ExitCode> {
  return withConfig(context, async (config) => {
    const id = parseModelId(modelId);
    if (id === undefined)
      throw new UsageError(`Name the model as <provider>/<model>, not '${printableLine(modelId)}'.`);
    const { list } = listFor(context, config);
    const accounts = new Accounts(config.providers, providers);
    const bound = accounts.find(id.namespace);
    const provider = bound?.provider.name ?? id.namespace;
    const { assumed } = factsOf(provider, id.name);
    const target = billedTarget(accounts, modelId) ?? {
      ...{ provider: id.namespace, dialect: provider, baseUrl: "", model: id.name, isLocal: false, isListed: false },
    };
    const price = new Prices(config.prices, list).find(target);
    const learned = ((await learnedBy(context, config, server))?.facts ?? []).filter(
      ({ provider: account, model }) => formatModelId({ namespace: account, name: model }) === modelId,
    );
    const rows = explainedAt(bound ?? id.namespace, id.name);
    if (rows.length + learned.length === 0 && price === undefined)
      throw new CommandError(
        `Nothing is known of ${printableLine(modelId)}. 'troupe models' lists what providers have.`,
      );
    const priced =
      price === undefined ? "none is known" : `${price.name}${price.date === null ? "" : ` of ${price.date}`}`;
    if (json) {
      printJson(context.io, {
        model: modelId,
        assumed: assumed ?? null,
        facts: rows,
        learned,
        price: price?.name ?? null,
      });
      return 0;
    }
    const taught = learned.map(({ fact, until }): Explained => {
      const [name = "", value] = fact.split(/: (.*)/s);
      return { fact: name, value: parseJson(value ?? "true") ?? value, by: `a refusal, until ${until}`, source: [] };
    });
    const shown = [...taught, ...rows].map(({ fact, value, by, source }) =>
      [fact, JSON.stringify(value), ...(explain === true ? [by, source.join(" ")] : [])].map(printableLine),
    );
    const head = ["fact", "value", ...(explain === true ? ["by", "source"] : [])];
    const of = assumed === undefined ? "" : `, whose line is known by ${assumed}`;
    context.io.stdout.write(`${printableLine(`${modelId}${of}; price: ${priced}`)}\n\n${formatTable(head, shown)}`);
    return 0;
  });
}
