import { describe, expect, test } from "bun:test";
import { isIP as reference } from "node:net";
import fc from "fast-check";
import { isIP } from "../../../src/lib/http/ip.ts";
import { runs } from "../../helpers/long-form.ts";

const number = fc.nat({ max: 300 }).map(String);
const group = fc.nat({ max: 0x1ffff }).map((value) => value.toString(16));
const ipv4 = fc.array(number, { minLength: 3, maxLength: 5 }).map((all) => all.join("."));
const groups = fc.array(fc.oneof({ weight: 8, arbitrary: group }, fc.constant("")), { maxLength: 9 });
const zone = fc.constantFrom("", "", "", "%eth0", "%", "%a b");
const addresses = fc.oneof(
  ipv4,
  fc.tuple(groups, fc.option(ipv4, { nil: undefined }), zone).map(([all, tail, named]) => {
    return [...all, ...(tail === undefined ? [] : [tail])].join(":") + named;
  }),
  // Short texts of the signs that addresses are made of.
  fc
    .array(fc.constantFrom("0", "1", "f", "12345", ":", "::", ".", "1.2.3.4", "]", "\n"), { maxLength: 8 })
    .map((all) => all.join("")),
  fc.string({ maxLength: 12 }),
);

describe("isIP", () => {
  test.each<[string, 0 | 4 | 6]>([
    ["127.0.0.1", 4],
    ["255.255.255.255", 4],
    ["256.1.1.1", 0],
    ["01.1.1.1", 0],
    ["1.1.1", 0],
    ["1.1.1.1.", 0],
    ["1.1.1.1\n", 0],
    ["::", 6],
    ["::1", 6],
    ["2001:DB8::1", 6],
    ["1:2:3:4:5:6:7:8", 6],
    ["1:2:3:4:5:6:7::", 6],
    ["1::2:3:4:5:6:7:8", 0],
    ["1:2:3:4:5:6:1.2.3.4", 6],
    ["::ffff:192.0.2.1", 6],
    ["::ffff:192.0.2.256", 0],
    ["1.2.3.4::", 0],
    ["::1:", 0],
    [":::", 0],
    ["1::2::3", 0],
    ["::12345", 0],
    ["fe80::1%eth0", 6],
    ["fe80::1%", 0],
    ["[::1]", 0],
    ["localhost", 0],
    ["", 0],
  ])("%p: %p", (text, version) => {
    expect(isIP(text)).toBe(version);
    expect(reference(text)).toBe(version);
  });

  test("whatever is written, node:net tells the same", () => {
    fc.assert(
      fc.property(addresses, (text) => expect(isIP(text)).toBe(reference(text) as 0 | 4 | 6)),
      { numRuns: runs(2_000) },
    );
  });
});
