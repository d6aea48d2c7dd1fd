/**
 * Makes a configuration of one of LiteLLM's proxy. What has no counterpart is returned with its place: nothing is left out in silence.
 * Sources: https://docs.litellm.ai/docs/proxy/configs, https://docs.litellm.ai/docs/proxy/config_settings,
 * https://docs.litellm.ai/docs/proxy/reliability, https://docs.litellm.ai/docs/routing, https://docs.litellm.ai/docs/proxy/users
 */
import { isObject } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import type { Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";
import { adviceFor } from "./advice.ts";
import { budgetsOf, newKeys } from "./budgets.ts";
import { endpointFieldsOf } from "./places.ts";
import { baseUrlOf, optionNames, strategiesOf, upstreamOf } from "./providers.ts";

type Values = Record<string, unknown>;

export type Converted = {
  /** As `troupe.yaml` has it. */
  readonly config: Values;
  /** In the order of their places. */
  readonly omitted: readonly Diagnostic[];
  readonly models: number;
};

/** One entry of `model_list`. */
type Deployment = {
  readonly group: string;
  readonly dialect: string;
  readonly model: string;
  readonly baseUrl: string | undefined;
  readonly key: string | undefined;
  /** All else of the account. */
  readonly settings: Values;
  readonly weight: number | undefined;
  readonly order: number | undefined;
  readonly price: { readonly input?: number; readonly output?: number } | undefined;
};

/** What a group of deployments is called by here. */
type Target = { readonly id: string; readonly weight: number };

/** Reads `os.environ/NAME`, LiteLLM's way to name a variable. */
const variable = /^os\.environ\/([A-Za-z_][A-Za-z0-9_]*)$/;
const maxModels = 16;

/** @param source whose value is a mapping @param dialects that there are here */
export function convertLiteLlm(source: YamlSource, dialects: ReadonlySet<string>): Converted {
  return new Conversion(source, dialects).convert();
}

class Conversion {
  readonly #source: YamlSource;
  readonly #dialects: ReadonlySet<string>;
  readonly #root: Values;
  readonly #omitted: Diagnostic[] = [];
  readonly #providers: Record<string, Values> = {};
  /** Names of accounts by what they are. */
  readonly #accounts = new Map<string, string>();
  /** Variables for keys that stand in the file. */
  readonly #keys = new Map<string, string>();
  readonly #prices = new Map<string, Values>();

  constructor(source: YamlSource, dialects: ReadonlySet<string>) {
    this.#source = source;
    this.#dialects = dialects;
    this.#root = source.value as Values;
  }

  convert(): Converted {
    const groups = this.#groups();
    const router = this.#section("router_settings");
    const library = this.#section("litellm_settings");
    const general = this.#section("general_settings");
    const strategy = this.#strategy(router);
    const targets = new Map([...groups].map(([name, all]) => [name, this.#targetsOf(all, strategy)]));
    const fallbacks = this.#fallbacks(router, library, targets);
    const aliases: Values = {};
    for (const [name, own] of targets) this.#addAlias(aliases, name, name, own, fallbacks, groups, strategy);
    for (const [alias, name] of this.#groupAliases(router, targets))
      this.#addAlias(aliases, alias, name, targets.get(name)!, fallbacks, groups, strategy);
    const timeout =
      this.#number(["router_settings", "timeout"]) ?? this.#number(["litellm_settings", "request_timeout"]);
    const budgets = budgetsOf({
      at: (path) => this.#at(path),
      number: (path) => this.#number(path),
      omit: (path, message) => this.#omit(path, message),
      accounts: (dialect) =>
        Object.entries(this.#providers).flatMap(([name, one]) =>
          ((one as Values)["dialect"] ?? name) === dialect ? [name] : [],
        ),
      targets,
    });
    this.#omitRest(["router_settings"], router, [...usedOfRouter, "timeout", "provider_budget_config"]);
    this.#omitRest(["litellm_settings"], library, [
      ...["fallbacks", "default_fallbacks", "request_timeout", "max_budget", "budget_duration", newKeys],
    ]);
    this.#omitRest(["general_settings"], general, []);
    this.#omitRest([], this.#root, [
      ...["model_list", "credential_list", "router_settings", "litellm_settings", "general_settings"],
    ]);
    const config: Values = {
      listen: [{ address: "127.0.0.1:4000", surfaces: ["gateway"] }],
      providers: this.#providers,
      ...(Object.keys(aliases).length > 0 && { aliases }),
      ...(timeout !== undefined && { timeouts: { first_byte_seconds: timeout } }),
      ...(budgets !== undefined && { budgets }),
      ...(this.#prices.size > 0 && { prices: [...this.#prices.values()] }),
    };
    const omitted = this.#omitted.toSorted((a, b) => a.line - b.line || a.column - b.column);
    return { config, omitted, models: targets.size };
  }

  #omit(path: readonly PathPart[], message = adviceFor(path)): void {
    const place = this.#source.locateKey(path);
    this.#omitted.push({ file: this.#source.file, ...place, path: formatPath(path), message });
  }

  #omitRest(path: readonly PathPart[], values: Values, used: readonly string[]): void {
    for (const name of Object.keys(values)) if (!used.includes(name)) this.#omit([...path, name]);
  }

  #section(name: string): Values {
    const value = this.#root[name];
    if (isObject(value)) return value;
    if (value !== undefined && value !== null) this.#omit([name], "is no mapping");
    return {};
  }

  #at(path: readonly PathPart[]): unknown {
    return path.reduce<unknown>((value, part) => (value as Values | undefined)?.[part], this.#root);
  }

  #number(path: readonly PathPart[]): number | undefined {
    const value = this.#at(path);
    if (value === undefined || value === null) return undefined;
    if (typeof value === "number" && value > 0) return value;
    this.#omit(path, "is no number above 0");
    return undefined;
  }

  /** A text as it stands in a configuration here: variables by their names. */
  #text(path: readonly PathPart[]): string | undefined {
    const value = this.#at(path);
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "string" && typeof value !== "number") {
      this.#omit(path, "is no text");
      return undefined;
    }
    const [, name] = variable.exec(String(value)) ?? [];
    return name === undefined ? String(value).replaceAll("${", () => "$${") : `\${${name}}`;
  }

  /** A key by the name of a variable: one that stands in the file is not copied. */
  #key(path: readonly PathPart[]): string | undefined {
    const value = this.#at(path);
    const text = this.#text(path);
    if (text === undefined || typeof value !== "string" || variable.test(value)) return text;
    const name = this.#keys.get(value) ?? `IMPORTED_KEY_${this.#keys.size + 1}`;
    this.#keys.set(value, name);
    this.#omit(path, `is not copied: put it into the variable ${name}`);
    return `\${${name}}`;
  }

  #groups(): Map<string, Deployment[]> {
    const list = this.#root["model_list"];
    const groups = new Map<string, Deployment[]>();
    for (const [at, entry] of (Array.isArray(list) ? list : []).entries()) {
      const found = isObject(entry) ? this.#deployment(entry, ["model_list", at]) : undefined;
      if (found === undefined) continue;
      groups.set(found.group, [...(groups.get(found.group) ?? []), found]);
    }
    return groups;
  }

  #deployment(entry: Values, path: readonly PathPart[]): Deployment | undefined {
    const { model_name: group, litellm_params: given, model_info: about } = entry;
    const params = isObject(given) ? given : {};
    const info = isObject(about) ? about : {};
    const { model } = params;
    if (typeof group !== "string" || typeof model !== "string") {
      this.#omit(path, "needs a model_name, and a model in litellm_params");
      return undefined;
    }
    const inParams = [...path, "litellm_params"];
    const { custom_llm_provider: maker } = params;
    const isNamed = typeof maker !== "string" || model.startsWith(`${maker}/`);
    const found = upstreamOf(isNamed ? model : `${maker}/${model}`);
    if (found === undefined || !this.#dialects.has(found.dialect)) {
      const [what, place] = isNamed ? [model, "model"] : [maker, "custom_llm_provider"];
      this.#omit(
        [...inParams, place],
        `'${what}' is of a provider that is not known here; one of OpenAI's format can be set up by hand`,
      );
      return undefined;
    }
    const at = this.#parametersOf(params, inParams);
    if (at === undefined) return undefined;
    const { dialect, name } = found;
    const options = optionNames[dialect] ?? {};
    this.#omitRest(path, entry, ["model_name", "litellm_params", "model_info"]);
    this.#omitRest(inParams, params, [...usedOfParams, ...Object.keys(options)]);
    this.#omitRest([...path, "model_info"], info, ["mode", ...costs]);
    const baseUrl = this.#text(at(params["api_base"] == null && params["base_url"] != null ? "base_url" : "api_base"));
    // Without it the calls, and the key, would go to the maker's public address.
    if (baseUrl === undefined && this.#at(at("api_base")) != null) return undefined;
    return {
      group,
      dialect,
      model: name,
      baseUrl: baseUrl === undefined ? undefined : baseUrlOf(dialect, baseUrl),
      key: this.#key(at("api_key")),
      settings: this.#settings(inParams, params, options, at),
      weight: this.#number([...inParams, "weight"]),
      order: typeof params["order"] === "number" ? params["order"] : undefined,
      price: this.#price(path, inParams),
    };
  }

  /**
   * Where a parameter of a deployment stands: beside its model, else in the credential that it names.
   * Source: https://docs.litellm.ai/docs/proxy/configs, under credential_list
   * @returns undefined where there is no such credential: what would be called without it is another upstream
   */
  #parametersOf(params: Values, inParams: readonly PathPart[]): ((name: string) => readonly PathPart[]) | undefined {
    const { litellm_credential_name: wanted } = params;
    if (wanted === undefined || wanted === null) return (name) => [...inParams, name];
    const list = this.#root["credential_list"];
    const at = Array.isArray(list)
      ? list.findIndex(
          (one) => isObject(one) && one["credential_name"] === wanted && isObject(one["credential_values"]),
        )
      : -1;
    if (at < 0) {
      this.#omit(
        [...inParams, "litellm_credential_name"],
        `'${String(wanted)}' is not in credential_list: the model is left out`,
      );
      return undefined;
    }
    const inCredential = ["credential_list", at, "credential_values"];
    return (name) => (params[name] == null ? [...inCredential, name] : [...inParams, name]);
  }

  #settings(
    path: readonly PathPart[],
    params: Values,
    names: Readonly<Record<string, string>>,
    at: (name: string) => readonly PathPart[],
  ): Values {
    const options = Object.entries(names).flatMap(([theirs, ours]) => {
      const text = this.#text(at(theirs));
      return text === undefined ? [] : [[ours, text]];
    });
    const { extra_headers: given } = params;
    const organization = this.#text([...path, "organization"]);
    const headers = [
      ...Object.keys(isObject(given) ? given : {}).map((name) => [name, this.#text([...path, "extra_headers", name])]),
      ...(organization === undefined ? [] : [["OpenAI-Organization", organization]]),
    ].filter(([, value]) => value !== undefined);
    const timeout = this.#number([...path, "timeout"]);
    return {
      ...(options.length > 0 && { options: Object.fromEntries(options) }),
      ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
      ...(timeout !== undefined && { timeouts: { first_byte_seconds: timeout } }),
    };
  }

  /** Dollars for a million tokens. Source: https://docs.litellm.ai/docs/proxy/custom_pricing */
  #price(path: readonly PathPart[], inParams: readonly PathPart[]): Deployment["price"] {
    const costOf = (name: string) => {
      for (const place of [
        [...inParams, name],
        [...path, "model_info", name],
      ]) {
        const value = this.#at(place);
        if (typeof value === "number" && value >= 0) return Number((value * 1_000_000).toPrecision(12));
      }
      return undefined;
    };
    const [input, output] = costs.map(costOf);
    if (input === undefined && output === undefined) return undefined;
    return { ...(input !== undefined && { input }), ...(output !== undefined && { output }) };
  }

  #strategy(router: Values): string | undefined {
    const { routing_strategy: given } = router;
    if (given === undefined || given === null) return undefined;
    const found = strategiesOf[String(given)];
    const path = ["router_settings", "routing_strategy"];
    if (found === undefined) this.#omit(path, `'${given}' has no counterpart: conversations stay where they are`);
    else if (String(given).startsWith("usage"))
      this.#omit(path, "becomes least_busy: calls under way are counted, not tokens");
    return found;
  }

  /** Deployments of one model in one dialect are keys and endpoints of one account. */
  #targetsOf(all: readonly Deployment[], strategy: string | undefined): Target[] {
    const ordered = all.toSorted((a, b) => (a.order ?? 1) - (b.order ?? 1));
    const alike = Map.groupBy(ordered, ({ dialect, model, baseUrl, key, settings }) =>
      JSON.stringify([dialect, model, baseUrl === undefined, key === undefined, settings]),
    );
    return [...alike.values()].map((members) => {
      const id = `${this.#account(members, strategy)}/${members[0]!.model}`;
      const { price } = members[0]!;
      if (price !== undefined) this.#prices.set(id, { match: id, ...price });
      return { id, weight: members.reduce((sum, { weight = 1 }) => sum + weight, 0) };
    });
  }

  /** @returns the name of the account with these keys and endpoints, which is made where it is not there yet */
  #account(members: readonly Deployment[], strategy: string | undefined): string {
    const { dialect, settings } = members[0]!;
    const places = [...new Map(members.map((one) => [JSON.stringify([one.baseUrl, one.key]), one])).values()];
    const parts = places.map(({ baseUrl, key, weight }) => ({ baseUrl, key, weight: weight ?? 1 }));
    const isOrdered = members.some(({ order }) => order !== undefined);
    const identity = JSON.stringify([dialect, settings, parts, isOrdered]);
    const known = this.#accounts.get(identity);
    if (known !== undefined) return known;
    let name = dialect;
    for (let next = 2; Object.hasOwn(this.#providers, name); next += 1) name = `${dialect}-${next}`;
    this.#accounts.set(identity, name);
    this.#providers[name] = {
      ...(name !== dialect && { dialect }),
      ...endpointFieldsOf(parts),
      ...(parts.length > 1 && (isOrdered || strategy !== undefined) && { strategy: isOrdered ? "first" : strategy }),
      ...settings,
    };
    return name;
  }

  /** @returns for each group the groups that are asked when it fails */
  #fallbacks(router: Values, library: Values, targets: ReadonlyMap<string, unknown>): Map<string, string[]> {
    const found = new Map<string, string[]>();
    const known = (name: unknown, path: readonly PathPart[]) => {
      if (typeof name === "string" && targets.has(name)) return [name];
      this.#omit(path, `'${String(name)}' is no model of this file that is carried over`);
      return [];
    };
    for (const [section, values] of [
      ["router_settings", router],
      ["litellm_settings", library],
    ] as const) {
      const lists = values["fallbacks"];
      for (const [at, entry] of (Array.isArray(lists) ? lists : []).entries()) {
        for (const [name, others] of Object.entries(isObject(entry) ? entry : {})) {
          const path = [section, "fallbacks", at, name];
          if (!targets.has(name)) this.#omit(path, "is no model of this file that is carried over");
          const names = (Array.isArray(others) ? others : []).flatMap((one, to) => known(one, [...path, to]));
          found.set(name, names);
        }
      }
      const usual = values["default_fallbacks"];
      const names = (Array.isArray(usual) ? usual : []).flatMap((one, at) =>
        known(one, [section, "default_fallbacks", at]),
      );
      for (const name of names.length > 0 ? targets.keys() : []) if (!found.has(name)) found.set(name, names);
    }
    return found;
  }

  #groupAliases(router: Values, targets: ReadonlyMap<string, unknown>): [alias: string, group: string][] {
    const { model_group_alias: given } = router;
    return Object.entries(isObject(given) ? given : {}).flatMap(([alias, value]): [string, string][] => {
      const name = isObject(value) ? value["model"] : value;
      if (typeof name === "string" && targets.has(name)) return [[alias, name]];
      this.#omit(["router_settings", "model_group_alias", alias], "names no model of this file that is carried over");
      return [];
    });
  }

  #addAlias(
    aliases: Values,
    alias: string,
    group: string,
    own: readonly Target[],
    fallbacks: ReadonlyMap<string, readonly string[]>,
    groups: ReadonlyMap<string, readonly Deployment[]>,
    strategy: string | undefined,
  ): void {
    const place: PathPart[] =
      alias === group
        ? ["model_list", this.#indexOf(group), "model_name"]
        : ["router_settings", "model_group_alias", alias];
    const others = (fallbacks.get(group) ?? []).flatMap((name) => this.#targetsOf(groups.get(name)!, strategy));
    const all = [...new Map([...own, ...others].map((target) => [target.id, target])).values()];
    const [{ id }] = all as [Target, ...Target[]];
    const fault = alias.includes("/")
      ? "those with '/' are <provider>/<model>"
      : /\s/.test(alias)
        ? "it has white space"
        : undefined;
    if (fault !== undefined) {
      if (all.length > 1 || alias !== id) this.#omit(place, `can't be a name here: ${fault}. Call ${id}`);
      return;
    }
    if (alias.includes("*") && all.length > 1) this.#omit(place, `may have one model as it has a '*': ${id}`);
    if (all.length === 1 || alias.includes("*")) {
      const stars = alias.split("*").length - 1;
      if (stars > 1) this.#omit(place, "may have one '*' at most");
      else aliases[alias] = id;
      return;
    }
    const isOrdered = others.length > 0 || groups.get(group)!.some(({ order }) => order !== undefined);
    if (others.length > 0 && own.length > 1)
      this.#omit(place, "has several models and fallbacks: they are tried in their order, and not balanced");
    if (all.length > maxModels) this.#omit(place, `has more than ${maxModels} models: the first ones are carried over`);
    const weights = all.map(({ weight }) => weight);
    aliases[alias] = {
      models: all.slice(0, maxModels).map((target) => target.id),
      ...(isOrdered ? { strategy: "first" } : strategy !== undefined && { strategy }),
      ...(!isOrdered && new Set(weights).size > 1 && { weights: weights.slice(0, maxModels) }),
    };
  }

  #indexOf(group: string): number {
    const list = this.#root["model_list"] as readonly unknown[];
    return list.findIndex((entry) => isObject(entry) && entry["model_name"] === group);
  }
}

const usedOfRouter = ["routing_strategy", "fallbacks", "default_fallbacks", "model_group_alias"];
const costs = ["input_cost_per_token", "output_cost_per_token"];
const usedOfParams = [
  ...["model", "custom_llm_provider", "litellm_credential_name", "api_base", "base_url", "api_key"],
  ...["weight", "order", "extra_headers", "organization", "timeout", ...costs],
];
