/** Client addresses, X-Forwarded-For, and CIDR blocks of trusted proxies. */
import type { BlockList } from "node:net";
import { isIP } from "./ip.ts";

/** A set of CIDR blocks; a bare address is a block of one. */
export class AddressBlocks {
  readonly #subnets: readonly Subnet[];
  #blocks: BlockList | undefined;

  /** @throws Error naming the block that can't be read */
  constructor(cidrs: readonly string[]) {
    this.#subnets = cidrs.map(parseSubnet);
  }

  get empty(): boolean {
    return this.#subnets.length === 0;
  }

  has(address: string): boolean {
    const plain = withoutMapping(address);
    const version = isIP(plain);
    if (version === 0 || this.empty) return false;
    this.#blocks ??= listOf(this.#subnets);
    return this.#blocks.check(plain, family(version));
  }
}

type Subnet = { readonly address: string; readonly bits: number; readonly version: 4 | 6 };

const family = (version: 4 | 6) => (version === 6 ? "ipv6" : "ipv4");

/** @throws Error naming the block that can't be read */
function parseSubnet(cidr: string): Subnet {
  const [address = "", prefix] = cidr.split("/");
  const version = isIP(address);
  const widest = version === 6 ? 128 : 32;
  const bits = prefix === undefined ? widest : Number(prefix);
  if (version === 0 || !Number.isInteger(bits) || bits < 0 || bits > widest) {
    throw new Error(`'${cidr}' is not an address or a CIDR block`);
  }
  return { address, bits, version };
}

/** Loads `node:net` for the first address that is looked up: it takes 8 ms of a start. */
function listOf(subnets: readonly Subnet[]): BlockList {
  const { BlockList } = require("node:net") as typeof import("node:net");
  const list = new BlockList();
  for (const { address, bits, version } of subnets) list.addSubnet(address, bits, family(version));
  return list;
}

/** `::ffff:192.0.2.1` is 192.0.2.1: sockets that take both families write IPv4 addresses so. */
export function withoutMapping(address: string): string {
  return address.startsWith("::ffff:") && address.includes(".") ? address.slice("::ffff:".length) : address;
}

/**
 * The client's address: the peer itself, or, when the peer is trusted, the last address in X-Forwarded-For that is not.
 * @param peer undefined on a unix socket, whose other end is always trusted when any proxy is
 */
export function clientAddress(peer: string | undefined, forwardedFor: string | null, trusted: AddressBlocks): string {
  const direct = peer === undefined ? "unix" : withoutMapping(peer);
  if (forwardedFor === null || trusted.empty) return direct;
  if (peer !== undefined && !trusted.has(direct)) return direct;
  const hops = forwardedFor.split(",").map((hop) => hop.trim());
  for (const hop of hops.reverse()) {
    const address = withoutMapping(
      hop.replace(/^\[(.*)\](?::\d+)?$/, "$1").replace(/^(\d+\.\d+\.\d+\.\d+):\d+$/, "$1"),
    );
    // A zone (`%eth0`) is of any length, and means something on the machine that wrote it alone.
    const [plain = ""] = address.split("%", 1);
    if (isIP(plain) === 0) return direct;
    if (!trusted.has(plain)) return plain;
  }
  return direct;
}
