/** A configuration as the value of a file that would give it, without its secrets. */
import { snakeKeys } from "../lib/text/snake-case.ts";
import type { Config, ListenerConfig, ProviderConfig, StoreConfig } from "./config.ts";
import { formatAddress } from "./listeners.ts";
import type { McpServerConfig } from "./mcp.ts";
import { poolFile } from "./pools.ts";

const hidden = "***";

export function fileFrom(config: Config): Record<string, unknown> {
  const { listen, providers, mcpServers, store, coordination, personas, budgets, aliases, alerts, ...rest } = config;
  return {
    listen: listen.map(listenerFrom),
    ...(store !== undefined && { store: storeFrom(store) }),
    ...(coordination !== undefined && { coordination: withoutSecrets(coordination) }),
    ...(personas.isNamed && { personas: personas.folder }),
    ...(alerts !== undefined && { alerts: { url: alerts.urls.map(originOf), secret: hidden } }),
    ...(snakeKeys(rest) as object),
    budgets: budgetsFrom(budgets),
    providers: Object.fromEntries(providers.map((provider) => [provider.name, providerFrom(provider)])),
    mcp_servers: Object.fromEntries(Object.entries(mcpServers).map(([name, server]) => [name, mcpServerFrom(server)])),
    aliases,
  };
}

/** Arguments, variables, headers and what follows an address's host may be secrets. */
function mcpServerFrom({ args, env, url, headers, ...rest }: McpServerConfig) {
  return {
    ...(snakeKeys(rest) as object),
    ...(url !== undefined && { url: originOf(url) }),
    ...(args.length > 0 && { args: args.map(() => hidden) }),
    ...(env !== undefined && { env: hiddenValues(env) }),
    ...(headers !== undefined && { headers: hiddenValues(headers) }),
  };
}

const hiddenValues = (values: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.keys(values).map((name) => [name, hidden]));

const listenerFrom = ({ address, ...rest }: ListenerConfig) => ({ address: formatAddress(address), ...rest });

/** Behind the host an address may hold a secret. */
const originOf = (url: string): string => `${new URL(url).origin}/${hidden}`;

/** User, password and what follows the database's name may be secrets. */
function withoutSecrets(url: string): string {
  const { protocol, host, pathname } = new URL(url);
  return `${protocol}//${hidden}@${host}${pathname}`;
}

const storeFrom = ({ url, ...rest }: StoreConfig) => ({ url: withoutSecrets(url), ...(snakeKeys(rest) as object) });

function providerFrom({
  name: _,
  dialect,
  baseUrl,
  apiKey,
  headers,
  models,
  options,
  modelRules,
  pool,
  ...rest
}: ProviderConfig) {
  const shared = pool && poolFile(pool, hidden);
  return {
    dialect,
    ...(shared?.["endpoints"] === undefined && { base_url: baseUrl }),
    ...(shared === undefined && apiKey !== undefined && { api_key: hidden }),
    ...shared,
    models,
    options,
    headers: hiddenValues(headers),
    model_rules: modelRules,
    ...(snakeKeys(rest) as object),
  };
}

/** Tags and patterns of models are the operator's own words. */
const budgetsFrom = ({ tags, models, ...rest }: Config["budgets"]) => ({
  ...(snakeKeys(rest) as object),
  tags,
  ...(models && { models }),
});
