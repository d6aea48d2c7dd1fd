/** The console as it is served: one page and its two files, on listeners that have the admin API. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { brotliDecompressSync } from "node:zlib";
import { bundlePage } from "../../src/http/pages/page-bundle.ts";
import { compressBest } from "../../src/http/pages/pages.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";

let folder: TempFolder;
let troupe: TroupeProcess;
beforeAll(async () => {
  folder = new TempFolder();
  troupe = await TroupeProcess.start(folder.path, "http://127.0.0.1:9/v1", {});
});
afterAll(async () => {
  await troupe[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; " +
  "form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'";

test("the page has a strict policy, relative addresses and no inline code", async () => {
  const answer = await fetch(`${troupe.url}/console`);
  expect(answer.status).toBe(200);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "content-type": "text/html; charset=utf-8",
    "content-security-policy": policy,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
  });
  const html = await answer.text();
  const addresses = [...html.matchAll(/(?:href|src)="([^"]+)"/g)].map(([, address]) => address!.split("?")[0]);
  expect(addresses.filter((address) => !address!.startsWith("#/"))).toEqual([
    expect.stringMatching(/^data:image/),
    "console/console.css",
    "console/console.js",
  ]);
  expect(html).not.toMatch(/<script(?![^>]* src=)|<style|\son\w+=|\sstyle=/);
  const again = await fetch(`${troupe.url}/console`, { headers: { "if-none-match": answer.headers.get("etag")! } });
  expect(again.status).toBe(304);
});

test("script and style are kept for ever under an address of their content", async () => {
  const html = await (await fetch(`${troupe.url}/console`)).text();
  for (const [name, type] of [
    ["console.js", "text/javascript"],
    ["console.css", "text/css"],
  ]) {
    const path = new RegExp(`console/${name}\\?v=\\w+`).exec(html)![0];
    const answer = await fetch(`${troupe.url}/${path}`, {
      decompress: false,
      headers: { "accept-encoding": "gzip, deflate, br" },
    });
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      "content-type": `${type}; charset=utf-8`,
      "content-encoding": "br",
      "cache-control": "public, max-age=31536000, immutable",
    });
    const sent = await answer.bytes();
    for (const other of [`console/${name}`, `console/${name}?v=`, `${path}0`, `console/${name}?v=other`]) {
      const refused = await fetch(`${troupe.url}/${other}`);
      expect([other, refused.status, refused.headers.get("cache-control")]).toEqual([other, 404, null]);
    }
    const plain = await fetch(`${troupe.url}/${path}`, { headers: { "accept-encoding": "identity" } });
    expect(brotliDecompressSync(sent).equals(await plain.bytes())).toBe(true);
  }
});

test("script and style are 120 KB at most together, as the executable holds them", async () => {
  const { script, style } = await bundlePage("console");
  const [first, second] = await Promise.all([compressBest(script), compressBest(style)]);
  const bytes = first.br.length + second.br.length;
  const gzipped = first.gzip.length + second.gzip.length;
  console.info(`script and style: ${(bytes / 1000).toFixed(1)} KB by Brotli, ${(gzipped / 1000).toFixed(1)} by gzip`);
  expect(bytes).toBeGreaterThan(1_000);
  expect(gzipped).toBeLessThanOrEqual(120_000);
});

test("the page is sent in the theme that its cookie names, and in the system's without one", async () => {
  const themes: Record<string, string> = {};
  for (const cookie of [
    "",
    "a=b; troupe_theme=dark",
    "troupe_theme=light",
    'troupe_theme="><script>',
    "troupe_themed=dark",
  ]) {
    const answer = await fetch(`${troupe.url}/console`, { headers: { cookie } });
    expect(answer.headers.get("vary")).toBe("accept-encoding, cookie");
    themes[cookie] = /<html lang="en" data-theme="([^"]*)" data-session="none">/.exec(await answer.text())![1]!;
  }
  expect(themes).toEqual({
    "": "",
    "a=b; troupe_theme=dark": "dark",
    "troupe_theme=light": "light",
    'troupe_theme="><script>': "",
    "troupe_themed=dark": "",
  });
});

test("the script loads nothing later and from nowhere else", async () => {
  const { script, style } = await bundlePage("console");
  expect(script).not.toMatch(/\bimport\s*\(|\beval\(|new Function/);
  expect(style).not.toMatch(/@import|url\((?!["']?data:)/);
});

test("a slash too much leads to the page", async () => {
  const answer = await fetch(`${troupe.url}/console/`, { redirect: "manual" });
  expect([answer.status, answer.headers.get("location")]).toEqual([308, "../console"]);
  const home = (await (await fetch(troupe.url)).json()) as { links: Record<string, string> };
  expect(home.links["console"]).toBe("/console");
});
