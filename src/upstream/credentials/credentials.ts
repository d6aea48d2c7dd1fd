/**
 * Says to an upstream whose account a call is on: the one place that reads keys. Encoders write requests without them; whoever sends
 * one has it signed last, so that a signature could cover the very bytes that go out.
 */
import type { ProviderConfig } from "../../config/config.ts";
import type { HttpRequest } from "../../lib/http/client.ts";
import type { KeyPlace } from "../../providers/provider.ts";
import { maskedSigner, type Signer } from "./signer.ts";

/** Headers that are lists in each format that has them: what is said of one is added to the others'. */
const listHeaders: ReadonlySet<string> = new Set(["anthropic-beta", "openai-beta"]);

type Secrets = Pick<ProviderConfig, "headers" | "options"> & { readonly apiKey?: string | undefined };

/** An operator's headers may hold keys too, but for those that list features. The beginning that makes a key a token stays, as it decides where the key stands. */
function maskedSecrets({ apiKey, headers, options }: Secrets, { tokens }: KeyPlace): Secrets {
  const begin = tokens !== undefined && apiKey?.startsWith(tokens.begin) === true ? tokens.begin : "";
  return {
    apiKey: apiKey && `${begin}***`,
    headers: Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name, listHeaders.has(name) ? value : "***"]),
    ),
    options,
  };
}

/** Signs the requests of one account. Shows nothing of itself where it is logged or written as JSON. */
export class Credentials {
  readonly #key: string | undefined;
  /** The key's headers, and the operator's, which go before them. */
  readonly #headers: readonly (readonly [name: string, value: string])[];
  /** The key's name in the query, where it stands there. */
  readonly #parameter: string | undefined;

  readonly #secrets: Secrets;
  readonly #place: KeyPlace;
  /** The same for requests that have the key in another place, once there was one. */
  #elsewhere: Map<KeyPlace, Credentials> | undefined;
  /** Signs last, where there is no key. */
  readonly signer: Signer | undefined;
  /** The headers that were signed last, and what became of them: nearly all requests share one object of them. */
  #last: { readonly unsigned: HttpRequest["headers"]; readonly signed: HttpRequest["headers"] } | undefined;

  /** @param signer of an account that authenticates without a key */
  constructor(secrets: Secrets, place: KeyPlace, signer?: Signer) {
    const { apiKey, headers, options } = secrets;
    this.#secrets = secrets;
    this.#place = place;
    this.signer = signer;
    this.#key = apiKey || undefined;
    const { header, query, tokens } = place;
    const isToken = tokens !== undefined && apiKey?.startsWith(tokens.begin) === true;
    const isBearer = isToken || options["bearer"] === true || (header ?? query) === undefined;
    const said: Record<string, string> = {};
    if (apiKey !== undefined && isBearer) said["authorization"] = `Bearer ${apiKey}`;
    else if (apiKey !== undefined && header !== undefined) said[header] = apiKey;
    if (isToken) Object.assign(said, tokens.headers);
    this.#headers = Object.entries(joined(said, Object.entries(headers)));
    this.#parameter = isBearer ? undefined : query;
  }

  /**
   * @param request as it goes out, but for the key and the operator's own headers
   * @param place of the key, where the request names one
   * @returns the request with them, which a `signer` is to sign yet
   */
  keyed(request: HttpRequest, place?: KeyPlace): HttpRequest {
    if (place !== undefined && place !== this.#place) return this.#at(place).keyed(request);
    const url =
      this.#parameter === undefined || this.#key === undefined
        ? request.url
        : `${request.url}${request.url.includes("?") ? "&" : "?"}${this.#parameter}=${encodeURIComponent(this.#key)}`;
    if (this.#last?.unsigned !== request.headers)
      this.#last = { unsigned: request.headers, signed: joined(request.headers, this.#headers) };
    return { method: request.method, url, headers: this.#last.signed, body: request.body };
  }

  /** The place that a signer's secret comes from, in words; undefined for a key's account. @throws ApiError where there is none */
  source(): Promise<string> | undefined {
    return this.signer?.source();
  }

  /** The upstream answered a signed request with 401 or 403. */
  refused(headers: HttpRequest["headers"]): void {
    this.signer?.refused(headers);
  }

  #at(place: KeyPlace): Credentials {
    this.#elsewhere ??= new Map();
    const known = this.#elsewhere.get(place) ?? new Credentials(this.#secrets, place, this.signer);
    this.#elsewhere.set(place, known);
    return known;
  }

  /** Signs the same, with `***` for each secret: for who shows requests. */
  masked(): Credentials {
    return new Credentials(maskedSecrets(this.#secrets, this.#place), this.#place, this.signer && maskedSigner);
  }

  /** True if a text holds the key or a signer's secret, so that nobody else may see it. */
  isIn(text: string): boolean {
    return (this.#key !== undefined && text.includes(this.#key)) || this.signer?.isIn(text) === true;
  }
}

/** Headers with those of more: in the place of what has the same name, or added to it where it is a list. */
function joined(
  headers: Readonly<Record<string, string>>,
  more: readonly (readonly [name: string, value: string])[],
): Record<string, string> {
  const all: Record<string, string> = { ...headers };
  for (const [name, value] of more) {
    const before = listHeaders.has(name) ? all[name] : undefined;
    all[name] = before ? [...new Set([...before.split(","), ...value.split(",")])].join(",") : value;
  }
  return all;
}
