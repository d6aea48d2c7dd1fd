/**
 * Fetches the media that a caller named by URL, for upstreams that take bytes only. The caller chooses where this process connects
 * to, so nothing but the public internet may be reached: each host's addresses are looked up here, all of them must be
 * public, and the connection goes to the very address that was checked, on every hop of a redirect.
 * Source: https://cheatsheetseries.owasp.org/cheatsheets/Server_Side_Request_Forgery_Prevention_Cheat_Sheet.html
 */

import type { PeerCertificate } from "node:tls";
import type { TLSOptions } from "bun";
import { isUntyped, sniffedType } from "../lib/files/media-types.ts";
import { AddressBlocks } from "../lib/http/addresses.ts";
import { type Fetch, provesEnd } from "../lib/http/fetch-transport.ts";
import { isIP } from "../lib/http/ip.ts";
import { checkAlternativeNames } from "../lib/http/tls-identity.ts";
import { type Clock, systemClock } from "../lib/time/clock.ts";
import { ApiError } from "../protocols/errors.ts";
import type { InlineMedia, RemoteMedia } from "../providers/provider.ts";
import { ClientDisconnected } from "./client.ts";

type MediaLimits = {
  /** URLs of one request. */
  readonly items: number;
  readonly itemBytes: number;
  /** All items of one request together. */
  readonly totalBytes: number;
  /** Items of one request that are fetched at the same time. */
  readonly concurrent: number;
  /** For one item, from the look-up of its host to its last byte. */
  readonly seconds: number;
  readonly redirects: number;
};

const defaultLimits: MediaLimits = {
  items: 16,
  itemBytes: 20 * 1024 * 1024,
  totalBytes: 48 * 1024 * 1024,
  concurrent: 4,
  seconds: 10,
  redirects: 3,
};

/** All addresses of a host. */
export type Resolve = (host: string) => Promise<readonly string[]>;

const resolveBySystem: Resolve = async (host) => {
  // Imported late: most servers fetch no media.
  const { lookup } = await import("node:dns/promises");
  return (await lookup(host, { all: true })).map(({ address }) => address);
};

export type MediaOptions = {
  /** Lets URLs lead anywhere, one's own machine included: for development and tests. */
  readonly allowPrivate?: boolean;
  /** True if a connection may be made; `allowPrivate` decides when it is absent. */
  readonly permits?: (address: string, port: number) => boolean;
  readonly resolve?: Resolve;
  readonly limits?: Partial<MediaLimits>;
  readonly clock?: Clock;
  readonly fetch?: Fetch;
};

export class MediaFetcher {
  readonly #permits: (address: string, port: number) => boolean;
  readonly #resolve: Resolve;
  readonly #limits: MediaLimits;
  readonly #clock: Clock;
  readonly #fetch: Fetch;

  constructor(options: MediaOptions = {}) {
    this.#permits = options.permits ?? (options.allowPrivate === true ? () => true : isPublicDestination);
    this.#resolve = options.resolve ?? resolveBySystem;
    this.#limits = { ...defaultLimits, ...options.limits };
    this.#clock = options.clock ?? systemClock;
    this.#fetch = options.fetch ?? fetch;
  }

  /**
   * Fetches each URL once.
   * @throws ApiError invalid_value naming the place of the URL that can't be had; ClientDisconnected when `signal` aborts
   */
  async fetch(wanted: readonly RemoteMedia[], signal: AbortSignal): Promise<ReadonlyMap<string, InlineMedia>> {
    const waiting = new Map(wanted.map((media) => [media.url, media])).values().toArray();
    const { items, concurrent, totalBytes } = this.#limits;
    const excess = waiting[items];
    if (excess !== undefined) throw ApiError.invalidValue(excess.param, `A request may name at most ${items} URLs.`);
    const fetched = new Map<string, InlineMedia>();
    const budget: Budget = { left: totalBytes };
    const group = new AbortController();
    const work = async () => {
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
        fetched.set(next.url, await this.#item(next, budget, AbortSignal.any([signal, group.signal])));
      }
    };
    try {
      await Promise.all(Array.from({ length: Math.min(concurrent, waiting.length) }, work));
    } finally {
      group.abort();
    }
    return fetched;
  }

  async #item({ url, param }: RemoteMedia, budget: Budget, signal: AbortSignal): Promise<InlineMedia> {
    const { seconds } = this.#limits;
    const deadline = new AbortController();
    const cancel = this.#clock.setTimer(seconds * 1000, () =>
      deadline.abort(new Unfetchable(`did not answer in full within ${seconds} s`)),
    );
    const both = AbortSignal.any([signal, deadline.signal]);
    try {
      return await this.#read(await this.#follow(url, both), budget);
    } catch (error) {
      if (signal.aborted) throw new ClientDisconnected();
      const cause = deadline.signal.aborted ? deadline.signal.reason : error;
      const why = cause instanceof Unfetchable ? cause.message : "could not be read to its end";
      throw ApiError.invalidValue(param, `The URL at ${param} ${why}.`);
    } finally {
      cancel();
      deadline.abort();
    }
  }

  /** The 2xx answer at the end of the redirects. */
  async #follow(url: string, signal: AbortSignal): Promise<Response> {
    let target = checkedUrl(url);
    for (let hops = 0; hops <= this.#limits.redirects; hops += 1) {
      const response = await this.#get(target, signal);
      if (response.ok && !provesEnd(target.href, response)) throw new Unfetchable("does not say where it ends");
      if (response.ok) return response;
      const location = redirectStatuses.has(response.status) ? response.headers.get("location") : null;
      if (location === null) throw new Unfetchable(`answers with status ${response.status}`);
      target = checkedUrl(location, target);
    }
    throw new Unfetchable(`redirects more than ${this.#limits.redirects} times`);
  }

  async #get(target: URL, signal: AbortSignal): Promise<Response> {
    for (const address of await this.#addresses(target, signal)) {
      try {
        return await this.#fetch(pinned(target, address), {
          headers: { host: target.host, accept: acceptedTypes, "accept-encoding": "identity", "user-agent": "troupe" },
          signal,
          redirect: "manual",
          decompress: false,
          timeout: false,
          // Connections are pooled by address; another host at the same address must not reuse this one.
          keepalive: false,
          tls: identifying(bareHost(target)),
        } as BunFetchRequestInit);
      } catch (error) {
        if (signal.aborted) throw error;
      }
    }
    throw new Unfetchable("leads to a server that can't be reached");
  }

  /**
   * The addresses to try, IPv4 first. An unknown name and one of a private address get the same error, which
   * reveals nothing about the internal network.
   */
  async #addresses(target: URL, signal: AbortSignal): Promise<string[]> {
    const host = bareHost(target);
    const port = Number(target.port) || (target.protocol === "https:" ? 443 : 80);
    const found = isIP(host) === 0 ? await unlessAborted(this.#resolve(host), signal).catch(() => []) : [host];
    signal.throwIfAborted();
    if (found.length === 0 || !found.every((address) => this.#permits(address, port))) {
      throw new Unfetchable("does not lead to port 80 or 443 of a public host");
    }
    return found.toSorted((a, b) => isIP(a) - isIP(b));
  }

  async #read(response: Response, budget: Budget): Promise<InlineMedia> {
    const encoding = response.headers.get("content-encoding") ?? "identity";
    if (encoding !== "identity") throw new Unfetchable("answers in compressed form");
    const { itemBytes } = this.#limits;
    const tooLarge = new Unfetchable(`holds more than ${itemBytes} bytes`);
    if (Number(response.headers.get("content-length")) > itemBytes) throw tooLarge;
    const declared = declaredType(response.headers.get("content-type"));
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const part of response.body ?? []) {
      size += part.byteLength;
      budget.left -= part.byteLength;
      if (size > itemBytes) throw tooLarge;
      if (budget.left < 0) throw new Unfetchable("and the others hold too much together");
      parts.push(part);
    }
    const bytes = Buffer.concat(parts, size);
    const mimeType = declared ?? sniffedType(bytes);
    if (mimeType === undefined) throw new Unfetchable("holds nothing that is known as an image, audio, video or PDF");
    return { mimeType, base64: bytes.toString("base64") };
  }
}

type Budget = { left: number };

/** The reason why a URL can't be fetched, as the end of a sentence that begins with the URL. */
class Unfetchable extends Error {}

const redirectStatuses = new Set([301, 302, 303, 307, 308]);
const acceptedTypes = "image/*, audio/*, video/*, application/pdf";
const acceptedType = /^(?:(?:image|audio|video)\/[\w.+-]+|application\/pdf)$/;

function checkedUrl(url: string, base?: URL): URL {
  const target = URL.parse(url, base?.href);
  if (target === null || (target.protocol !== "https:" && target.protocol !== "http:")) {
    throw new Unfetchable(
      base === undefined ? "is no http or https URL" : "redirects to something else than http or https",
    );
  }
  if (target.username !== "" || target.password !== "") throw new Unfetchable("holds credentials");
  return target;
}

/** Without the brackets of an IPv6 address. */
function bareHost({ hostname }: URL): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}

/** @returns how a server must prove that it is this one, although it is called by its address */
function identifying(host: string): TLSOptions {
  return {
    ...(isIP(host) === 0 && { serverName: host }),
    checkServerIdentity: (_: string, certificate: PeerCertificate) => checkAlternativeNames(host, certificate),
  } as TLSOptions;
}

function pinned(target: URL, address: string): string {
  const url = new URL(target);
  url.hostname = isIP(address) === 6 ? `[${address}]` : address;
  return url.href;
}

/** @returns undefined where the type has to be sniffed from the bytes */
function declaredType(header: string | null): string | undefined {
  const type = (header ?? "").split(";")[0]!.trim().toLowerCase();
  if (isUntyped(type)) return undefined;
  if (!acceptedType.test(type)) throw new Unfetchable("holds something else than an image, audio, video or a PDF");
  return type === "image/jpg" ? "image/jpeg" : type;
}

/** Settles as the promise does, or rejects once the signal aborts: a look-up itself can't be cancelled. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  return Promise.race([promise, aborted]).finally(() => signal.removeEventListener("abort", abort));
}

/** Source: https://www.iana.org/assignments/iana-ipv4-special-registry */
const specialIpv4 = new AddressBlocks([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  // Azure's own services, seen only from inside: https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
  "168.63.129.16",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
]);
/** All that is unicast and global; IPv4-mapped, NAT64, unique local, link-local and multicast addresses lie outside. */
const globalIpv6 = new AddressBlocks(["2000::/3"]);
/** Tunnels to IPv4 among them. Source: https://www.iana.org/assignments/iana-ipv6-special-registry */
const specialIpv6 = new AddressBlocks(["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"]);

function isPublicAddress(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !specialIpv4.has(address);
    case 6:
      return globalIpv6.has(address) && !specialIpv6.has(address);
    default:
      return false;
  }
}

/** Other ports of public hosts are closed too: the machine's own public address may have some that only a firewall hides. */
function isPublicDestination(address: string, port: number): boolean {
  return (port === 443 || port === 80) && isPublicAddress(address);
}
