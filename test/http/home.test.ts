import { expect, test } from "bun:test";
import { Troupe } from "../helpers/troupe.ts";

/** As Firefox asks for a page. */
const browser = { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" };

test("a browser is shown where to go, by a page that reaches nowhere", async () => {
  await using troupe = await Troupe.start({ config: { cors: { origins: ["https://app.example.com"] } } });
  const response = await troupe.fetch("/", { key: null, headers: browser });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(response.headers.get("vary")).toBe("origin, accept");
  expect(response.headers.get("x-content-type-options")).toBe("nosniff");
  const html = await response.text();
  expect(html).not.toMatch(/<script|<link|<img|https?:|\/\//);
  const style = /<style>([\s\S]*?)<\/style>/.exec(html)![1]!;
  const hash = new Bun.CryptoHasher("sha256").update(style).digest("base64");
  expect(response.headers.get("content-security-policy")).toBe(
    `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  const links = [...html.matchAll(/href="([^"]*)"/g)].map(([, href]) => href!);
  expect(links).toEqual(["account", "docs", "docs/json", "health", "version", "metrics"]);
  for (const link of links) expect((await troupe.fetch(`/${link}`, { key: null })).status).toBe(200);
  expect(html).toContain("<code>/v1</code>");
  expect(html).toContain("<code>/gateway/v1</code>");
});

test("a program is told the same as JSON", async () => {
  await using troupe = await Troupe.start();
  for (const accept of ["*/*", "application/json", ""]) {
    const response = await troupe.fetch("/", { key: null, headers: { accept } });
    expect([response.status, response.headers.get("vary")]).toEqual([200, "accept"]);
    const { name, links } = (await response.json()) as { name: string; links: Record<string, string> };
    expect(name).toBe("troupe");
    expect(links).toMatchObject({ orchestrator: "/v1", gateway: "/gateway/v1", docs: "/docs", openapi: "/docs/json" });
  }
  expect((await troupe.fetch("/", { method: "POST" })).status).toBe(405);
});

test("a listener with one surface names that one", async () => {
  const listener = { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["gateway"] } as const;
  await using troupe = await Troupe.start({ config: { listen: [listener] } });
  const { links } = (await (await troupe.fetch("/", { key: null })).json()) as { links: Record<string, string> };
  expect([links["gateway"], links["orchestrator"]]).toEqual(["/v1", undefined]);
});
