/** Client addresses, X-Forwarded-For, and CIDR blocks of trusted proxies. */
import { BlockList, isIP } from "node:net";

/** A set of CIDR blocks; a bare address is a block of one. */
export class AddressBlocks {
  readonly #blocks = new BlockList();
  readonly empty: boolean;

  /** @throws Error naming the block that can't be read */
  constructor(cidrs: readonly string[]) {
    this.empty = cidrs.length === 0;
    for (const cidr of cidrs) {
      const [address = "", prefix] = cidr.split("/");
      const version = isIP(address);
      const bits = prefix === undefined ? (version === 6 ? 128 : 32) : Number(prefix);
      const widest = version === 6 ? 128 : 32;
      if (version === 0 || !Number.isInteger(bits) || bits < 0 || bits > widest) {
        throw new Error(`'${cidr}' is not an address or a CIDR block`);
      }
      this.#blocks.addSubnet(address, bits, version === 6 ? "ipv6" : "ipv4");
    }
  }

  has(address: string): boolean {
    const plain = withoutMapping(address);
    const version = isIP(plain);
    return version !== 0 && this.#blocks.check(plain, version === 6 ? "ipv6" : "ipv4");
  }
}

/** `::ffff:192.0.2.1` is 192.0.2.1: sockets that take both families write IPv4 addresses so. */
function withoutMapping(address: string): string {
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
