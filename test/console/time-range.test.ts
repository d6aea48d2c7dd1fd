/** One time for all pages in a real Chromium: chosen once, kept from page to page; its zone in charts and lists; and what stays in its place while calls come. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { periodOf } from "../../src/console/period.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { button, filterLine, labelled, suggestions } from "./elements.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const dayMs = 86_400_000;
const now = Date.now();
/** When the newest call began. */
const begun = now - 1;
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};
const rows = (table: string) => `document.querySelectorAll('[aria-label="${table}"] tbody tr').length`;
const stat = (label: string) =>
  `[...document.querySelectorAll(".stat")].find((one) => one.firstElementChild.innerText === ${JSON.stringify(label)})?.innerText.split("\\n")[1]`;
const pageLink = (title: string) =>
  `[...document.querySelectorAll("nav.side a")].find((one) => one.innerText.trim().startsWith(${JSON.stringify(title)}))`;
const pressed = `document.querySelector('.range [aria-pressed="true"]')?.innerText`;
const menu = `document.querySelector(".range summary")`;

describe.skipIf(!hasChromium)("in Chromium", () => {
  let upstream: UpstreamServer;
  let troupe: Troupe;
  let page: ChromiumPage;
  beforeAll(async () => {
    upstream = new UpstreamServer(() => jsonResponse(answer));
    troupe = await Troupe.start({ providers: { xai: { baseUrl: upstream.url } }, config: { listen } });
    const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    // One a day: two of them within the last 24 hours.
    await troupe.server.services.store.ledger.append(
      Array.from({ length: 20 }, (_, at) =>
        ledgerLine(`req_${at}`, { at: now - Math.max(0, at - 1) * dayMs - 1, model: "xai/m", cost: 1_000_000 }),
      ),
    );
    page = await ChromiumPage.open();
    await page.look({ width: 1440, height: 900, theme: "light" });
    await page.go(`${troupe.url}/console#/calls`);
    await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
    await page.type(key);
    await page.press("Enter");
    await page.until(`!document.querySelector("dialog[open]") && ${rows("Calls")} > 0`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    upstream?.[Symbol.dispose]();
  });
  beforeEach(() => void page.errors.splice(0));

  test("a time is chosen once, and holds on every page until another is", async () => {
    expect(await page.read<string>(pressed)).toBe("24 h");
    await page.until(`${rows("Calls")} === 2`);
    await page.click(button("7 d"));
    await page.until(`${rows("Calls")} === 8 && location.hash === "#/calls?since=7d"`);
    for (const [title, shown] of [
      ["Spend", `${stat("Attempts")} === "8"`],
      ["Overview", `${stat("Attempts")} === "8"`],
      ["Providers", `document.body.innerText.includes("Against 7 days before")`],
      ["Calls", `${rows("Calls")} === 8`],
    ] as const) {
      await page.click(pageLink(title));
      await page.until(`${shown} && ${pressed} === "7 d"`);
    }
    // Days of one's own, both included; a reload keeps them.
    await page.click(menu);
    await page.until(labelled("From"));
    const [from, to] = [dayOf(now - 10 * dayMs), dayOf(now - 8 * dayMs)];
    const fill = (label: string, day: string) =>
      page.read(
        `(() => { const one = ${labelled(label)}; one.value = "${day}"; one.dispatchEvent(new Event("input", { bubbles: true })); })()`,
      );
    await fill("From", from);
    await fill("To", to);
    await page.click(button("Show these days"));
    await page.until(
      `${rows("Calls")} === 3 && location.hash === "#/calls?since=${from}&until=${dayOf(now - 7 * dayMs)}"`,
    );
    await page.click(pageLink("Spend"));
    await page.until(`${stat("Attempts")} === "3" && ${menu}.innerText.includes("${from} to ${to}")`);
    await page.read("globalThis.isOld = true; location.reload()");
    await page.until(
      `!globalThis.isOld && ${menu}?.innerText.includes("${from} to ${to}") && ${stat("Attempts")} === "3"`,
    );
    // A time of an address holds where it leads, and no further.
    await page.read(`location.hash = "#/calls?since=400d"`);
    await page.until(`${rows("Calls")} === 20 && ${menu}.innerText.startsWith("all that is kept")`);
    await page.click(pageLink("Spend"));
    await page.until(`${stat("Attempts")} === "3"`);
    await page.click(button("24 h"));
    await page.until(`${stat("Attempts")} === "2"`);
    expect(page.errors).toEqual([]);
  });

  test("the menu of a time is used by keyboard, closes by Escape and a press elsewhere, and fits a narrow window", async () => {
    await page.look({ width: 360, height: 740, theme: "dark" });
    await page.read(`${menu}.focus()`);
    await page.press("Enter");
    await page.until(`document.querySelector(".range details").open`);
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    const body = `document.querySelector(".range .menu-body").getBoundingClientRect()`;
    expect(await page.read<boolean>(`${body}.left >= 0 && ${body}.right <= innerWidth`)).toBe(true);
    await page.press("Escape");
    await page.until(`!document.querySelector(".range details").open && document.activeElement === ${menu}`);
    await page.click(menu);
    await page.until(`document.querySelector(".range details").open`);
    await page.click(`document.querySelector("h1")`);
    await page.until(`!document.querySelector(".range details").open`);
    await page.look({ width: 1440, height: 900, theme: "light" });
    expect(page.errors).toEqual([]);
  });

  test("a zone is the same in lists and in charts, and is kept", async () => {
    await page.setZone("America/New_York");
    await page.read(`globalThis.isOld = true; location.hash = "#/spend?since=24h"; location.reload()`);
    await page.until(`!globalThis.isOld && document.querySelector(".plot") && ${stat("Attempts")} === "2"`);
    const wanted = (zone: string) =>
      page.read<string>(
        `new Date(${begun}).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: "${zone}" })`,
      );
    const listed = `document.querySelector('[aria-label="Calls"] tbody time').title`;
    const hour = (zone: string) =>
      page.read<string>(
        `new Date(${Math.floor(begun / 3_600_000) * 3_600_000}).toLocaleString("sv", { dateStyle: "short", timeStyle: "short", timeZone: "${zone}" })`,
      );
    const first = `[...document.querySelectorAll('figure details tbody tr')].find((row) => !row.cells[1].innerText.startsWith("$0.00"))?.cells[0].innerText`;
    for (const [zone, choice, name] of [
      ["America/New_York", "local", /GMT-[45]|E[SD]T/],
      ["UTC", "utc", /UTC/],
    ] as const) {
      await page.click(menu);
      await page.until(labelled("Times are said in"));
      await page.choose(labelled("Times are said in"), choice);
      await page.press("Escape");
      await page.read(`document.querySelector("figure details").open = true`);
      await page.until(`${first}?.startsWith(${JSON.stringify(await hour(zone))})`);
      expect(await page.read<string>(first)).toMatch(name);
      await page.click(pageLink("Calls"));
      await page.until(`${rows("Calls")} === 2 && ${listed}.startsWith(${JSON.stringify(await wanted(zone))})`);
      await page.click(pageLink("Spend"));
      await page.until(`document.querySelector(".plot")`);
    }
    await page.setZone("");
    expect(page.errors).toEqual([]);
  });

  test("a key that never called is suggested by its name", async () => {
    for (let at = 0; at < 60; at += 1) await troupe.createKey({ name: `filler ${at}`, tier: "pro" });
    await troupe.createKey({ name: "never called", tier: "pro" });
    await page.click(pageLink("Calls"));
    await page.until(`${rows("Calls")} === 2`);
    await page.click(filterLine);
    await page.type("key:");
    await page.type("never");
    await page.until(`${suggestions}[0]?.startsWith("never called")`);
    await page.press("Enter");
    await page.until(`document.body.innerText.includes("Nothing fits these filters.")`);
    await page.until(`document.querySelector(".filter-line").innerText.includes("key: never called")`);
    expect(page.errors).toEqual([]);
  });

  test("a row that is open stays in its list while calls come live", async () => {
    const call = async () => {
      const body = { model: "xai/live", messages: [{ role: "user", content: "hi" }] };
      await (await troupe.post("/gateway/v1/chat/completions", body)).text();
    };
    await page.read(`location.hash = "#/calls?live=1"`);
    await page.until(`document.body.innerText.includes("Live: calls appear as they end.")`);
    await call();
    await page.until(`${rows("Calls")} === 3`);
    await page.click(`document.querySelector('[aria-label="Calls"] tbody').rows[0].cells[5]`);
    const place = `document.querySelector('[aria-label="Calls"] tr[aria-current]')?.rowIndex`;
    await page.until(`document.querySelector("aside #why") && ${place} === 1`);
    await Promise.all(Array.from({ length: 60 }, call));
    await page.until(button("Show 60 new calls"));
    expect(await page.read<number>(place)).toBe(1);
    // Who asks for the new ones sees the open one among them, however far down.
    await page.click(button("Show 60 new calls"));
    await page.until(`${place} === 61`);
    await page.press("Escape");
    await page.until(`!document.querySelector("aside")`);
    expect(page.errors).toEqual([]);
  });
});

describe("a time in numbers", () => {
  const at = Date.parse("2026-03-15T10:20:30Z");
  test.each([
    ["1h", "2026-03-15T09:20:30Z", 3_600_000],
    ["24h", "2026-03-14T11:00:00Z", dayMs],
    ["7d", "2026-03-09T00:00:00Z", 7 * dayMs],
    ["2w", "2026-03-02T00:00:00Z", 14 * dayMs],
    ["today", "2026-03-15T00:00:00Z", dayMs],
    ["month", "2026-03-01T00:00:00Z", 28 * dayMs],
    ["2026-03-15", "2026-03-15T00:00:00Z", 11 * 3_600_000],
    ["1773532800", "2026-03-15T00:00:00Z", 11 * 3_600_000],
    ["nonsense", "2026-02-14T00:00:00Z", (29 * 24 + 11) * 3_600_000],
  ])("%s begins at %s, and is compared with as much before", (since, from, shiftMs) => {
    expect(periodOf({ since }, at)).toEqual({ since: Date.parse(from), shiftMs });
  });

  test("days are compared with as many days before", () => {
    const span = periodOf({ since: "2026-03-01", until: "2026-03-04" }, at);
    expect(span).toEqual({ since: Date.UTC(2026, 2, 1), until: Date.UTC(2026, 2, 4), shiftMs: 3 * dayMs });
  });
});
