/** `troupe models`: what providers that are set up have, with limits, prices and the day on which a model ends. */

import { endState } from "../../facts/endings.ts";
import { havingAll, listedNames, type ModelDetails, modelFacts } from "../../http/models/model-facts.ts";
import { FetchTransport } from "../../lib/http/fetch-transport.ts";
import { isBehindForwardProxy } from "../../lib/http/forward-proxy.ts";
import { globMatches } from "../../lib/text/glob.ts";
import { printableLine } from "../../lib/text/printable.ts";
import { systemClock } from "../../lib/time/clock.ts";
import { formatModelId } from "../../protocols/model-id.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts, type BoundAccount } from "../../upstream/accounts.ts";
import { Upstream } from "../../upstream/client.ts";
import { openCredentialSources } from "../../upstream/credentials/open.ts";
import { askAccount, ModelListError } from "../../upstream/model-list.ts";
import { type KnownList, listFrom, readLists } from "../../upstream/model-lists.ts";
import { Prices } from "../../usage/prices/prices.ts";
import { listInUse } from "../../usage/prices/stored-list.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";
import { formatTable } from "../print/table.ts";
import { count } from "./usage.ts";

type ModelsOptions = {
  /** Only models that have ended, or end within six months. */
  readonly ending?: boolean;
  /** Only those that are known to have all of these capabilities. */
  readonly has?: string;
  /** Only what is known without asking. */
  readonly offline?: boolean;
  readonly json?: boolean;
};

const deadlineMs = 15_000;

type Asked = { readonly bound: BoundAccount; readonly list?: KnownList | undefined; readonly problem?: string };
type Row = { readonly id: string; readonly created?: number | undefined } & ModelDetails;

/** @param pattern a glob over `<provider>/<model>`, or a part of it */
export function listModels(context: Context, pattern: string | undefined, options: ModelsOptions): Promise<ExitCode> {
  const { ending, has, offline, json } = options;
  return withConfig(context, async (config) => {
    const { io } = context;
    const transport = isBehindForwardProxy(io.env) ? new FetchTransport() : undefined;
    const sources = openCredentialSources({ clock: systemClock, log: { warn: () => {} }, env: io.env, transport });
    const accounts = new Accounts(config.providers, providers, (auth, account) => sources.signer(auth, account));
    const stored = readLists(config.data);
    const upstream = new Upstream(systemClock, transport);
    const asked = await Promise.all(
      accounts.list().map((bound) => askOne(upstream, bound, storedOf(stored, bound), offline === true)),
    );
    upstream.close();
    const now = systemClock.now();
    const { list: priceList } = listInUse(config.data);
    const prices = new Prices(config.prices, priceList);
    const fits = fitting(pattern);
    const isWanted = has === undefined ? undefined : havingAll(has);
    const rows = asked
      .flatMap((one) => rowsOf(one, prices, now))
      .filter(
        (row) => fits(row.id) && (isWanted?.(row) ?? true) && (ending !== true || isEnding(row.shutdown_date, now)),
      );
    if (json) printJson(io, { models: rows, providers: asked.map(providerJson) });
    else {
      if (rows.length > 0) io.stdout.write(formatTable(columns, rows.map(cellsOf)));
      for (const { bound, problem } of asked)
        if (problem !== undefined) io.stderr.write(`${bound.account.name}: ${printableLine(problem)}\n`);
    }
    if (rows.length === 0 && pattern !== undefined)
      throw new CommandError(`No model fits '${printableLine(pattern)}'.`);
    return 0;
  });
}

function fitting(pattern: string | undefined): (id: string) => boolean {
  if (pattern === undefined) return () => true;
  const wanted = pattern.toLowerCase();
  if (wanted.includes("*")) return (id) => globMatches(wanted, id.toLowerCase());
  return (id) => id.toLowerCase().includes(wanted);
}

const isEnding = (ends: string | undefined, now: number) => ends !== undefined && endState(ends, now) !== "later";

const storedOf = (lists: readonly KnownList[], { account: { name, baseUrl } }: BoundAccount) =>
  lists.find((list) => list.provider === name && list.baseUrl === baseUrl);

async function askOne(
  upstream: Upstream,
  bound: BoundAccount,
  stored: KnownList | undefined,
  isOffline: boolean,
): Promise<Asked> {
  const { account, provider } = bound;
  if (provider.kind === "local" || isOffline) return { bound, list: stored };
  const shown =
    stored === undefined
      ? "models that are named or well known are shown"
      : `the list of ${new Date(stored.at).toISOString().slice(0, 10)} is shown`;
  if (provider.modelList === undefined) {
    return { bound, list: stored, problem: `it is not known to have a list; ${shown}` };
  }
  try {
    const models = await askAccount({ upstream, clock: systemClock }, bound, provider.modelList, { deadlineMs });
    return { bound, list: listFrom(account.name, account.baseUrl, systemClock.now(), models) };
  } catch (error) {
    if (!(error instanceof ModelListError)) throw error;
    return { bound, list: stored, problem: `its list could not be had: ${error.message}; ${shown}` };
  }
}

function rowsOf({ bound, list }: Asked, prices: Prices, now: number): Row[] {
  return listedNames(bound, list).map((name) => {
    const listed = list?.models.get(name);
    const id = formatModelId({ namespace: bound.account.name, name });
    return { id, created: listed?.created, ...modelFacts(bound, name, { listed, prices, now }) };
  });
}

const columns = ["model", "context", "output", "reads", "$/M in", "$/M out", "formats", "ends on"];

const cellsOf = (row: Row): (string | undefined)[] => [
  printableLine(row.id),
  row.context_length === undefined ? undefined : count(row.context_length),
  row.max_output_tokens === undefined ? undefined : count(row.max_output_tokens),
  row.input_modalities?.join(","),
  row.pricing === undefined ? undefined : `${row.pricing.input}`,
  row.pricing === undefined ? undefined : `${row.pricing.output}`,
  row.formats?.join(","),
  row.shutdown_date ?? (row.deprecated === true ? "deprecated" : undefined),
];

const providerJson = ({ bound, list, problem }: Asked) => ({
  provider: bound.account.name,
  listed_at: list === undefined ? null : new Date(list.at).toISOString(),
  problem: problem ?? null,
});
