/** Tables in a real Chromium: a head that stays in sight, columns that are chosen, an order that is the server's, cards where there is no room, and money by one rule. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { money } from "../../src/console/ui/numbers.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";
import { menuItem, rowMenu } from "./elements.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const cells = (table: string, at: number) =>
  `[...document.querySelectorAll(${JSON.stringify(`[aria-label="${table}"] tbody tr`)})].map((row) => row.cells[${at}].innerText.split("\\n")[0].trim())`;
const head = (table: string, title: string) =>
  `[...document.querySelectorAll(${JSON.stringify(`[aria-label="${table}"] thead th`)})].find((one) => one.innerText.startsWith(${JSON.stringify(title)}))`;

describe.skipIf(!hasChromium)("in Chromium", () => {
  let troupe: Troupe;
  let page: ChromiumPage;
  beforeAll(async () => {
    troupe = await Troupe.start({ config: { listen } });
    const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    for (const name of ["beta", "alpha", "gamma"]) await troupe.createKey({ name, tier: "pro" });
    // One reading of the clock: lines of the same millisecond would stand in the order of their ids.
    const now = Date.now();
    await troupe.server.services.store.ledger.append(
      Array.from({ length: 50 }, (_, at) =>
        ledgerLine(`req_${at}`, {
          ...{ at: now - at - 1, model: "xai/m", client: "curl" },
          cost: at === 0 ? 1_234_567 : at === 1 ? 0 : 1_000,
        }),
      ),
    );
    page = await ChromiumPage.open();
    await page.look({ width: 1440, height: 900, theme: "light" });
    await page.go(`${troupe.url}/console#/calls`);
    await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
    await page.type(key);
    await page.press("Enter");
    await page.until(`!document.querySelector("dialog[open]") && ${cells("Calls", 0)}.length === 50`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
  });
  beforeEach(() => void page.errors.splice(0));

  test("the head stays in sight, says the order, and what is fine bears no mark", async () => {
    const begun = head("Calls", "Begun");
    expect(await page.read<string>(`${begun}.getAttribute("aria-sort") + ${begun}.innerText`)).toBe(
      "descendingBegun ↓",
    );
    await page.read("scrollTo(0, document.documentElement.scrollHeight)");
    await page.until(`scrollY > 200 && Math.abs(${begun}.getBoundingClientRect().top) < 2`);
    expect(await page.read<number>(`document.querySelectorAll('[aria-label="Calls"] tbody .badge').length`)).toBe(0);
    await page.read("scrollTo(0, 0)");
    expect(page.errors).toEqual([]);
  });

  test("a column of money has as many digits as its largest sum needs, and all of them behind each", async () => {
    const at = await page.read<number>(`${head("Calls", "Cost")}.cellIndex`);
    expect((await page.read<string[]>(cells("Calls", at))).slice(0, 3)).toEqual(["$1.23", "$0.00", "<$0.01"]);
    expect(
      await page.read<string[]>(
        `[...document.querySelectorAll('[aria-label="Calls"] tbody td:nth-child(${at + 1}) [title]')].slice(0, 3).map((one) => one.title)`,
      ),
    ).toEqual(["$1.234567", "$0.00", "$0.001"]);
  });

  test("columns are chosen at the top, by keyboard too", async () => {
    const menu = `document.querySelector('summary[aria-label="Columns"]')`;
    await page.read(`${menu}.focus()`);
    await page.press("Enter");
    const box = `[...document.querySelectorAll(".choice-of-columns label")].find((one) => one.innerText.trim() === "Client")?.control`;
    await page.until(box);
    expect(await page.read<boolean>(`${menu}.getBoundingClientRect().bottom < 250`)).toBe(true);
    await page.click(box);
    await page.until(`${head("Calls", "Client")} && ${cells("Calls", 9)}[0] === "curl"`);
    await page.click(box);
    await page.until(`!${head("Calls", "Client")}`);
    await page.press("Escape");
    await page.until(`!document.querySelector(".choice-of-columns details").open`);
    expect(page.errors).toEqual([]);
  });

  test("keys are sorted at the server, by their heads", async () => {
    await page.read(`location.hash = "#/keys"`);
    await page.until(`${cells("Keys", 0)}.length >= 4`);
    const names = async (): Promise<string[]> =>
      (await page.read<string[]>(cells("Keys", 0))).filter((one) => /alpha|beta|gamma/.test(one));
    const name = `${head("Keys", "Name")}.querySelector("button")`;
    await page.click(name);
    await page.until(`location.hash === "#/keys?order=name.asc" && ${head("Keys", "Name")}?.ariaSort === "ascending"`);
    await page.until(`${cells("Keys", 0)}[0] === "alpha"`);
    expect(await names()).toEqual(["alpha", "beta", "gamma"]);
    expect(page.requests.some((url) => url.includes("sort=name&order=asc"))).toBe(true);
    await page.click(name);
    await page.until(`location.hash === "#/keys?order=name.desc" && ${cells("Keys", 0)}.at(-1) === "alpha"`);
    expect(await names()).toEqual(["gamma", "beta", "alpha"]);
    expect(page.errors).toEqual([]);
  });

  test("what can be done with a row is a menu: arrows go through it, Escape gives the focus back, an item leads on", async () => {
    await page.read(`location.hash = "#/keys"`);
    await page.until(rowMenu("alpha"));
    const focused = "document.activeElement.innerText";
    await page.read(`${rowMenu("alpha")}.focus()`);
    await page.press("Enter");
    await page.until(`${focused} === "Calls" && ${rowMenu("alpha")}.ariaExpanded === "true"`);
    expect(await page.read<string>(`document.activeElement.closest("[role=menu]").ariaLabel`)).toBe("alpha");
    await page.press("ArrowDown");
    expect(await page.read<string>(focused)).toBe("Spend");
    await page.press("ArrowUp");
    await page.press("ArrowUp");
    expect(await page.read<string>(focused)).toBe("Revoke…");
    await page.press("Home");
    expect(await page.read<string>(focused)).toBe("Calls");
    await page.press("Escape");
    await page.until(`document.activeElement === ${rowMenu("alpha")} && !document.querySelector("[role=menuitem]")`);
    await page.click(rowMenu("alpha"));
    await page.click(menuItem("Rotate…"));
    await page.until(`document.querySelector("dialog[open] h2")?.innerText === "Rotate alpha"`);
    expect(await page.read<string>("location.hash")).toMatch(/^#\/keys\/key_\w+\?act=rotate$/);
    await page.press("Escape");
    await page.until(`!document.querySelector("dialog[open]") && !location.hash.includes("act")`);
    expect(page.errors).toEqual([]);
  });

  test("rows of each list are gone through by j and k, and opened by Enter", async () => {
    const set = `fetch("admin/v1/budgets/all/month", { method: "PUT", headers: { "content-type": "application/json" }, body: '{"dollars":100}' }).then((one) => one.status)`;
    expect(await page.read<number>(set)).toBe(200);
    for (const [list, caption, to] of [
      ["#/calls", "Calls", /^#\/calls\?call=req_\d+$/],
      ["#/keys", "Keys", /^#\/keys\/key_/],
      ["#/keys/budgets", "Budgets", /^#\/(keys|spend)/],
      ["#/personas", "Personas", /^#\/personas\/\w+%2F/],
      ["#/system/audit", "What was done", /^#\/keys\/budgets$/],
      ["#/system/sessions", "Browsers that are signed in", /^#\/keys\/key_/],
    ] as const) {
      await page.read(`location.hash = ${JSON.stringify(list)}`);
      const row = `document.querySelector('[aria-label="${caption}"] tbody tr.opens')`;
      await page.until(`location.hash === ${JSON.stringify(list)} && ${row}`);
      await page.read("document.activeElement.blur()");
      await page.press("j");
      await page.until(`${row}.contains(document.activeElement)`);
      await page.press("Enter");
      await page.until(`location.hash !== ${JSON.stringify(list)}`);
      expect(await page.read<string>("location.hash")).toMatch(to);
    }
  });

  test("in a narrow window rows are cards with each value's name, and nothing scrolls sideways", async () => {
    await page.look({ width: 360, height: 740, theme: "dark" });
    await page.read(`location.hash = "#/calls"`);
    await page.until(`${cells("Calls", 0)}.length === 50`);
    const row = `document.querySelector('[aria-label="Calls"] tbody tr')`;
    await page.until(`getComputedStyle(${row}).display === "grid"`);
    expect(await page.read<string>(`getComputedStyle(${row}.cells[2], "::before").content`)).toBe('"Model"');
    expect(
      await page.read<number>(
        `Math.max(document.documentElement.scrollWidth - innerWidth, document.querySelector('[aria-label="Calls"]').scrollWidth - innerWidth)`,
      ),
    ).toBeLessThanOrEqual(0);
    await page.look({ width: 1440, height: 900, theme: "light" });
    await page.until(`getComputedStyle(${row}).display === "table-row"`);
    expect(page.errors).toEqual([]);
  });
});

test.each([
  [1_234_567, 1_234_567, "$1.23"],
  [1_000, 1_234_567, "<$0.01"],
  [6_000, 1_234_567, "$0.01"],
  [0, 1_234_567, "$0.00"],
  [null, 1_234_567, "unknown"],
  [40, 90_000, "<$0.0001"],
  [12_345, 90_000, "$0.0123"],
  [7, 9_000, "$0.000007"],
  [-2_000_000, 2_000_000, "−$2.00"],
  [0, 0, "$0.00"],
])("%p micro-dollars beside %p are %s", (micro, most, words) => {
  expect(money(micro, most)).toBe(words);
});
