import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { formatAddress, parseAddress } from "../../src/config/listeners.ts";
import { configOf, errorsOf } from "./loading.ts";

const both = ["orchestrator", "gateway"] as const;

describe("an address", () => {
  test.each([
    ["127.0.0.1:8080", { kind: "tcp", host: "127.0.0.1", port: 8080 }],
    ["[::1]:8080", { kind: "tcp", host: "::1", port: 8080 }],
    ["[fe80::1%eth0]:80", { kind: "tcp", host: "fe80::1%eth0", port: 80 }],
    ["localhost:0", { kind: "tcp", host: "localhost", port: 0 }],
    ["gw-1.example.com:65535", { kind: "tcp", host: "gw-1.example.com", port: 65_535 }],
    ["unix:/run/troupe.sock", { kind: "unix", path: "/run/troupe.sock" }],
    ["unix:run/troupe.sock", { kind: "unix", path: "/srv/run/troupe.sock" }],
  ] as const)("%s", (text, address) => {
    expect(parseAddress(text, "/srv")).toEqual(address);
  });

  const form = "must be <host>:<port>, [<IPv6 address>]:<port> or unix:<path>";
  test.each([
    ["", form],
    ["8080", form],
    [":8080", form],
    ["::1:8080", form],
    ["[::1]", form],
    ["[127.0.0.1]:80", form],
    ["1.2.3:80", form],
    ["256.1.1.1:80", form],
    ["http://localhost:80", form],
    ["a b:80", form],
    ["-a:80", form],
    ["unix:", form],
    ["localhost:", "must have a port from 0 to 65535"],
    ["localhost:65536", "must have a port from 0 to 65535"],
    ["localhost:-1", "must have a port from 0 to 65535"],
    ["localhost:8o", "must have a port from 0 to 65535"],
    [`unix:/${"s".repeat(107)}`, "names a socket whose path has more than 107 bytes"],
    [`unix:/${"ü".repeat(54)}`, "names a socket whose path has more than 107 bytes"],
  ])("not %p", (text, problem) => {
    expect(parseAddress(text, "/srv")).toBe(problem);
  });

  test("is written as it is read", () => {
    const host = fc.oneof(fc.ipV4(), fc.ipV6(), fc.domain());
    fc.assert(
      fc.property(host, fc.nat(65_535), (name, port) => {
        const text = formatAddress({ kind: "tcp", host: name, port });
        expect(parseAddress(text, "/")).toEqual({ kind: "tcp", host: name, port });
      }),
    );
  });
});

describe("listen", () => {
  test("takes one address, one with its surfaces, or a list of both", () => {
    const tcp = (host: string, port: number) => ({ kind: "tcp" as const, host, port });
    expect(configOf({ yaml: "listen: 0.0.0.0:80" }).listen).toEqual([{ address: tcp("0.0.0.0", 80), surfaces: both }]);
    expect(configOf({ yaml: "listen: {address: 'a:1', surfaces: [gateway]}" }).listen).toEqual([
      { address: tcp("a", 1), surfaces: ["gateway"] },
    ]);
    expect(configOf({ yaml: "listen: ['a:1', {address: 'unix:/s', surfaces: [orchestrator]}]" }).listen).toEqual([
      { address: tcp("a", 1), surfaces: both },
      { address: { kind: "unix", path: "/s" }, surfaces: ["orchestrator"] },
    ]);
  });

  test.each([
    ["listen: 80", "1:9: listen: must be a string or an object or an array"],
    ["listen: []", "1:9: listen: must not be empty"],
    ["listen: ['a:1', 3]", "1:17: listen[1]: must be a string or an object"],
    ["listen: {adress: 'a:1'}", "1:1: listen.address: is required"],
    [
      "listen: {address: 'a:1', surfaces: [gatway]}",
      '1:37: listen.surfaces[0]: must be one of "orchestrator", "gateway", "admin"',
    ],
    ["listen: {address: 'a:1', surfaces: []}", "1:36: listen.surfaces: must not be empty"],
    [
      "listen: {address: 'a:1', surfaces: [gateway, gateway]}",
      "1:36: listen.surfaces: must not hold the same thing twice",
    ],
    ["listen: ['a:1', 'a:1']", "1:17: listen[1]: a:1 is taken by a:1 above"],
    ["listen: ['a:1', '[::]:1']", "1:17: listen[1]: [::]:1 is taken by a:1 above"],
    ["listen: ['0.0.0.0:1', 'a:2', 'b:1']", "1:30: listen[2]: b:1 is taken by 0.0.0.0:1 above"],
    ["listen: ['unix:/s', 'unix:/x/../s']", "1:21: listen[1]: unix:/s is taken by unix:/s above"],
  ])("%p is invalid", (yaml, diagnostic) => {
    expect(errorsOf({ yaml })[0]).toBe(`troupe.yaml:${diagnostic}`);
  });

  test("the same port on two addresses, or free ports, are no clash", () => {
    expect(errorsOf({ yaml: "listen: ['127.0.0.1:1', '[::1]:1', 'a:0', 'a:0', '0.0.0.0:0']" })).toEqual([]);
  });

  test("a certificate's files must be there", () => {
    const yaml = "listen: {address: 'a:1', tls: {cert: c.pem, key: k.pem}}";
    expect(errorsOf({ yaml, files: { "/srv/k.pem": new Error("EACCES") } })).toEqual([
      "troupe.yaml:1:38: listen.tls.cert: names /srv/c.pem, which does not exist",
      "troupe.yaml:1:50: listen.tls.key: names /srv/k.pem, which can't be read: EACCES",
    ]);
  });
});

describe("a host or a port by itself", () => {
  const addressOf = (given: Parameters<typeof configOf>[0]) => formatAddress(configOf(given).listen[0]!.address);

  test("moves the one listener", () => {
    expect(addressOf({ flags: { port: "9" } })).toBe("127.0.0.1:9");
    expect(addressOf({ flags: { host: "::" } })).toBe("[::]:8080");
    expect(addressOf({ flags: { host: "[::1]" }, env: { TROUPE_HOST: "a", TROUPE_PORT: "7" } })).toBe("[::1]:7");
    expect(addressOf({ yaml: "listen: 'b:5'", env: { TROUPE_HOST: "a" } })).toBe("a:5");
    expect(configOf({ yaml: "listen: {address: 'b:5', surfaces: [gateway]}", flags: { port: "6" } }).listen).toEqual([
      { address: { kind: "tcp", host: "b", port: 6 }, surfaces: ["gateway"] },
    ]);
  });

  test("is invalid where it moves nothing, or is none", () => {
    const several = "moves a single listener on a port, but the configuration has others";
    expect(errorsOf({ yaml: "listen: ['a:1', 'b:2']", flags: { port: "3" } })).toEqual([
      `command line: --port: "3" ${several}`,
    ]);
    expect(errorsOf({ yaml: "listen: unix:/s", env: { TROUPE_HOST: "a" } })).toEqual([
      `environment: TROUPE_HOST: "a" ${several}`,
    ]);
    expect(errorsOf({ flags: { host: "a b", port: "70000" } })).toEqual([
      'command line: --host: "a b" must be a host name or an IP address',
      'command line: --port: "70000" must be a port from 0 to 65535',
    ]);
  });

  test("what Kubernetes puts there for a service named troupe is not taken for a port", () => {
    expect(addressOf({ env: { TROUPE_PORT: "tcp://10.0.0.11:80" } })).toBe("127.0.0.1:8080");
  });
});
