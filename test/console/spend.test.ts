/** Overview and Spend in a real Chromium: what is on the screen is what the ledger has. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const dayMs = 86_400_000;
const now = Date.now();
const models = ["openai/gpt-x", "anthropic/claude-y", "google/gemini-z"];

/** Calls of five days, whose costs need all six digits. */
const lines: LedgerLine[] = Array.from({ length: 60 }, (_, at) =>
  ledgerLine(`req_${at}`, {
    at: now - (at % 5) * dayMs - 1,
    model: models[at % 3]!,
    keyId: "key_1",
    client: at % 2 === 0 ? "curl" : null,
    cost: at % 10 === 9 ? null : 1_000_003 * (at + 1) + 777_777 * (at % 3),
    costs: null,
    firstTokenMs: 100 + at,
    ended: at % 12 === 0 ? "broken" : "finished",
    failure: at % 12 === 0 ? "server_error" : null,
  }),
);

const exact = (micro: number) =>
  `$${(micro / 1e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 6 })}`;
const costOf = (chosen: readonly LedgerLine[]) => chosen.reduce((sum, { cost }) => sum + (cost ?? 0), 0);
const dayOf = (at: number) => new Date(at).toISOString().slice(0, 10);
const ofDay = (day: string, model: string) =>
  costOf(lines.filter((line) => dayOf(line.at) === day && line.model === model));
/** Texts of the cells of a table's rows, without what only screen readers read. */
const cells = (table: string) =>
  `[...document.querySelectorAll(${JSON.stringify(`${table} tbody tr`)})].map((row) => [...row.cells].map((cell) => cell.innerText.split("\\n")[0]))`;
const stat = (label: string) =>
  `[...document.querySelectorAll(".stat")].find((one) => one.firstElementChild.innerText === ${JSON.stringify(label)})?.innerText.split("\\n")`;
const hasRows = `document.querySelector("#equality") && document.querySelector(".plot rect")`;

describe.skipIf(!hasChromium)("in Chromium", () => {
  let troupe: Troupe;
  let page: ChromiumPage;
  beforeAll(async () => {
    troupe = await Troupe.start({ config: { listen } });
    const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    page = await ChromiumPage.open();
    await page.go(`${troupe.url}/console`);
    await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
    await page.type(key);
    await page.press("Enter");
    await page.until(
      `!document.querySelector("dialog[open]") && document.querySelector(".steps")?.innerText.includes("No provider")`,
    );
  });
  afterAll(async () => {
    await page[Symbol.asyncDispose]();
    await troupe[Symbol.asyncDispose]();
  });
  beforeEach(() => void page.errors.splice(0));
  const faults = () => page.errors;
  const open = (hash: string, ready: string) =>
    page.read(`location.hash = ${JSON.stringify(hash)}`).then(() => page.until(ready));

  test("a server that nobody has called says what to do first", async () => {
    expect(await page.read<string>("document.querySelector('.steps').innerText")).toMatch(
      /No provider is set up.*Make a key.*curl http/s,
    );
    await open("#/providers", `document.querySelector("main .state code")`);
    expect(await page.read<string>("document.querySelector('main .state').innerText")).toMatch(
      /No provider is set up.*OPENAI_API_KEY.*troupe\.yaml/s,
    );
    await open("#/", `document.querySelector(".steps")`);
    const { ledger, budgets } = troupe.server.services.store;
    await ledger.append(lines);
    await budgets.set({ scope: "all", period: "day", limit: 1_000_000, updatedAt: now });
    await page.click(`[...document.querySelectorAll("button")].find((one) => one.innerText === "Look again")`);
    await page.until(`document.querySelectorAll(".plot").length === 4`);
  });

  test("the overview has the numbers of the ledger", async () => {
    await open("#/?since=30d", `${stat("Attempts")}?.[1] === "60"`);
    expect(await page.read<string[]>(stat("Errors"))).toEqual(["Errors", "8.33 %", "5 broken of 60 attempts"]);
    const [, cost, note] = await page.read<string[]>(stat("Cost"));
    expect(cost).toBe(
      `$${(costOf(lines) / 1e6).toLocaleString("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`,
    );
    expect(note).toBe("without 6 attempts of unknown cost");
    const spenders = cells('[aria-label="Who spends most, by key"]');
    await page.until(`${spenders}[0]?.[3] === "60"`);
    const payers = await page.read<string[][]>(spenders);
    expect(payers.map(([name, , , calls]) => [name, calls])).toEqual([["key_1", "60"]]);
    const ending = `[...document.querySelectorAll(".panel")].find((one) => one.innerText.startsWith("Ends soon"))`;
    await page.until(`${ending}.innerText.includes("$0.00 of $1.00 left")`);
    expect(await page.read<string>(`${ending}.innerText`)).toMatch(/spent\s+all, day\s+spent; opens/);
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    expect(faults()).toEqual([]);
  });

  test("the overview's numbers stand beside those of the time before, exact behind them, and who spends most is on its first screen", async () => {
    await open("#/?since=today", `${stat("Attempts")}?.[1].startsWith("12")`);
    const ofDays = (days: number) => lines.filter(({ at }) => dayOf(at) === dayOf(now - days * dayMs));
    const [today, before] = [ofDays(0), ofDays(1)] as const;
    const line = (label: string) =>
      `[...document.querySelectorAll(".stat")].find((one) => one.firstElementChild.innerText === "${label}").querySelector(".stat-line")`;
    await page.until(`${line("Cost")}.querySelector("small")`);
    const grown = 100 * (costOf(today) / costOf(before) - 1);
    const text = (label: string) =>
      page.read<string[]>(`[...${line(label)}.children].map((one) => one.firstChild.textContent || one.innerText)`);
    expect(await text("Attempts")).toEqual(["12", "±0 %"]);
    expect((await text("Cost"))[1]).toBe(`${grown < 0 ? "−" : "+"}${Math.abs(grown).toFixed(1)} %`);
    expect(await page.read<string>(`${line("Cost")}.querySelector("small").title`)).toBe(
      `yesterday: ${exact(costOf(before))}`,
    );
    expect(await page.read<string>(`${line("Tokens")}.querySelector("strong").title`)).toBe("1,440");
    await open("#/?since=30d", `document.querySelectorAll(".stat .sparkline").length === 5`);
    const payers = `document.querySelector('[aria-label="Who spends most, by key"]').getBoundingClientRect().bottom`;
    for (const [width, height] of [
      [1440, 900],
      [1024, 768],
    ] as const) {
      await page.look({ width, height, theme: "light" });
      await page.settle();
      expect(await page.read<number>(payers)).toBeLessThan(height);
    }
    await page.look({ width: 1280, height: 800, theme: "light" });
    expect(faults()).toEqual([]);
  });

  test("rows of spend are the ledger's, to the micro-dollar, and lead to their calls", async () => {
    await open("#/spend?since=30d", hasRows);
    const rows = await page.read<string[][]>(cells('[aria-label="Spend by model"]'));
    const expected = models
      .map((model) => ({ model, own: lines.filter((line) => line.model === model) }))
      .toSorted((a, b) => costOf(b.own) - costOf(a.own))
      .map(({ model, own }) => [model, exact(costOf(own)), String(own.length)]);
    expect(rows.map(([model, cost, , calls]) => [model, cost, calls])).toEqual(expected as never);
    expect(await page.read<string>("document.querySelector('#equality').innerText")).toStartWith(
      `The rows add up to the ledger's ${exact(costOf(lines))}, to the micro-dollar.`,
    );
    expect(await page.read<string[]>(stat("Unknown cost"))).toContain("6");
    const address = await page.read<string>(
      `[...document.querySelectorAll("td a")].find((one) => one.innerText.includes("attempts of openai/gpt-x")).hash`,
    );
    expect(address).toMatch(/^#\/calls\?since=30d&model=openai%2Fgpt-x$/);
    const file = await page.read<string>(
      `fetch(document.querySelector("a[download]").href).then((answer) => answer.text())`,
    );
    expect(file.split("\r\n")[1]).toStartWith("anthropic/claude-y,20,");
  });

  test("a chart's table has every value, and the arrow keys and the pointer read them exactly", async () => {
    await page.read(`document.querySelector("figure details").open = true`);
    await page.until(`document.querySelector("figure details table")`);
    const rows = await page.read<string[][]>(cells("figure details"));
    const series = await page.read<string[]>(
      `[...document.querySelectorAll("figure .legend li")].map((one) => one.innerText.trim())`,
    );
    expect(series.toSorted()).toEqual(models.toSorted());
    expect(rows).toHaveLength(30);
    for (const [day, ...values] of rows) expect(values).toEqual(series.map((model) => exact(ofDay(day!, model))));

    await page.read(`document.querySelector(".plot").focus()`);
    const spoken = (day: string) =>
      `${day}: ${series.map((model) => `${model} ${exact(ofDay(day, model))}`).join(", ")}`;
    const live = `document.querySelector("figure [aria-live]").textContent`;
    await page.press("End");
    await page.until(`${live} === ${JSON.stringify(spoken(dayOf(now)))}`);
    await page.press("ArrowLeft");
    await page.until(`${live} === ${JSON.stringify(spoken(dayOf(now - dayMs)))}`);

    await page.press("Escape");
    const sizes = `[...document.querySelectorAll("figure"), document.documentElement].map((one) => one.scrollHeight).join()`;
    const tooltip = `document.querySelector(".tooltip")`;
    for (const width of [1440, 360]) {
      await page.look({ width, height: 900, theme: "light" });
      await page.settle();
      await page.hover("document.querySelector('figure h3')");
      await page.until(`!${tooltip}`);
      const before = await page.read<string>(sizes);
      await page.hover("document.querySelector('.plot svg')");
      await page.until(tooltip);
      expect(await page.read<string>(sizes)).toBe(before);
      expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    }
    await page.look({ width: 1280, height: 800, theme: "light" });
    await page.settle();
    // The last day's bar: hatched, for it is not over. What stands at the pointer begins with the most, and ends with all of it.
    expect(await page.read<number>(`document.querySelectorAll(".plot .unfinished").length`)).toBe(1);
    await page.hover("document.querySelector('.plot .unfinished')");
    const today = series.map((model) => [model, ofDay(dayOf(now), model)] as const).toSorted((a, b) => b[1] - a[1]);
    const lines = [...today, ["total", today.reduce((sum, [, cost]) => sum + cost, 0)] as const];
    const shown = lines.map(([name, cost]) => [name, exact(cost)]);
    await page.until(
      `JSON.stringify([...${tooltip}.querySelectorAll("dl > div")].map((one) => [...one.children].map((part) => part.innerText.trim()))) === ${JSON.stringify(JSON.stringify(shown))}`,
    );
    // A span leads to its calls: that day's.
    await page.click("document.querySelector('.plot .unfinished')");
    await page.until(
      `location.hash === ${JSON.stringify(`#/calls?since=${encodeURIComponent(`${dayOf(now)}T00:00:00.000Z`)}&until=${encodeURIComponent(`${dayOf(now + dayMs)}T00:00:00.000Z`)}`)}`,
    );
    expect(faults()).toEqual([]);
  });

  test("the time and the group stand in the address, and a time without calls says what to do", async () => {
    await open("#/spend?since=today&by=client", `${stat("Attempts")}?.[1] === "12"`);
    const rows = await page.read<string[][]>(cells('[aria-label="Spend by client"]'));
    expect(rows.map(([client]) => client).toSorted()).toEqual(["curl", "none"]);
    await open("#/spend?since=30d&by=time", hasRows);
    const links = await page.read<string[]>(
      `[...document.querySelector('[aria-label="Spend by time"] tbody tr').querySelectorAll("a")].map((link) => link.hash)`,
    );
    const [today, tomorrow] = [dayOf(now), dayOf(now + dayMs)];
    expect(links).toEqual([
      `#/spend?since=${today}&by=model&until=${tomorrow}`,
      `#/calls?since=${today}&until=${tomorrow}`,
    ]);
    await open(links[0]!, `${stat("Attempts")}?.[1] === "12"`);
    await open("#/spend?since=2001-01-01&until=2001-01-02", `document.querySelector(".state .button")`);
    expect(await page.read<string>("document.querySelector('.state').innerText")).toContain("Look in all that is kept");
    expect(faults()).toEqual([]);
  });
});
