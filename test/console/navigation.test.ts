/** The way around in a real Chromium: the navigation with what waits behind it, one bar in a narrow window, the palette and the list of keys. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { Config } from "../../src/config/config.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { button } from "./elements.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const persona = "description: Helps.\nmodel: builtin/echo\nsystem: |\n  You are plain.\n";
const dialog = `document.querySelector("dialog[open]")`;
const found = `[...document.querySelectorAll(".palette [role=option]")].map((one) => one.innerText.replaceAll("\\n", " "))`;
const chosen = `document.querySelector('.palette [aria-selected="true"]')?.innerText.split("\\n")[0]`;
const pageLink = (title: string) =>
  `[...document.querySelectorAll("nav.side li a")].find((one) => one.innerText.trim().startsWith(${JSON.stringify(title)}))`;
const heading = `document.querySelector("main h1")?.innerText`;

describe.skipIf(!hasChromium)("in Chromium", () => {
  let folder: TempFolder;
  let upstream: UpstreamServer;
  let troupe: Troupe;
  let page: ChromiumPage;
  let key: string;
  beforeAll(async () => {
    folder = new TempFolder();
    mkdirSync(folder.file("acme"));
    writeFileSync(
      folder.file("acme/canary.yaml"),
      `${persona}variants: [{ name: now, weight: 9 }, { name: next, weight: 1 }]\n`,
    );
    upstream = new UpstreamServer(({ headers }) =>
      headers.get("authorization") === "Bearer limited"
        ? jsonResponse({ error: { message: "slow down" } }, 429, { "retry-after": "600" })
        : jsonResponse(answer),
    );
    const member = (apiKey: string) => ({ apiKey, baseUrl: upstream.url, weight: 1 });
    troupe = await Troupe.start({
      personas: folder.path,
      providers: {
        openai: { ...member("limited"), pool: { strategy: "first", members: [member("limited"), member("good")] } },
      },
      config: { listen },
    });
    await troupe.server.services.loading;
    key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    page = await ChromiumPage.open();
    await page.look({ width: 1440, height: 900, theme: "light" });
    await page.go(`${troupe.url}/console`);
    await page.until(`${dialog} && document.activeElement.type === "password"`);
    await page.type(key);
    await page.press("Enter");
    await page.until(`!${dialog} && document.querySelector(".account")`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    upstream?.[Symbol.dispose]();
    folder?.[Symbol.dispose]();
  });
  beforeEach(() => void page.errors.splice(0));

  test("pages stand in groups, each with its mark, and say what waits behind them", async () => {
    const groups = `[...document.querySelectorAll("nav.side section")].map((one) => [one.querySelector("p").innerText, one.querySelectorAll("li a > svg").length])`;
    expect(await page.read<[string, number][]>(groups)).toEqual([
      ["Watch", 3],
      ["Build", 2],
      ["Run", 3],
    ]);
    expect(await page.read<number>(`document.querySelectorAll("nav.side .badge").length`)).toBe(0);
    await troupe.post("/admin/v1/personas/acme/canary/variants/next/stop", {}, { key });
    const called = await troupe.post("/gateway/v1/chat/completions", {
      model: "openai/m",
      messages: [{ role: "user", content: "hi" }],
    });
    expect(called.status).toBe(200);
    await page.read("globalThis.isOld = true; location.reload()");
    await page.until(`!globalThis.isOld && ${pageLink("Personas")}?.innerText.includes("1 stopped")`);
    await page.until(`${pageLink("Providers")}.innerText.includes("1 in cooldown")`);
    const cut = `[...document.querySelectorAll("nav.side li a")].filter((one) => one.scrollWidth > one.clientWidth).length`;
    expect(await page.read<number>(cut)).toBe(0);
    await page.click(pageLink("Providers"));
    await page.until(`${heading} === "Providers" && ${pageLink("Providers")}.getAttribute("aria-current") === "page"`);
    expect(page.errors).toEqual([]);
  });

  test("in a narrow window it is one bar, whose menu opens, leads on and closes", async () => {
    await page.look({ width: 360, height: 740, theme: "dark" });
    const bar = `document.querySelector("nav.side")`;
    expect(await page.read<number>(`${bar}.offsetHeight`)).toBe(48);
    const menu = `document.querySelector(".opens-pages")`;
    await page.until(`!${pageLink("System")}.checkVisibility()`);
    await page.click(menu);
    await page.until(`${pageLink("System")}.checkVisibility() && ${menu}.getAttribute("aria-expanded") === "true"`);
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    await page.click(pageLink("System"));
    await page.until(`${heading} === "System" && !${pageLink("System")}.checkVisibility()`);
    await page.click(menu);
    await page.until(`${pageLink("System")}.checkVisibility()`);
    await page.press("Escape");
    await page.until(`!${pageLink("System")}.checkVisibility() && document.activeElement === ${menu}`);
    // The palette is a press away.
    await page.click(`document.querySelector(".finds")`);
    await page.until(`${dialog} && ${found}.length > 5`);
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    await page.press("Escape");
    await page.until(`!${dialog}`);
    await page.look({ width: 1440, height: 900, theme: "light" });
    expect(page.errors).toEqual([]);
  });

  test("the palette goes to pages, keys, personas, models and calls by the keyboard", async () => {
    const goTo = async (text: string, first: string) => {
      await page.press("k", "Control");
      await page.until(`document.activeElement.getAttribute("role") === "combobox"`);
      await page.type(text);
      await page.until(`${chosen} === ${JSON.stringify(first)}`);
      await page.press("Enter");
      await page.until(`!${dialog}`);
    };
    await goTo("audit", "Audit");
    await page.until(`location.hash === "#/system/audit"`);
    await goTo("canary", "acme/canary");
    await page.until(`location.hash === "#/personas/acme%2Fcanary"`);
    await goTo("ops", "ops");
    await page.until(`location.hash.startsWith("#/keys/key_") && ${heading} === "ops"`);
    const model = (await page.read<string>(
      `fetch("admin/v1/playground/models?search=&limit=100").then((one) => one.json()).then(({ data }) => data.find(({ kind }) => kind === "model")?.id)`,
    ))!;
    await goTo(model, model);
    await page.until(`location.hash === ${JSON.stringify(`#/calls?model=${encodeURIComponent(model)}`)}`);
    await goTo("req_0123456789abcdef", "req_0123456789abcdef");
    await page.until(`location.hash === "#/calls/req_0123456789abcdef"`);
    // Arrows go round; what is called by no name says so; a whole key stays out of addresses.
    await page.press("k", "Control");
    await page.until(`${chosen} === "Overview"`);
    await page.press("ArrowUp");
    await page.until(`${chosen} === "Audit"`);
    await page.press("ArrowDown");
    await page.press("ArrowDown");
    await page.until(`${chosen} === "Calls"`);
    await page.type(key);
    await page.until(`${found}.length === 1 && ${chosen} === "ops"`);
    expect(page.requests.filter((url) => url.includes(key))).toEqual([]);
    await page.press("a", "Control");
    await page.type("zzz");
    await page.until(`document.querySelector(".palette").innerText.includes("Nothing is called so.")`);
    await page.press("Escape");
    await page.until(`!${dialog}`);
    expect(page.errors.filter((one) => !one.includes("status of 404"))).toEqual([]);
  });

  test("a question mark lists the keys, but not where it is written", async () => {
    await page.read(`location.hash = "#/calls"`);
    await page.until(`${heading} === "Calls"`);
    await page.click(`document.querySelector('[aria-label="Add a filter"]')`);
    await page.pressLetter("?");
    await page.until(`document.activeElement.value === "?"`);
    expect(await page.read<boolean>(`${dialog} === null`)).toBe(true);
    await page.press("Backspace");
    await page.read("document.activeElement.blur()");
    await page.pressLetter("?");
    await page.until(`${dialog}?.innerText.includes("Ctrl K")`);
    // Nothing opens over a dialog.
    await page.press("k", "Control");
    await page.click(button("✕"));
    await page.until(`!${dialog}`);
    expect(page.errors).toEqual([]);
  });
});
