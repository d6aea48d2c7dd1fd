/**
 * Reads the example cases of test/fixtures: what a client asks of a provider, what must reach the upstream, what the upstream
 * answers, and what the client gets. `<family>/<case>.yaml` holds one case; `<family>/errors.yaml` (the upstream's errors) and
 * `<family>/validation-errors.yaml` (requests that cannot be sent) hold tables: `cases` by name, and above it the keys that hold
 * for each case that does not say otherwise. A family is a provider (`xai`) or a mode of it (`xai-responses`).
 */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { basename, resolve } from "node:path";
import type { ModelRule } from "../../src/facts/rules.ts";
import type { ChunkBody, CompletionBody } from "../../src/protocols/chat/schema.ts";
import type {
  Account,
  AnsweredCall,
  InlineMedia,
  RemoteProvider,
  UpstreamRequest,
} from "../../src/providers/provider.ts";
import { providers } from "../../src/providers/registry.ts";
import { Credentials } from "../../src/upstream/credentials/credentials.ts";
import { sseResponse } from "./upstream-server.ts";

/** An error of the upstream, or (`invalid`) an answer that is neither a completion nor an error. */
export type ExpectedError = { readonly status?: number; readonly payload?: string; readonly invalid?: true };

export type FixtureCase = {
  /** `<family>/<case>` */
  readonly path: string;
  readonly name: string;
  readonly description: string;
  /** The public page that the example follows. */
  readonly source: string;
  /** The upstream's name of the model. */
  readonly model: string;
  /** What a client sends, without `model`. */
  readonly request: Readonly<Record<string, unknown>>;
  /** Provider options of the call. */
  readonly extras?: Readonly<Record<string, unknown>>;
  readonly account?: Partial<Account> & { readonly apiKey?: string };
  /** What was fetched beforehand, by URL. */
  readonly media?: Readonly<Record<string, InlineMedia>>;
  /** What follows the base URL. */
  readonly url?: string;
  /** Headers that must be sent; null for one that must not. */
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly thinking_requested?: boolean;
  /** The body that must reach the upstream; absent where only the answer matters. */
  readonly upstream_request?: unknown;
  readonly form?: "json" | "sse";
  /** Set where the answer's lines end in CRLF, which a YAML block cannot hold. */
  readonly newlines?: "crlf";
  /** The answer's text; absent where only the request matters. */
  readonly upstream?: string;
  /** The error that `encode` must throw. */
  readonly validation_error?: { readonly status: number; readonly param: string };
  readonly expected?: {
    /** A plain answer, or a stream's chunks put together. */
    readonly completion?: CompletionBody;
    readonly chunks?: ChunkBody[];
    /** `payload` defaults to the whole answer where that is plain. */
    readonly error?: ExpectedError;
    readonly upstream_response_id?: string;
  };
};

export type AnsweredCase = FixtureCase & Required<Pick<FixtureCase, "form" | "upstream" | "expected">>;

export type Family = {
  readonly folder: string;
  readonly provider: RemoteProvider;
  /** Provider options that switch the mode on. */
  readonly extras: Readonly<Record<string, unknown>>;
};

const root = resolve(import.meta.dir, "../fixtures");
const folders = readdirSync(root).sort();
const tables = ["errors", "validation-errors"];
const required = ["description", "source", "model", "request"];
const known = new Set(
  [...required, "extras", "account", "media", "url", "headers", "thinking_requested", "upstream_request"].concat([
    "form",
    "newlines",
    "upstream",
    "validation_error",
    "expected",
  ]),
);
const read = new Map<string, readonly FixtureCase[]>();

/** Every remote provider with fixtures, in the registry's order, its modes after it. */
export function fixtureFamilies(): Family[] {
  return providers.flatMap((provider) => {
    if (provider.kind !== "remote") return [];
    const own = folders.filter((folder) => providerOf(folder) === provider.name);
    return own.map((folder) => ({ folder, provider, extras: modeExtras(folder) }));
  });
}

/** The provider's name in that of a folder. */
function providerOf(folder: string): string | undefined {
  const names = [folder, folder.slice(0, Math.max(0, folder.indexOf("-")))];
  return names.find((name) => providers.some((provider) => provider.name === name));
}

function modeExtras(folder: string): Record<string, unknown> {
  const file = fieldFile(folder);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")).extras ?? {}) : {};
}

/** The file that says which request fields the family sends. */
export function fieldFile(folder: string): string {
  return resolve(root, folder, "fields.json");
}

/** The cases of a family, by name. @throws Error that names the file, where it is no case */
export function fixtureCases(folder: string): readonly FixtureCase[] {
  const cases = read.get(folder) ?? readCases(folder);
  read.set(folder, cases);
  return cases;
}

/** The cases of a family whose upstream answers, in the given form or any. */
export function answeredCases(folder: string, form?: "json" | "sse"): AnsweredCase[] {
  return fixtureCases(folder).filter(
    (one): one is AnsweredCase => one.upstream !== undefined && (form === undefined || one.form === form),
  );
}

/** Rules of the operator's that a provider's answered cases need, each for the case's model alone. */
export function answeredRules(provider: string): readonly ModelRule[] {
  const own = fixtureFamilies().filter((family) => family.provider.name === provider);
  const cases = own.flatMap(({ folder }) => answeredCases(folder));
  return cases.flatMap(({ model, account }) => (account?.modelRules ?? []).map((rule) => ({ ...rule, match: model })));
}

/** @param path `<family>/<case>` @throws Error where there is none */
export function fixtureCase(path: string): FixtureCase {
  const found = fixtureCases(path.slice(0, path.indexOf("/"))).find((one) => one.path === path);
  if (found === undefined) throw new Error(`no fixture case ${path}`);
  return found;
}

/** A case whose upstream answers. @param path `<family>/<case>` @throws Error where there is none */
export function answeredCase(path: string): AnsweredCase {
  const found = fixtureCase(path);
  if (found.upstream === undefined) throw new Error(`fixture case ${path} has no answer`);
  return found as AnsweredCase;
}

/** The upstream's answer as it comes over the wire, a stream event by event. @param path `<family>/<case>` */
export function exampleResponse(path: string, headers: Record<string, string> = {}): Response {
  const { form, upstream } = answeredCase(path);
  if (form === "sse") return sseResponse(upstream.split(/(?<=\n\r?\n)/), headers);
  return new Response(upstream, { headers: { "content-type": "application/json", ...headers } });
}

/** The call of a case, as the provider gets it. @param request the checked form of the case's request */
export function callOf(one: FixtureCase, { provider, extras }: Family, request = one.request): AnsweredCall {
  const { apiKey: _, ...account } = one.account ?? {};
  return {
    model: one.model,
    request: { ...request, model: `${provider.name}/${one.model}` } as AnsweredCall["request"],
    extras: { ...extras, ...one.extras },
    account: {
      name: provider.name,
      baseUrl: provider.baseUrl || "https://upstream.test",
      models: [],
      options: {},
      modelRules: [],
      ...account,
    },
    media: new Map(Object.entries(one.media ?? {})),
    answerId: "chatcmpl-1",
  };
}

/** The headers that a case's request goes out with. */
export function signedHeaders(
  { account = {} }: FixtureCase,
  { keyPlace = {} }: RemoteProvider,
  { url, headers = {} }: UpstreamRequest,
): Readonly<Record<string, string>> {
  const credentials = new Credentials({ apiKey: "test-key", headers: {}, options: {}, ...account }, keyPlace);
  return credentials.keyed({ method: "POST", url, headers }).headers;
}

function readCases(folder: string): FixtureCase[] {
  if (!folders.includes(folder)) throw new Error(`no fixtures of ${folder}`);
  const files = readdirSync(resolve(root, folder)).filter((file) => file !== "fields.json");
  return files.flatMap((file) => casesIn(folder, file)).sort((a, b) => (a.name < b.name ? -1 : 1));
}

function casesIn(folder: string, file: string): FixtureCase[] {
  const name = basename(file, ".yaml");
  const place = `test/fixtures/${folder}/${file}`;
  if (name === file) throw new Error(`${place} is no case: write ${name}.yaml`);
  const content = Bun.YAML.parse(readFileSync(resolve(root, folder, file), "utf8")) as Record<string, unknown>;
  if (!tables.includes(name)) return [caseOf(place, folder, name, content)];
  const { cases, ...shared } = content;
  return Object.entries(cases as Record<string, object>).map(([own, row]) =>
    caseOf(`${place}: ${own}`, folder, own, { ...shared, ...row }),
  );
}

function caseOf(place: string, folder: string, name: string, content: Record<string, unknown>): FixtureCase {
  const unknown = Object.keys(content).filter((key) => !known.has(key));
  if (unknown.length > 0) throw new Error(`${place}: unknown ${unknown.join(", ")}`);
  const missing = required.filter((key) => !(key in content));
  const { form, newlines, upstream, expected } = content;
  if ((upstream === undefined) !== (form === undefined)) missing.push(form === undefined ? "form" : "upstream");
  if (upstream !== undefined && expected === undefined) missing.push("expected");
  if (missing.length > 0) throw new Error(`${place}: ${missing.join(", ")} missing`);
  const text = newlines === "crlf" ? String(upstream).replaceAll("\n", "\r\n") : upstream;
  return {
    path: `${folder}/${name}`,
    name,
    ...content,
    ...(text === undefined ? {} : { upstream: text }),
  } as FixtureCase;
}
