/** The configured upstream accounts, each bound to the provider adapter for its format. */
import { isKeyless } from "../config/catalog.ts";
import type { ProviderConfig, Timeouts } from "../config/config.ts";
import { withDefaults } from "../config/filled.ts";
import type { Strategy } from "../lib/http/strategies.ts";
import type { ExtrasCatalog } from "../protocols/chat/extras.ts";
import type { Account, KeylessAuth, Provider } from "../providers/provider.ts";
import { Credentials } from "./credentials/credentials.ts";
import { maskedSigner, type Signer } from "./credentials/signer.ts";
import type { Member } from "./pool/member.ts";
import { Members } from "./pool/members.ts";

/** Makes the signer of an account without a key. */
export type SignerFactory = (auth: KeylessAuth, account: Account) => Signer;

export type BoundAccount = {
  readonly account: Account;
  readonly credentials: Credentials;
  readonly provider: Provider;
  readonly timeouts: Timeouts;
  /** The names under which a caller may place its extra options, the most specific first. */
  readonly namespaces: readonly string[];
  /** The models known by name; the account may accept others. */
  readonly models: ReadonlySet<string>;
  /** What is known of its key at its endpoint. */
  readonly member: Member;
  /** Its share of the conversations. */
  readonly weight: number;
  /** The key's name in the configuration. */
  readonly keyName?: string | undefined;
  /** The only models that its endpoint has; absent: all of the account's. */
  readonly has?: readonly string[] | undefined;
  /** Absent where there is one key and one endpoint. */
  readonly pool?: AccountPool | undefined;
};

/** The keys and endpoints of an account. */
type AccountPool = {
  readonly strategy: Strategy;
  /** The first is the account's own: what names things in the provider's store goes there. */
  readonly members: readonly BoundAccount[];
};

/** An immutable set of accounts, replaced as a whole on reload. */
export class Accounts {
  readonly #byName: ReadonlyMap<string, BoundAccount>;
  /** The names under which a caller may place extra options, and the options themselves. */
  readonly catalog: ExtrasCatalog;

  /**
   * @param providers every provider that is compiled in; local ones need no configuration
   * @param signerOf default: nothing is sent, and requests are shown with `***` for a signature
   * @param members what is known of their keys and endpoints
   */
  constructor(
    configured: readonly ProviderConfig[],
    providers: readonly Provider[],
    signerOf: SignerFactory = () => maskedSigner,
    members = new Members(),
  ) {
    const providersByName = new Map(providers.map((provider) => [provider.name, provider]));
    const bound = new Map<string, BoundAccount>();
    for (const provider of providers)
      if (provider.kind === "local") bound.set(provider.name, bindLocal(provider, members));
    for (const config of configured) {
      const provider = providersByName.get(config.dialect);
      if (provider === undefined) throw new Error(`provider ${config.name}: there is no dialect '${config.dialect}'`);
      bound.set(config.name, bindAll(config, provider, signerOf, members));
    }
    this.#byName = bound;
    this.catalog = {
      options: new Set(providers.flatMap((provider) => Object.keys(provider.extras.properties))),
      namespaces: new Set([...providersByName.keys(), ...bound.keys()]),
    };
  }

  find(name: string): BoundAccount | undefined {
    return this.#byName.get(name);
  }

  list(): BoundAccount[] {
    return [...this.#byName.values()];
  }
}

function bindAll(
  { pool, ...config }: ProviderConfig,
  provider: Provider,
  signerOf: SignerFactory,
  known: Members,
): BoundAccount {
  if (pool === undefined) return bind(config, provider, signerOf, known);
  const members = pool.members.map(({ apiKey, baseUrl, weight, keyName, models }) => {
    const own = { ...config, baseUrl, apiKey };
    return { ...bind(own, provider, signerOf, known), weight, keyName, has: models };
  });
  return { ...members[0]!, pool: { strategy: pool.strategy, members } };
}

function bind(config: ProviderConfig, provider: Provider, signerOf: SignerFactory, known: Members): BoundAccount {
  const { timeouts, dialect: _, apiKey: _key, headers: _headers, pool: _pool, ...account } = config;
  const models = account.models.length > 0 ? account.models : provider.models;
  const bound = { ...account, models };
  return {
    provider,
    timeouts,
    account: bound,
    credentials: credentialsOf(config, bound, provider, signerOf),
    namespaces: namespacesOf(account.name, provider),
    models: new Set(models),
    member: known.of(account.name, config.apiKey, config.baseUrl),
    weight: 1,
  };
}

function credentialsOf(
  config: ProviderConfig,
  account: Account,
  provider: Provider,
  signerOf: SignerFactory,
): Credentials {
  if (provider.kind === "local") return new Credentials(config, {});
  const { keyPlace = {}, auth } = provider;
  if (auth === undefined || !isKeyless(auth, config.options, config.apiKey)) return new Credentials(config, keyPlace);
  const { headers, options } = config;
  return new Credentials({ headers, options }, keyPlace, signerOf(auth, account));
}

function namespacesOf(name: string, provider: Provider): string[] {
  return [...new Set([name, provider.name])];
}

function bindLocal(provider: Provider, known: Members): BoundAccount {
  return {
    provider,
    timeouts: { connectSeconds: 0, firstByteSeconds: 0, idleSeconds: 0 },
    namespaces: [provider.name],
    models: new Set(provider.models),
    account: { name: provider.name, baseUrl: "", models: provider.models, options: {}, modelRules: [] },
    credentials: new Credentials({ headers: {}, options: {} }, {}),
    member: known.of(provider.name, undefined, ""),
    weight: 1,
  };
}

/** A provider's settings by its key alone, which is hidden: for who shows requests. @returns undefined where it has no usual address */
export function usualConfig(provider: Provider): ProviderConfig | undefined {
  if (provider.kind === "local" || provider.baseUrl === "") return undefined;
  const { name, baseUrl, options } = provider;
  return {
    name,
    dialect: name,
    baseUrl,
    apiKey: "***",
    headers: {},
    models: [],
    options: options === undefined ? {} : (withDefaults(options, {}) as Record<string, unknown>),
    modelRules: [],
    timeouts: { connectSeconds: 1, firstByteSeconds: 1, idleSeconds: 1 },
  };
}
