/** What stops calls though nothing fails is said on the first page, in a real Chromium. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { StorageError } from "../../src/store/contract/storage-error.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const prices = [{ match: "xai/grok-x", input: 2, output: 10 }];
const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1000, completion_tokens: 5000, total_tokens: 6000 },
};
const well = `document.querySelector("[aria-label='Whether all is well']")`;
const verdict = `${well}?.querySelector("strong")?.innerText`;
const link = (text: string) =>
  `[...${well}.querySelectorAll("a")].find((one) => one.innerText.includes(${JSON.stringify(text)}))`;

describe.skipIf(!hasChromium)("in Chromium", () => {
  let upstream: UpstreamServer;
  let page: ChromiumPage;
  beforeAll(async () => {
    upstream = new UpstreamServer(() => jsonResponse(answer));
    page = await ChromiumPage.open();
    await page.look({ width: 1440, height: 900, theme: "light" });
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    upstream?.[Symbol.dispose]();
  });

  async function signIn(troupe: Troupe): Promise<string> {
    const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    await page.go(`${troupe.url}/console`);
    await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
    await page.type(key);
    await page.press("Enter");
    await page.until(`!document.querySelector("dialog[open]") && ${verdict}`);
    // The keyboard goes on at the page.
    expect(await page.read<string>("document.activeElement.tagName")).toBe("H1");
    return key;
  }

  test("a spent budget of everybody, calls refused, and personas without a provider are findings, each with where to go", async () => {
    await using troupe = await Troupe.start({
      providers: { xai: { baseUrl: upstream.url } },
      config: { listen, prices },
    });
    const { personas } = troupe.server.services;
    for (const { id } of personas.list())
      troupe.setTargets(id, [id === personas.list()[0]!.id ? "xai/grok-x" : "groq/m"]);
    const payer = await troupe.createKey({ name: "W".repeat(60), tier: "enterprise", perMinute: 1_000 });
    const called = async () => {
      const body = { model: "xai/grok-x", max_tokens: 10, messages: [{ role: "user", content: "hi" }] };
      const response = await troupe.post("/gateway/v1/chat/completions", body, { key: payer });
      await response.text();
      return response;
    };
    const key = await signIn(troupe);
    const budget = (scope: string) =>
      troupe.fetch(`/admin/v1/budgets/${scope}/day`, {
        ...{ method: "PUT", key, headers: { "content-type": "application/json" } },
        body: JSON.stringify({ dollars: 0.01 }),
      });
    expect((await budget("all")).status).toBe(200);
    expect((await budget("tier:enterprise")).status).toBe(200);
    const payerId = (await troupe.server.services.keys.list()).find(({ name }) => name.startsWith("WW"))!.id;
    expect((await budget(`key:${payerId}`)).status).toBe(200);
    // No key can have it: it would hold nothing for ever.
    expect((await budget("tag:acme:eu")).status).toBe(400);
    // It costs 5.2 cents, which its 10 tokens at most did not let foresee.
    expect((await called()).status).toBe(200);
    await troupe.server.services.ledger.flush();
    for (const _ of [1, 2, 3]) expect((await called()).status).toBe(429);
    await troupe.server.services.ledger.flush();
    await page.read("location.reload()");
    await page.until(`${link("attempts were refused here")} && ${link("A budget is spent (all, day)")}`);
    const [fail, look] = await page.read<number[]>(
      `["bad", "warn"].map((tone) => ${well}.querySelectorAll(".findings .dot." + tone).length)`,
    );
    expect(fail).toBeGreaterThan(1);
    expect(await page.read<string>(verdict)).toBe(
      `${fail} things fail, ${look === 1 ? "1 thing needs" : `${look} things need`} a look`,
    );
    const texts = await page.read<string[]>(`[...${well}.querySelectorAll("li a")].map((one) => one.innerText)`);
    expect(texts).toContain("A budget is spent (all, day): every call of everybody is refused");
    expect(texts).toContain("A budget is spent (tier:enterprise, day): every call of the plan enterprise is refused");
    const ofKey = `A budget is spent (${"W".repeat(60)}, day): every call of the key ${"W".repeat(60)} is refused`;
    expect(texts).toContain(ofKey);
    // It stops one caller alone, as somebody wanted.
    const toneOf = (text: string) => page.read<string>(`${link(text)}.closest("li").querySelector(".dot").className`);
    expect([await toneOf("every call of everybody"), await toneOf("every call of the key")]).toEqual([
      "dot bad",
      "dot warn",
    ]);
    expect(texts).toContain("3 of 4 attempts were refused here in the last 15 minutes");
    expect(texts.find((one) => one.startsWith("No model of "))).toMatch(
      /^No model of \S+, \S+, \S+ and 4 more has a provider that is set up: they can't be called$/,
    );
    const payers = `document.querySelector('[aria-label^="Who spends most"]')`;
    const pushedOut = `${payers}.querySelectorAll("th")[1].getBoundingClientRect().right - ${payers}.getBoundingClientRect().right`;
    const byKey = `[...document.querySelectorAll("main button")].find((one) => one.innerText === "Key")`;
    await page.click(byKey);
    await page.until(`${payers}?.innerText.includes("WWW")`);
    expect(await page.read<number>(pushedOut)).toBeLessThanOrEqual(0);
    await page.look({ width: 360, height: 740, theme: "dark" });
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    expect(await page.read<number>(pushedOut)).toBeLessThanOrEqual(0);
    await page.look({ width: 1440, height: 900, theme: "light" });
    await page.click(link("attempts were refused here"));
    await page.until(`[...document.querySelectorAll('[aria-label="Calls"] tbody tr')].length === 3`);
  });

  test("keys that can't be read are a finding, and what can't be known is not called well", async () => {
    await using troupe = await Troupe.start({
      providers: { xai: { baseUrl: upstream.url } },
      config: { listen, prices },
    });
    await signIn(troupe);
    const { store } = troupe.server.services;
    store.keys.changes = async () => {
      throw new StorageError("away", "keys.db", "gone");
    };
    await troupe.createKey({ name: "newer", tier: "free" });
    await page.read("location.reload()");
    await page.until(link("Keys can't be read"));
    expect(await page.read<string>(verdict)).toMatch(/^1 thing fails/);
    expect(await page.read<string>(`${link("Keys can't be read")}.getAttribute("href")`)).toBe("#/keys");
    // No answer at all: what was so before is said no more.
    await page.setOffline(true);
    await page.until(`${verdict} === "Not known"`);
    await page.setOffline(false);
    await page.until(`${verdict}.startsWith("1 thing fails")`);
  });

  test("a server without any provider is not well", async () => {
    await using troupe = await Troupe.start({ config: { listen } });
    await signIn(troupe);
    await page.until(link("No provider is set up"));
    expect(await page.read<string>(verdict)).toMatch(/^1 thing fails/);
    await page.click(link("No provider is set up"));
    await page.until(`document.querySelector("h1")?.innerText.startsWith("Providers")`);
  });
});
