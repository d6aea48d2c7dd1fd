/** Loads the configuration: file, then environment, then flags, each overriding the one before. All validation errors at once. */

import { dirname, resolve } from "node:path";
import type { TObject } from "@sinclair/typebox";
import { deepFreeze } from "../lib/json/freeze.ts";
import { formatPath, type PathPart, schemaErrors } from "../lib/json/schema-errors.ts";
import type { Machine } from "../lib/process/io.ts";
import { suggest } from "../lib/text/suggest.ts";
import { type Diagnostic, YamlSource } from "../lib/yaml/yaml.ts";
import {
  blockError,
  coordinationError,
  databaseError,
  factsPlaceError,
  hostError,
  isAddress,
  originError,
} from "./address-errors.ts";
import { aliasError } from "./aliases.ts";
import type { ProviderCatalog } from "./catalog.ts";
import type { AlertsConfig, Config, StoreConfig } from "./config.ts";
import { filledIn } from "./filled.ts";
import { findFile } from "./find-file.ts";
import { formatAddress, listenersFrom, type Override } from "./listeners.ts";
import { hostedToolsFrom, mcpServersFrom } from "./mcp.ts";
import { providersFrom } from "./providers.ts";
import { fromText, resolveVariables } from "./references.ts";
import type { ValueOrigin } from "./report.ts";
import { type AlertsFile, ConfigFile, StoreFile } from "./schema.ts";
import { otherVariables, type Setting, settings } from "./settings.ts";
import { type Environment, type ReadFile, Variables, withoutPlace } from "./variables.ts";

/** The flags of the command line, unchecked. */
export type Flags = {
  readonly config?: string;
  readonly host?: string;
  readonly port?: string;
  readonly data?: string;
  readonly personas?: string;
  readonly workers?: string;
};

type ConfigInput = {
  readonly flags: Flags;
  readonly env: Environment;
  /** Absolute: what relative paths of flags and variables are from. Those in the file are from the file's folder. */
  readonly cwd: string;
  readonly readFile: ReadFile;
  /** Default: one core of a machine that can do all. */
  readonly machine?: Machine;
  /**
   * True where nobody is called and nothing is stored: a variable that a file refers to and that is not set is no error, and another text
   * stands for it.
   */
  readonly keyless?: boolean;
};

export type LoadedConfig = {
  readonly config: Config;
  /** The file that was read; absent: there is none. */
  readonly file?: string;
  /** Likely mistakes that do not prevent a start. */
  readonly warnings: readonly Diagnostic[];
  /** Settings that may well be meant, and are only mentioned where somebody asks. */
  readonly hints: readonly Diagnostic[];
  /** By paths in the file's terms (`log.level`); absent: it is the default. */
  readonly origins: ReadonlyMap<string, ValueOrigin>;
};

/** Finds where the values of a configuration came from, by their paths such as `log.level`. A default has no origin. */
export type OriginsOf = (config: Config) => LoadedConfig["origins"];

export type LoadResult = LoadedConfig | { readonly errors: readonly Diagnostic[] };

/** The "file" of an error in a flag. */
export const commandLine = "command line";

/** Settings of the file that have a flag of their own. */
const flagSettings = (["data", "personas", "workers"] as const).map(
  (name) => [name, settings.find(({ path }) => path.join() === name)!] as const,
);

/** Reads nothing but through the input. */
export function loadConfig(input: ConfigInput, catalog: ProviderCatalog): LoadResult {
  return new ConfigLoader(input, catalog).result();
}

class ConfigLoader {
  readonly #input: ConfigInput;
  readonly #catalog: ProviderCatalog;
  readonly #variables: Variables;
  readonly #errors: Diagnostic[] = [];
  readonly #warnings: Diagnostic[] = [];
  readonly #hints: Diagnostic[] = [];
  readonly #origins = new Map<string, ValueOrigin>();
  /** Paths of values that stand in for variables that are not set. */
  readonly #stoodIn = new Set<string>();
  #source = new YamlSource("", "");

  constructor(input: ConfigInput, catalog: ProviderCatalog) {
    this.#input = input;
    this.#catalog = catalog;
    this.#variables = new Variables(input.env, input.readFile);
  }

  result(): LoadResult {
    const file = this.#readFile();
    for (const [key, value] of Object.entries(file)) this.#recordOrigins(value, [key]);
    this.#overlay(file);
    const config = this.#configFrom(filledIn(ConfigFile, file));
    this.#warnOfUnknownVariables();
    const errors = [...this.#errors, ...this.#variables.errors];
    if (errors.length > 0) return { errors: errors.toSorted((a, b) => placeOf(a) - placeOf(b)) };
    const { file: path } = this.#source;
    return {
      config: deepFreeze(config),
      ...(path !== "" && { file: path }),
      warnings: this.#warnings,
      hints: this.#hints,
      origins: this.#origins,
    };
  }

  /** The file's value, without the parts that are invalid, so that the rest can be checked further. */
  #readFile(): Record<string, unknown> {
    const { flags, env, readFile } = this.#input;
    const { file: text, errors, warnings } = findFile(flags.config, env["TROUPE_CONFIG"], readFile);
    this.#errors.push(...errors);
    this.#warnings.push(...warnings);
    if (text === undefined) return {};
    this.#source = new YamlSource(text.content, text.path);
    this.#errors.push(...this.#source.errors);
    const dangling = new Set<string>();
    const report = (path: readonly PathPart[], message: string) => {
      this.#report(path, message);
      dangling.add(formatPath(path));
    };
    const standIn = this.#input.keyless ? (path: readonly PathPart[]) => this.#standIn(path) : undefined;
    const value = resolveVariables(this.#source.value ?? {}, ConfigFile, this.#variables, report, standIn);
    const wrong = this.#source.check(ConfigFile, value);
    this.#errors.push(...wrong.filter(({ path }) => !dangling.has(path) && !this.#stoodIn.has(path)));
    if (typeof value !== "object" || value === null || Array.isArray(value)) return {};
    const bad = new Set([...dangling, ...wrong.map(({ path }) => path)]);
    return validParts(value as Record<string, unknown>, bad);
  }

  /** Notes that a value is none of the operator's, so that nothing is said of it. */
  #standIn(path: readonly PathPart[]): string {
    this.#stoodIn.add(formatPath(path));
    return /url$/.test(String(path.at(-1))) ? "https://unset.invalid" : "unset";
  }

  #recordOrigins(value: unknown, path: readonly PathPart[]): void {
    const source = this.#source;
    this.#setOrigin(path, {
      where: "file",
      // Found when it is asked for: a start asks for none.
      get name() {
        const { line, column } = source.locate(path);
        return `${source.file}:${line}:${column}`;
      },
    });
    if (typeof value !== "object" || value === null || Array.isArray(value)) return;
    for (const [key, inner] of Object.entries(value)) this.#recordOrigins(inner, [...path, key]);
  }

  #setOrigin(path: readonly PathPart[], origin: ValueOrigin): void {
    this.#origins.set(formatPath(path), origin);
  }

  /** Puts the environment's values over the file's, and the flags' over both. */
  #overlay(file: Record<string, unknown>): void {
    const { env, flags } = this.#input;
    for (const setting of settings) this.#put(file, setting, env[setting.variable], fromVariable(setting.variable));
    for (const [name, setting] of flagSettings) this.#put(file, setting, flags[name], fromFlag(`--${name}`));
  }

  #put(file: Record<string, unknown>, { path, schema }: Setting, text: string | undefined, origin: ValueOrigin): void {
    if (text === undefined || text === "") return;
    const value = fromText(text, schema);
    const errors = schemaErrors(schema, value);
    for (const { path: inner, message } of errors)
      this.#errors.push(withoutPlace(origin.where, origin.name + formatPath(inner), message));
    if (errors.length > 0) return;
    let container = file;
    for (const key of path.slice(0, -1)) {
      container[key] ??= {};
      container = container[key] as Record<string, unknown>;
    }
    container[path.at(-1)!] = value;
    this.#setOrigin(path, origin);
  }

  #configFrom({ store, alerts, timeouts, ...file }: ConfigFile): Config {
    const { budgets, usage, admin } = file;
    const listen = this.#listeners(file.listen);
    return {
      ...file,
      listen,
      data: this.#dataFolder(file.data),
      ...(store !== undefined && { store: this.#store(store) }),
      ...(file.coordination !== undefined && { coordination: this.#coordination(file.coordination, store) }),
      personas: {
        folder: resolve(this.#folderOf("personas"), file.personas ?? "personas"),
        isNamed: file.personas !== undefined,
      },
      workers: this.#workers(file.workers, listen),
      providers: providersFrom(file.providers, {
        catalog: this.#catalog,
        variables: this.#variables,
        timeouts,
        report: this.#report,
        check: (schema: TObject, value, at) => {
          const errors = this.#source.check(schema, value, at).filter(({ path }) => !this.#stoodIn.has(path));
          this.#errors.push(...errors);
          return errors;
        },
        setOrigin: (path, name) => this.#setOrigin(path, { where: "environment", name }),
        warn: (diagnostic) => this.#warnings.push(diagnostic),
        hint: (path, message) => this.#hints.push(this.#source.diagnosticAt(path, message)),
      }),
      aliases: this.#aliases(file.aliases),
      mcpServers: mcpServersFrom(file.mcpServers, this.#report),
      hostedTools: hostedToolsFrom(file.hostedTools, file.mcpServers, this.#report),
      tiers: this.#tiers(file.tiers),
      budgets: { ...budgets, ...(budgets.tagHeader !== undefined && { tagHeader: budgets.tagHeader.toLowerCase() }) },
      usage: { ...usage, metadata: usage.metadata.toSorted() },
      ...(alerts !== undefined && { alerts: this.#alerts(alerts) }),
      facts: this.#facts(file.facts),
      allowedHosts: this.#checkedList(["allowed_hosts"], file.allowedHosts, hostError),
      trustedProxies: this.#checkedList(["trusted_proxies"], file.trustedProxies, blockError),
      admin: admin.trustedUserHeader === undefined ? {} : { trustedUserHeader: admin.trustedUserHeader.toLowerCase() },
      cors: { origins: this.#checkedList(["cors", "origins"], file.cors.origins, originError) },
    };
  }

  #listeners(listen: ConfigFile["listen"]): Config["listen"] {
    const host = this.#override("--host", this.#input.flags.host, "TROUPE_HOST");
    const port = this.#override("--port", this.#input.flags.port, "TROUPE_PORT");
    const listeners = listenersFrom(listen, {
      report: this.#report,
      reportOverride: ({ origin, value }, message) => {
        this.#errors.push(withoutPlace(origin.where, origin.name, `${JSON.stringify(value)} ${message}`));
      },
      host,
      port,
      folder: this.#folderOf("listen"),
      readFile: this.#input.readFile,
    });
    const names = [host, port].flatMap((override) => override?.origin.name ?? []);
    if (names.length > 0) this.#setOrigin(["listen"], { where: "command line", name: names.join(", ") });
    return listeners;
  }

  #override(flag: string, given: string | undefined, variable: string): Override | undefined {
    if (given !== undefined) return { origin: fromFlag(flag), value: given };
    const value = this.#input.env[variable];
    // Kubernetes sets TROUPE_PORT=tcp://10.0.0.1:80 in every pod beside a service named "troupe".
    // Source: https://kubernetes.io/docs/concepts/services-networking/service/#environment-variables
    if (value === undefined || value === "" || /^[a-z]+:\/\//.test(value)) return undefined;
    return { origin: fromVariable(variable), value };
  }

  /** The folder that relative paths of that key are from. */
  #folderOf(key: string): string {
    const { cwd } = this.#input;
    return this.#origins.get(key)?.where === "file" ? resolve(cwd, dirname(this.#source.file)) : cwd;
  }

  #dataFolder(given: string | undefined): string {
    // systemd may name several, separated by colons. Source: systemd.exec(5), StateDirectory=
    const byService = this.#input.env["STATE_DIRECTORY"]?.split(":")[0];
    if (given === undefined && byService) this.#setOrigin(["data"], fromVariable("STATE_DIRECTORY"));
    return resolve(this.#folderOf("data"), given ?? (byService || "data"));
  }

  #store(given: NonNullable<ConfigFile["store"]>): StoreConfig {
    const isAddress = typeof given === "string";
    const store = filledIn(StoreFile, isAddress ? { url: given } : given);
    const error = databaseError(store.url);
    if (error !== undefined) this.#report(isAddress ? ["store"] : ["store", "url"], error);
    return store;
  }

  #facts({ update, from }: ConfigFile["facts"]): Config["facts"] {
    if (from === undefined) {
      if (update === "daily") this.#report(["facts", "from"], "is missing: facts.update needs a place to ask");
      return { update };
    }
    const error = factsPlaceError(from);
    if (error !== undefined) this.#report(["facts", "from"], error);
    return { update, from: isAddress(from) ? from : resolve(this.#folderOf("facts"), from) };
  }

  /** Variables may have given one of both alone. */
  #alerts({ url = [], secret = "" }: Partial<AlertsFile>): AlertsConfig {
    const urls = typeof url === "string" ? [url] : url;
    if (urls.length === 0) this.#report(["alerts", "url"], "is required beside a secret");
    if (secret === "") this.#report(["alerts", "secret"], "is required beside an address");
    for (const [at, one] of urls.entries()) {
      const isAddress = URL.canParse(one) && /^https?:$/.test(new URL(one).protocol);
      const path = ["alerts", "url", ...(typeof url === "string" ? [] : [at])];
      if (!isAddress) this.#report(path, "must begin with https:// or http://");
    }
    if (/^whsec_/.test(secret) && !/^whsec_[A-Za-z0-9+/]+={0,2}$/.test(secret))
      this.#report(["alerts", "secret"], "must have base64 behind whsec_");
    return { urls, secret };
  }

  #coordination(url: string, store: ConfigFile["store"]): string {
    const error =
      coordinationError(url) ??
      (store === undefined ? "needs 'store: postgres://…': with SQLite one machine counts for itself" : undefined);
    if (error !== undefined) this.#report(["coordination"], error);
    return url;
  }

  #workers(given: number, listen: Config["listen"]): number {
    const { cores, sharesPorts } = this.#input.machine ?? { cores: 1, sharesPorts: true };
    const workers = given === 0 ? (sharesPorts ? cores : 1) : given;
    if (workers === 1) return workers;
    if (!sharesPorts) this.#report(["workers"], `must be 1 here: only Linux lets ${workers} processes share a port`);
    const socket = listen.find(({ address }) => address.kind === "unix");
    if (socket !== undefined)
      this.#report(
        ["workers"],
        `must be 1 beside ${formatAddress(socket.address)}: processes can't share a unix socket`,
      );
    return workers;
  }

  #aliases(aliases: Config["aliases"]): Config["aliases"] {
    for (const [name, target] of Object.entries(aliases)) {
      const error = aliasError(name, target);
      if (error !== undefined) this.#report(["aliases", name, ...error.at], error.message);
    }
    return aliases;
  }

  #tiers(tiers: Config["tiers"]): Config["tiers"] {
    const { free, pro } = tiers;
    const at = this.#origins.has("tiers.free") ? "free" : "pro";
    if (free > pro)
      this.#report(["tiers", at], `makes the free plan's number, ${free}, more than the pro plan's, ${pro}`);
    return tiers;
  }

  #checkedList(
    path: readonly string[],
    list: readonly string[],
    validate: (item: string) => string | undefined,
  ): readonly string[] {
    list.forEach((item, at) => {
      const message = validate(item);
      if (message !== undefined) this.#report([...path, at], `${JSON.stringify(item)} ${message}`);
    });
    return list;
  }

  /** Reports a value where it was given: in the environment, on the command line, or in the file. */
  readonly #report = (path: readonly PathPart[], message: string): void => {
    if (path.some((_, at) => this.#stoodIn.has(formatPath(path.slice(0, at + 1))))) return;
    const origins = path.map((_, at) => this.#origins.get(formatPath(path.slice(0, at + 1))));
    const outside = origins.find((origin) => origin !== undefined && origin.where !== "file");
    const diagnostic =
      outside === undefined
        ? this.#source.diagnosticAt(path, message)
        : withoutPlace(outside.where, outside.name, message);
    this.#errors.push(diagnostic);
  };

  /** A name close to one of ours is most likely meant to be it; others may be anybody's. */
  #warnOfUnknownVariables(): void {
    const known = [...otherVariables, ...settings.map(({ variable }) => variable)];
    for (const name of Object.keys(this.#input.env)) {
      if (!name.startsWith("TROUPE_") || known.includes(name) || this.#variables.knows(name)) continue;
      const guess = suggest(
        name.slice("TROUPE_".length),
        known.map((one) => one.slice("TROUPE_".length)),
      );
      if (guess !== undefined) {
        this.#warnings.push(
          withoutPlace("environment", name, `is not a known variable; did you mean TROUPE_${guess}?`),
        );
      }
    }
  }
}

const fromFlag = (name: string): ValueOrigin => ({ where: commandLine, name });
const fromVariable = (name: string): ValueOrigin => ({ where: "environment", name });

/** In the order of the file; what has no place there comes last. */
const placeOf = ({ line, column }: Diagnostic) => (line === 0 ? Number.MAX_SAFE_INTEGER : line * 1_000_000 + column);

/** Leaves out each top-level value that has an error in it; of the providers, each one that has. */
function validParts(value: Record<string, unknown>, invalid: ReadonlySet<string>): Record<string, unknown> {
  const isInvalid = (path: string) =>
    [...invalid].some((one) => one === path || (/^[.[]/.test(one.slice(path.length)) && one.startsWith(path)));
  const keep = (above: string[], entries: Record<string, unknown>): Record<string, unknown> =>
    Object.fromEntries(Object.entries(entries).filter(([key]) => !isInvalid(formatPath([...above, key]))));
  const { providers, ...rest } = value;
  const isMapping = typeof providers === "object" && providers !== null && !invalid.has("providers");
  return {
    ...keep([], rest),
    ...(isMapping && { providers: keep(["providers"], providers as Record<string, unknown>) }),
  };
}
