/** `/account` in a real browser, with mouse and keyboard. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { bundlePage } from "../../src/http/pages/page-bundle.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const account = { enabled: true, rotate: true, rotateGraceSeconds: 600 };

test("script and style are 40 KB at most, and the page has a strict policy", async () => {
  const { script, style } = await bundlePage("account");
  expect(gzipSync(script + style).byteLength).toBeLessThan(40_000);
  await using troupe = await Troupe.start({ config: { account } });
  const answer = await fetch(`${troupe.url}/account`);
  expect(answer.headers.get("content-security-policy")).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; connect-src 'self'; frame-ancestors 'none'; " +
      "base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
  );
  expect((await fetch(`${troupe.url}/account/account.js?v=other`)).status).toBe(404);
  const moved = await fetch(`${troupe.url}/account/`, { redirect: "manual" });
  expect([moved.status, moved.headers.get("location")]).toEqual([308, "../account"]);
});

describe.if(hasChromium)("/account in Chromium", () => {
  let upstream: UpstreamServer;
  let troupe: Troupe;
  let page: ChromiumPage;
  let key: string;
  beforeAll(async () => {
    upstream = new UpstreamServer(() =>
      jsonResponse({
        choices: [{ index: 0, message: { role: "assistant", content: "Hello to you, too!" }, finish_reason: "stop" }],
        usage: { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 },
      }),
    );
    const providers = { openai: { baseUrl: upstream.url, apiKey: "k" } };
    troupe = await Troupe.start({ providers, config: { account } });
    const spec = { name: "alice", tier: "pro", models: ["openai/gpt-4o-mini", "studio/*"] };
    key = (await troupe.server.services.keys.create(spec as never)).secret;
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    for (const model of ["openai/gpt-4o-mini", "openai/gpt-9"]) {
      const body = JSON.stringify({ model, messages: [{ role: "user", content: "hi" }] });
      await fetch(`${troupe.url}/gateway/v1/chat/completions`, { method: "POST", headers, body });
    }
    page = await ChromiumPage.open();
  });
  afterAll(async () => {
    await page[Symbol.asyncDispose]();
    await troupe[Symbol.asyncDispose]();
    upstream[Symbol.dispose]();
  });

  const text = "document.body.innerText";
  const button = (name: string) =>
    `[...document.querySelectorAll("button")].find((one) => one.innerText === "${name}")`;
  const shot = async (name: string) => {
    const folder = process.env["TROUPE_SCREENSHOTS"];
    if (folder !== undefined) await Bun.write(join(folder, `${name}.png`), await page.screenshot({ full: true }));
  };

  test("shows a key's use, sets up a client, tries it, and gives a new secret", async () => {
    await page.look({ width: 1440, height: 900, theme: "light" });
    await page.go(`${troupe.url}/account`);
    await page.until(`document.activeElement?.id === "api-key"`);
    await page.type("trp_wrong");
    await page.click(button("Sign in"));
    await page.until(`${text}.includes("key is not valid here")`);
    await page.read(`document.querySelector("#api-key").select()`);
    await page.type(key);
    await page.click(button("Sign in"));
    await page.until(`${text}.includes("Used and spent")`);
    const shown = await page.read<string>(text);
    for (const words of ["alice", "$0.00045", "openai/gpt-4o-mini", "studio/editor", "403 model_not_allowed"])
      expect(shown).toContain(words);
    expect(shown).toContain(`ANTHROPIC_BASE_URL=${troupe.url}`);
    await page.click(
      `[...document.querySelectorAll(".models button")].find((one) => one.innerText === "openai/gpt-4o-mini")`,
    );
    await page.until(`${text}.includes("ANTHROPIC_BASE_URL=${troupe.url}/gateway ")`);
    await page.click(button("Try it"));
    await page.until(`${text}.includes("Hello to you, too!")`);
    await shot("account-1440-light");
    await page.click(button("Rotate key"));
    await page.until(`${text}.includes("good for 600 more seconds")`);
    await page.click(button("Give it a new secret"));
    await page.until(`${text}.includes("Your new key, shown this once: trp_")`);
    expect(page.errors.filter((line) => !line.includes("401"))).toEqual([]);
  });

  test("fits a telephone, without scrolling sideways", async () => {
    await page.look({ width: 360, height: 740, theme: "dark" });
    await page.until(`innerWidth === 360`);
    expect(await page.read<number>("document.documentElement.scrollWidth")).toBe(360);
    await shot("account-360-dark");
    await page.click(button("Sign out"));
    await page.until(`document.querySelector("#api-key") !== null`);
    await page.go(`${troupe.url}/account`);
    await page.until(`document.querySelector("#api-key") !== null`);
  });
});
