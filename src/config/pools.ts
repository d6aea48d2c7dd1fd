/** The keys and endpoints of a provider: of the file, and numbered variables of the environment. */

import type { Strategy } from "../lib/http/strategies.ts";
import type { PathPart } from "../lib/json/schema-errors.ts";
import type { PoolConfig, PoolMemberConfig } from "./config.ts";
import type { EndpointFile, KeyFile } from "./provider-schema.ts";
import type { FaultReporter } from "./report.ts";
import type { FoundValue, Variables } from "./variables.ts";

export type ProviderKey = { readonly key: string; readonly weight: number; readonly name?: string | undefined };

/** The most keys that are looked for in numbered variables. */
const maxKeys = 64;

/** Finds `NAME`, `NAME_1`, `NAME_2` and so on, up to the first number that is not set; `NAME_1` may be left out. */
export function numberedKeys(name: string, variables: Variables): FoundValue[] {
  const found: FoundValue[] = [];
  const add = (one: string) => {
    const value = variables.first([one]);
    if (value !== undefined && found.every((other) => other.value !== value.value)) found.push(value);
    return value !== undefined;
  };
  add(name);
  for (let number = 1; number <= maxKeys; number += 1) if (!add(`${name}_${number}`) && number > 1) break;
  return found;
}

/** @param list of the file @param at its path */
export function keysFrom(list: readonly KeyFile[], at: readonly PathPart[], report: FaultReporter): ProviderKey[] {
  const known = new Set<string>();
  return list.map((entry, index) => {
    const { key, weight = 1, name } = typeof entry === "string" ? { key: entry } : entry;
    const place = [...at, index, ...(typeof entry === "string" ? [] : ["key"])];
    if (key === "") report(place, "is empty");
    else if (!isKey(key)) report(place, notKey);
    else if (known.has(key)) report(place, "is there twice");
    known.add(key);
    return { key, weight, name };
  });
}

export const isKey = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);
export const notKey = "holds a space or a character that no key has";

type Endpoint = { readonly baseUrl: string; readonly weight: number; readonly models?: readonly string[] | undefined };

/** @returns each of the keys at the endpoint, which share its weight; without any the endpoint alone */
export function poolMembersAt(
  { baseUrl, weight, models }: Endpoint,
  keys: readonly ProviderKey[],
): readonly PoolMemberConfig[] {
  const own = models === undefined ? {} : { models };
  if (keys.length === 0) return [{ baseUrl, weight, ...own }];
  const sum = keys.reduce((total, key) => total + key.weight, 0);
  return keys.map(({ key, weight: share, name }) => ({
    apiKey: key,
    ...(name !== undefined && { keyName: name }),
    baseUrl,
    weight: (weight * share) / sum,
    ...own,
  }));
}

/** @param members of an account with one endpoint by its keys' own weights */
export function poolOf(members: readonly PoolMemberConfig[], strategy: Strategy): { readonly pool?: PoolConfig } {
  return members.length > 1 ? { pool: { strategy, members } } : {};
}

type EndpointContext = {
  readonly report: FaultReporter;
  readonly parse: (text: string) => string | undefined;
  readonly addressForm: string;
};

/** @param keys of the account, for endpoints without keys of their own */
export function endpointMembers(
  endpoints: readonly EndpointFile[],
  keys: readonly ProviderKey[],
  at: readonly PathPart[],
  { report, parse, addressForm }: EndpointContext,
): PoolMemberConfig[] {
  const known = new Set<string>();
  return endpoints.flatMap((entry, index) => {
    const file = typeof entry === "string" ? { base_url: entry } : entry;
    const place = [...at, index, ...(typeof entry === "string" ? [] : ["base_url"])];
    const baseUrl = parse(file.base_url);
    if (baseUrl === undefined) report(place, addressForm);
    else if (known.has(baseUrl)) report(place, "is there twice");
    known.add(baseUrl ?? "");
    const own = file.api_keys === undefined ? keys : keysFrom(file.api_keys, [...at, index, "api_keys"], report);
    return poolMembersAt({ baseUrl: baseUrl ?? "", weight: file.weight ?? 1, models: file.models }, own);
  });
}

/** The settings of a file that would give them, with hidden keys. */
export function poolFile({ strategy, members }: PoolConfig, hidden: string): Record<string, unknown> {
  const keyOf = ({ keyName, weight }: PoolMemberConfig) => ({
    key: hidden,
    ...(keyName !== undefined && { name: keyName }),
    weight,
  });
  const keysOf = (some: readonly PoolMemberConfig[]) => some.filter(({ apiKey }) => apiKey !== undefined).map(keyOf);
  const addresses = [...new Set(members.map(({ baseUrl }) => baseUrl))];
  if (addresses.length === 1) return { api_keys: keysOf(members), strategy };
  const endpoints = addresses.map((address) => {
    const there = members.filter(({ baseUrl }) => baseUrl === address);
    const keys = keysOf(there);
    const models = there[0]?.models;
    return {
      base_url: address,
      ...(keys.length > 0 && { api_keys: keys }),
      weight: there.reduce((total, { weight }) => total + weight, 0),
      ...(models !== undefined && { models }),
    };
  });
  return { endpoints, strategy };
}
