/** The configured upstreams: those of the file, and those whose environment variables are set. */
import { type TObject, Type } from "@sinclair/typebox";
import type { PathPart } from "../lib/json/schema-errors.ts";
import { suggest } from "../lib/text/suggest.ts";
import type { Diagnostic } from "../lib/yaml/yaml.ts";
import { isKeyless, type ProviderCatalog, type RemoteEntry } from "./catalog.ts";
import type { PoolMemberConfig, ProviderConfig, Timeouts } from "./config.ts";
import { type Filled, filledIn, withDefaults } from "./filled.ts";
import {
  endpointMembers,
  isKey,
  keysFrom,
  notKey,
  numberedKeys,
  type ProviderKey,
  poolMembersAt,
  poolOf,
} from "./pools.ts";
import { ProviderFile } from "./provider-schema.ts";
import type { FaultReporter } from "./report.ts";
import { type FoundValue, type Variables, withoutPlace } from "./variables.ts";

type ProviderContext = {
  readonly catalog: ProviderCatalog;
  readonly variables: Variables;
  readonly timeouts: Timeouts;
  readonly report: FaultReporter;
  /** Checks a part of the file. */
  readonly check: (schema: TObject, value: unknown, at: readonly PathPart[]) => readonly Diagnostic[];
  /** Records where a value came from. */
  readonly setOrigin: (path: readonly PathPart[], from: string) => void;
  readonly warn: (diagnostic: Diagnostic) => void;
  /** Reports what most operators did not mean, though nothing is wrong with it. */
  readonly hint: (path: readonly PathPart[], message: string) => void;
};

type Entry = Partial<Filled<typeof ProviderFile>>;

/** The providers of the file in its order, then those of the environment. */
export function providersFrom(
  file: Readonly<Record<string, ProviderFile>>,
  context: ProviderContext,
): ProviderConfig[] {
  const named = Object.entries(file).map(([name, entry]) => fromFile(name, entry, context));
  const others = context.catalog.flatMap((one) => (one.kind === "remote" && !Object.hasOwn(file, one.name) ? one : []));
  return [...named, ...others.map((one) => fromEnvironment(one, context))].filter((one) => one !== undefined);
}

function fromFile(name: string, file: ProviderFile, context: ProviderContext): ProviderConfig | undefined {
  const { report, catalog } = context;
  const at = ["providers", name];
  const misnamed = nameError(name, catalog);
  if (misnamed !== undefined) report(at, misnamed);
  const entry = filledIn(ProviderFile, file);
  const dialect = formatOf(name, entry, context);
  if (dialect === undefined) return undefined;
  const { enabled, options = {}, modelRules = [], headers = {}, models = [] } = entry;
  const found = lookUp(environmentOf(name, dialect), context.variables);
  const variables = Object.entries(found.options).map(([option, { value }]) => [option, value]);
  checkParts(dialect, { ...Object.fromEntries(variables), ...options }, modelRules, at, context);
  checkHeaders(headers, at, report);
  if (!enabled) {
    const key = entry.apiKey ? "its api_key" : entry.apiKeys ? "its api_keys" : found.apiKeys[0]?.from;
    if (key !== undefined) context.hint([...at, "enabled"], `turns ${name} off, though a key for it is set (${key})`);
    return undefined;
  }
  const members = membersOf(entry, dialect, found, at, context);
  const lacksKey = !isKeyless(dialect.auth, options, undefined) && !carriesKey(headers);
  if (lacksKey && members.some(({ apiKey, baseUrl }) => apiKey === undefined && needsKey(dialect, baseUrl))) {
    const [usual] = environmentOf(name, dialect).keys;
    const ways = [
      ...(usual === undefined ? [] : [usual]),
      "api_key",
      ...(dialect.auth ? [`options.auth: ${dialect.auth.kind}`] : []),
    ];
    report(at, `has no key: set ${ways.join(" or ")}, or enabled: false`);
  }
  const [{ apiKey, baseUrl } = { apiKey: undefined, baseUrl: "" }] = members;
  return {
    name,
    dialect: dialect.name,
    baseUrl,
    ...(apiKey !== undefined && { apiKey }),
    ...poolOf(members, entry.strategy),
    headers: lowerCased(headers),
    models,
    options: optionsOf(dialect, { ...optionsFound(found, entry, dialect, at, context), ...options }),
    modelRules,
    timeouts: { ...context.timeouts, ...entry.timeouts },
    ...(entry.unsupportedTools === "drop" && { unsupportedTools: "drop" as const }),
    ...(entry.upstreamStore && { upstreamStore: true as const }),
  };
}

function fromEnvironment(dialect: RemoteEntry, context: ProviderContext): ProviderConfig | undefined {
  const { name } = dialect;
  const own = lookUp(withoutShared(dialect.environment), context.variables);
  const present = own.apiKeys[0] ?? own.baseUrl ?? context.variables.first(dialect.environment.presence ?? []);
  if (present === undefined) return warnOfEmptyFile(dialect, context);
  const found = lookUp(dialect.environment, context.variables);
  const at = ["providers", name];
  const lacks = (what: string): undefined => {
    context.warn(withoutPlace("environment", present.from, `does not set up the provider ${name}: ${what}`));
  };
  if (dialect.baseUrl === "" && found.baseUrl === undefined) {
    return lacks(`it needs an address, from ${dialect.environment.baseUrl.join(" or ") || "base_url in the file"}`);
  }
  const members = membersOf({}, dialect, found, at, context);
  const [{ apiKey, baseUrl } = { apiKey: undefined, baseUrl: "" }] = members;
  if (baseUrl === "") return undefined;
  if (needsKey(dialect, baseUrl) && apiKey === undefined && !isKeyless(dialect.auth, {}, apiKey)) {
    return lacks(`it needs a key, from ${dialect.environment.keys.join(" or ")}`);
  }
  const options = optionsOf(dialect, optionsFound(found, {}, dialect, at, context));
  const missing = closed(dialect.options).required?.filter((key) => !Object.hasOwn(options, key)) ?? [];
  if (missing.length > 0) return lacks(`it needs ${missing.map((key) => `options.${key}`).join(", ")} in the file`);
  const rest = { headers: {}, models: [], options, modelRules: [], timeouts: context.timeouts };
  const keys = { ...(apiKey !== undefined && { apiKey }), ...poolOf(members, "sticky") };
  return { name, dialect: name, baseUrl, ...keys, ...rest };
}

/** An empty variable is usual where a compose file passes all of them on; nobody makes an empty file for a key. */
function warnOfEmptyFile({ name, environment }: RemoteEntry, { variables, warn }: ProviderContext): undefined {
  for (const variable of withoutShared(environment).keys) {
    const { from, value = "" } = variables.find(variable) ?? {};
    if (from !== undefined && from !== variable && value === "")
      warn(withoutPlace("environment", variable, `does not set up the provider ${name}: ${from} is empty`));
  }
}

function nameError(name: string, catalog: ProviderCatalog): string | undefined {
  const isLocal = catalog.some((one) => one.kind === "local" && one.name === name);
  return isLocal ? "is always there and takes no settings" : undefined;
}

function formatOf(name: string, entry: Entry, { catalog, report }: ProviderContext): RemoteEntry | undefined {
  const wanted = entry.dialect ?? name;
  const remote = catalog.filter((one) => one.kind === "remote");
  const found = remote.find((one) => one.name === wanted);
  if (found !== undefined || catalog.some((one) => one.name === name)) return found;
  const names = remote.map((one) => one.name);
  const guess = suggest(wanted, names);
  const advice = guess === undefined ? `: one of ${names.join(", ")}` : `; did you mean '${guess}'?`;
  if (entry.dialect !== undefined) report(["providers", name, "dialect"], `is no built-in provider${advice}`);
  else report(["providers", name], `is no built-in provider, so it needs a dialect${advice}`);
  return undefined;
}

/** A custom name has variables of the same form: `MYCORP_API_KEY` and `MYCORP_BASE_URL`. */
function environmentOf(name: string, dialect: RemoteEntry): RemoteEntry["environment"] {
  if (name === dialect.name) return dialect.environment;
  const stem = name.toUpperCase().replaceAll(/[^A-Z0-9]/g, "_");
  return { keys: [`${stem}_API_KEY`], baseUrl: [`${stem}_BASE_URL`] };
}

type LookedUp = {
  /** Several where numbered variables stand beside the usual one. */
  readonly apiKeys: readonly FoundValue[];
  /** The key is an access token. */
  readonly isToken: boolean;
  readonly baseUrl: FoundValue | undefined;
  readonly options: Readonly<Record<string, FoundValue>>;
};

/** Other tools' variables say nothing of whether a provider is wanted. */
function withoutShared(environment: RemoteEntry["environment"]): RemoteEntry["environment"] {
  const { keys, baseUrl, shared = [] } = environment;
  const own = (names: readonly string[]) => names.filter((name) => !shared.includes(name));
  return shared.length === 0 ? environment : { ...environment, keys: own(keys), baseUrl: own(baseUrl) };
}

function lookUp(environment: RemoteEntry["environment"], variables: Variables): LookedUp {
  const { keys: names, baseUrl, tokens = [], options = {} } = environment;
  let keyName: string | undefined;
  let apiKeys: readonly FoundValue[] = [];
  for (const name of names) {
    apiKeys = numberedKeys(name, variables);
    keyName = name;
    if (apiKeys.length > 0) break;
  }
  return {
    apiKeys,
    isToken: apiKeys.length > 0 && tokens.includes(keyName!),
    baseUrl: variables.first(baseUrl),
    options: Object.fromEntries(
      Object.entries(options).flatMap(([name, option]) => {
        const found = variables.first([name]);
        return found === undefined ? [] : [[option, found]];
      }),
    ),
  };
}

/** An account's options in the environment, and in its file of credentials. */
function optionsFound(
  found: LookedUp,
  entry: Entry,
  dialect: RemoteEntry,
  at: readonly PathPart[],
  context: ProviderContext,
): Record<string, unknown> {
  const { setOrigin } = context;
  const { apiKeys, isToken, options } = found;
  const given: Record<string, unknown> = {};
  const own = (entry.options ?? {}) as Record<string, unknown>;
  for (const [option, { value, from }] of optionsInFile(found, entry, dialect, context)) {
    given[option] = value;
    setOrigin([...at, "options", option], from);
  }
  for (const [option, { value, from }] of Object.entries(options)) {
    given[option] = value;
    if (own[option] === undefined) setOrigin([...at, "options", option], from);
  }
  if (isToken && !entry.apiKey && !entry.apiKeys) {
    given["bearer"] = true;
    if (own["bearer"] === undefined) setOrigin([...at, "options", "bearer"], apiKeys[0]!.from);
  }
  return given;
}

/** Those that nothing else gives to an account without a key. */
function optionsInFile(
  { apiKeys, options }: LookedUp,
  entry: Entry,
  { environment, auth }: RemoteEntry,
  { variables }: ProviderContext,
): readonly (readonly [option: string, found: FoundValue])[] {
  const { credentialsFile } = environment;
  const own = (entry.options ?? {}) as Record<string, unknown>;
  const hasKey = !!entry.apiKey || entry.apiKeys !== undefined || apiKeys.length > 0;
  if (credentialsFile === undefined || !isKeyless(auth, own, hasKey ? "***" : undefined)) return [];
  const named = own[credentialsFile.option] ?? variables.first([credentialsFile.variable])?.value;
  if (typeof named !== "string") return [];
  return Object.entries(credentialsFile.members).flatMap(([option, member]) => {
    if (own[option] !== undefined || options[option] !== undefined) return [];
    const found = variables.inFile(named, member);
    return found === undefined ? [] : [[option, found] as const];
  });
}

/** Only the public address is known to need a key; a custom one may not. */
const needsKey = ({ keyOptional, baseUrl }: RemoteEntry, used: string) =>
  !keyOptional && (baseUrl === "" || used === parseBaseUrl(baseUrl));

const keyHeaders = new Set(["authorization", "x-api-key", "api-key", "x-goog-api-key", "cf-aig-authorization"]);
const carriesKey = (headers: Readonly<Record<string, string>>) =>
  Object.keys(headers).some((name) => keyHeaders.has(name.toLowerCase()));

const lowerCased = (headers: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** The account's keys at its endpoints: none where an address is missing or wrong, which is reported. */
function membersOf(
  entry: Entry,
  dialect: RemoteEntry,
  found: LookedUp,
  at: readonly PathPart[],
  context: ProviderContext,
): readonly PoolMemberConfig[] {
  const { report } = context;
  const keys = keysOf(entry, found.apiKeys, at, context);
  if (entry.endpoints === undefined) {
    const baseUrl = baseUrlOf(entry, dialect, found.baseUrl, at, context);
    if (baseUrl === undefined) return [];
    if (keys.length === 0) return [{ baseUrl, weight: 1 }];
    return keys.flatMap((key) => poolMembersAt({ baseUrl, weight: key.weight }, [key]));
  }
  if (entry.baseUrl !== undefined) report([...at, "base_url"], "stands beside endpoints, which hold all addresses");
  const parse = (text: string) => parseBaseUrl(text);
  return endpointMembers(entry.endpoints, keys, [...at, "endpoints"], { report, parse, addressForm });
}

function keysOf(
  entry: Entry,
  found: readonly FoundValue[],
  at: readonly PathPart[],
  { report, setOrigin, variables }: ProviderContext,
): readonly ProviderKey[] {
  const { apiKey, apiKeys } = entry;
  if (apiKeys !== undefined) {
    if (apiKey) report([...at, "api_key"], "stands beside api_keys, which holds all keys");
    return keysFrom(apiKeys, [...at, "api_keys"], report);
  }
  if (apiKey !== undefined && apiKey !== "") {
    if (!isKey(apiKey)) report([...at, "api_key"], notKey);
    return [{ key: apiKey, weight: 1 }];
  }
  if (found.length > 0)
    setOrigin([...at, found.length > 1 ? "api_keys" : "api_key"], found.map(({ from }) => from).join(", "));
  for (const { value, from } of found) if (!isKey(value)) variables.report(from, notKey);
  return found.map(({ value }) => ({ key: value, weight: 1 }));
}

const addressForm = "must be an http or https URL without user, password, query and fragment";

function baseUrlOf(
  entry: Entry,
  dialect: RemoteEntry,
  found: FoundValue | undefined,
  at: readonly PathPart[],
  { report, setOrigin, variables }: ProviderContext,
): string | undefined {
  if (entry.baseUrl !== undefined) {
    const url = parseBaseUrl(entry.baseUrl);
    if (url === undefined) report([...at, "base_url"], addressForm);
    return url;
  }
  if (found !== undefined) {
    const url = parseBaseUrl(completed(found.value, dialect.baseUrl));
    if (url === undefined) variables.report(found.from, addressForm);
    setOrigin([...at, "base_url"], found.from);
    return url;
  }
  if (dialect.baseUrl !== "") return parseBaseUrl(dialect.baseUrl);
  const { baseUrl: names } = dialect.environment;
  report(at, `needs base_url${names.length === 0 ? "" : `, or ${names.join(" or ")} in the environment`}`);
  return undefined;
}

/**
 * Variables such as OLLAMA_HOST hold a bare host, others an origin: what is missing is as in the usual address.
 * Source: https://docs.ollama.com/faq
 */
function completed(text: string, usual: string): string {
  const isBare = !/^[a-z][a-z0-9+.-]*:\/\//i.test(text);
  if (!URL.canParse(usual)) return isBare ? `https://${text}` : text;
  const model = new URL(usual);
  const given = isBare ? `${model.protocol}//${text}` : text;
  if (!URL.canParse(given)) return given;
  const url = new URL(given);
  if (isBare && url.port === "") url.port = model.port;
  if (url.pathname === "/") url.pathname = model.pathname;
  return url.href;
}

/** @returns without a trailing slash; undefined when it can't be called, or would carry a secret into logs */
function parseBaseUrl(text: string): string | undefined {
  if (!URL.canParse(text)) return undefined;
  const { protocol, username, password, search, hash, href } = new URL(text);
  const isPlain = username === "" && password === "" && search === "" && hash === "" && !/[?#]$/.test(href);
  return (protocol === "http:" || protocol === "https:") && isPlain ? href.replace(/\/+$/, "") : undefined;
}

function checkHeaders(headers: Readonly<Record<string, string>>, at: readonly PathPart[], report: FaultReporter): void {
  for (const [name, value] of Object.entries(headers)) {
    // Source: https://www.rfc-editor.org/rfc/rfc9110#section-5.5
    if (!/^[\t\x20-\x7e]*$/.test(value))
      report([...at, "headers", name], "must be one line of visible ASCII characters");
  }
}

const closed = (schema: TObject = Type.Object({})): TObject => ({ ...schema, additionalProperties: false });

function checkParts(
  dialect: RemoteEntry,
  options: unknown,
  modelRules: readonly unknown[],
  at: readonly PathPart[],
  { check }: ProviderContext,
): void {
  check(closed(dialect.options), options, [...at, "options"]);
  const own = closed(dialect.modelRules);
  const row = { ...own, properties: { match: Type.String(), ...own.properties } };
  for (const [index, rule] of modelRules.entries()) check(row, rule, [...at, "model_rules", index]);
}

const optionsOf = (dialect: RemoteEntry, options: unknown) =>
  (dialect.options === undefined ? {} : withDefaults(dialect.options, options)) as Record<string, unknown>;
