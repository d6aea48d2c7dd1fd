/** Facts come through the forward proxy that the environment names, over TLS whose authority it names, from a process of its own. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { connect, createServer, type Server } from "node:net";
import { dayOf, factsKeys, factsText, published } from "../helpers/facts-files.ts";

const now = Date.parse("2027-03-01T12:00:00Z");
const keys = factsKeys();
const files: Readonly<Record<string, string>> = published(factsText(dayOf(now)), keys, dayOf(now), now);

const pem = readFileSync("test/fixtures/tls/upstream-local.pem");
const place = Bun.serve({
  ...{ port: 0, hostname: "127.0.0.1", tls: { cert: pem, key: pem } },
  fetch(request) {
    const name = new URL(request.url).pathname.slice(1);
    return new Response(files[name] ?? "", { status: name in files ? 200 : 404 });
  },
});

/** What the proxy was asked to connect to. */
const asked: string[] = [];
let isOpen = true;
let proxy: Server;
beforeAll(async () => {
  proxy = createServer((client) => {
    client.once("data", (head) => {
      const [, host = "", port = ""] = /^CONNECT ([^:]+):(\d+) /.exec(head.toString("latin1")) ?? [];
      asked.push(`${host}:${port}`);
      if (!isOpen) return void client.end("HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n");
      const server = connect(place.port!, "127.0.0.1", () => {
        client.write("HTTP/1.1 200 Connection established\r\n\r\n");
        client.pipe(server).pipe(client);
      });
      server.on("error", () => client.destroy());
    });
    client.on("error", () => {});
  });
  await new Promise<void>((resolve) => void proxy.listen(0, "127.0.0.1", resolve));
});
afterAll(() => {
  proxy.close();
  void place.stop(true);
});

const reader = `
  const { readPublished } = await import(process.cwd() + "/src/usage/facts/fetch.ts");
  const [from, key, now] = process.argv.slice(1);
  try {
    console.log((await readPublished(from, { keys: [key], now: Number(now) })).asOf);
  } catch (error) {
    console.log(error.name + ": " + error.message);
  }
`;

async function reading(from: string, env: Readonly<Record<string, string>>): Promise<string> {
  const { HTTPS_PROXY: _, https_proxy: _l, NO_PROXY: _n, no_proxy: _m, NODE_EXTRA_CA_CERTS: _c, ...rest } = process.env;
  asked.length = 0;
  const child = Bun.spawn([process.execPath, "-e", reader, from, keys.publicKey, String(now)], {
    env: { ...rest, ...env },
    stderr: "inherit",
  });
  return (await child.stdout.text()).trim();
}

const authority = { NODE_EXTRA_CA_CERTS: "test/fixtures/tls/upstream-ca.pem" };
const viaProxy = () => ({
  ...{ ...authority, HTTPS_PROXY: `http://127.0.0.1:${(proxy.address() as { port: number }).port}` },
});

test("both files come through HTTPS_PROXY", async () => {
  // A name that only the proxy finds would do as well; the certificate is for this one.
  expect(await reading(`https://localhost:${place.port}/facts.json`, viaProxy())).toBe("2027-03-01");
  expect(new Set(asked)).toEqual(new Set([`localhost:${place.port}`]));
});

test("NO_PROXY goes past it", async () => {
  const env = { ...viaProxy(), NO_PROXY: "example.org,localhost,127.0.0.1" };
  expect(await reading(`https://localhost:${place.port}`, env)).toBe("2027-03-01");
  expect(asked).toEqual([]);
});

test("a proxy that refuses, and an authority that nobody trusts, are errors that name the place", async () => {
  isOpen = false;
  const from = `https://localhost:${place.port}/facts.json`;
  expect(await reading(from, viaProxy())).toStartWith(`FactsError: ${from} `);
  expect(asked.length).toBeGreaterThan(0);
  isOpen = true;
  const { HTTPS_PROXY } = viaProxy();
  expect(await reading(from, { HTTPS_PROXY })).toMatch(
    /^FactsError: https:\/\/localhost:\d+\/facts\.json can't be read/,
  );
});
