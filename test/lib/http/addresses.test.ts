import { describe, expect, test } from "bun:test";
import { AddressBlocks, clientAddress } from "../../../src/lib/http/addresses.ts";

const trusted = new AddressBlocks(["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"]);

describe("AddressBlocks", () => {
  test.each([
    ["10.1.2.3", true],
    ["::ffff:10.1.2.3", true],
    ["11.0.0.1", false],
    ["192.0.2.7", true],
    ["192.0.2.8", false],
    ["2001:db8:1::1", true],
    ["2001:db9::1", false],
    ["not an address", false],
  ])("%s: %p", (address, inside) => expect(trusted.has(address)).toBe(inside));

  test.each(["10.0.0.0/33", "10.0.0/8", "::/129", "example.org", "10.0.0.0/x"])("%s is refused by name", (cidr) => {
    expect(() => new AddressBlocks([cidr])).toThrow(`'${cidr}'`);
  });
});

describe("clientAddress", () => {
  test.each<[string, string | undefined, string | null, string]>([
    ["a stranger's word is not believed", "198.51.100.1", "1.2.3.4", "198.51.100.1"],
    ["a trusted proxy's is", "10.0.0.1", "1.2.3.4", "1.2.3.4"],
    ["the last hop that is not trusted counts", "10.0.0.1", "6.6.6.6, 1.2.3.4, 10.9.9.9", "1.2.3.4"],
    ["only trusted hops: the peer", "10.0.0.1", "10.2.2.2", "10.0.0.1"],
    ["rubbish: the peer", "10.0.0.1", "rubbish", "10.0.0.1"],
    ["ports and brackets are taken off", "10.0.0.1", "1.2.3.4:5678", "1.2.3.4"],
    ["IPv6 in brackets", "10.0.0.1", "[2001:db9::5]:80", "2001:db9::5"],
    ["a zone is no part of an address", "10.0.0.1", "fe80::1%eth0", "fe80::1"],
    ["no header", "10.0.0.1", null, "10.0.0.1"],
    ["a unix socket's other end is trusted", undefined, "1.2.3.4", "1.2.3.4"],
    ["a mapped peer is its IPv4 address", "::ffff:10.0.0.1", "1.2.3.4", "1.2.3.4"],
  ])("%s", (_name, peer, forwarded, expected) => expect(clientAddress(peer, forwarded, trusted)).toBe(expected));

  test("without trusted proxies nobody is believed", () => {
    expect(clientAddress("10.0.0.1", "1.2.3.4", new AddressBlocks([]))).toBe("10.0.0.1");
    expect(clientAddress(undefined, "1.2.3.4", new AddressBlocks([]))).toBe("unix");
  });
});
