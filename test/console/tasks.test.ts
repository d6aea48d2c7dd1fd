/** What operators come for, from the first page on, and by how many presses: none may take more than it does here. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { tmpdir } from "node:os";
import { Demo } from "../../src/cli/demo/demo.ts";
import { Console } from "../cli/console.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { button, labelled, menuItem, rowMenu } from "./elements.ts";

const main = "document.querySelector('main').innerText";
const link = (words: string, within = "body") =>
  `[...document.querySelectorAll(${JSON.stringify(`${within} a`)})].find((one) => one.innerText.trim().startsWith(${JSON.stringify(words)}))`;
const row = (table: string, words = "") =>
  `[...document.querySelectorAll('[aria-label="${table}"] tbody tr')].find((one) => one.innerText.includes(${JSON.stringify(words)}))?.querySelector("a[data-opens]")`;

describe.skipIf(!hasChromium)("in Chromium, from the overview", () => {
  let demo: Demo;
  let page: ChromiumPage;
  let presses = 0;
  beforeAll(async () => {
    demo = await Demo.start({ io: new Console(tmpdir()).io(), flags: {} }, { lines: 8_000, live: false });
    page = await ChromiumPage.open();
    await page.look({ width: 1440, height: 900, theme: "light" });
    await page.go(`${demo.url}/console`);
    await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
    await page.type(demo.key);
    await page.press("Enter");
    await page.until(`!document.querySelector("dialog[open]") && document.querySelector(".account")`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await demo?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    await page.read("location.hash = '#/'");
    await page.until(`document.querySelector("h1")?.innerText === "Overview" && ${main}.includes("Who spends most")`);
    await page.settle();
    presses = 0;
  });
  const press = async (element: string) => {
    await page.until(element);
    await page.click(element);
    presses += 1;
  };

  test("why did a call fail? three presses", async () => {
    await press(link("Calls", "nav"));
    await press(link("Failed", "main .tabs"));
    await page.settle();
    await press(row("Calls"));
    await page.until(`document.querySelector(".pane")?.innerText.includes("Why")`);
    expect(presses).toBe(3);
  });

  test("who spends most? none", async () => {
    await page.until(`document.querySelector('[aria-label^="Who spends most"] tbody tr')`);
    const bottom = `document.querySelector('[aria-label^="Who spends most"] tbody tr').getBoundingClientRect().bottom`;
    expect(await page.read<number>(bottom)).toBeLessThan(900);
    expect(presses).toBe(0);
  });

  test("a key with a budget: three presses, and its name and sum", async () => {
    await press(link("Keys and budgets", "nav"));
    await press(button("Create a key"));
    await page.until(`document.activeElement === ${labelled("Name", "dialog[open]")}`);
    await page.type("billing bot");
    await page.read(`${labelled("Budget in dollars", "dialog[open]")}.focus()`);
    await page.type("25");
    await press(`document.querySelector("dialog[open] button[type=submit]")`);
    await page.until(`document.querySelector("dialog[open] .secret")?.innerText.startsWith("trp_")`);
    expect(presses).toBe(3);
    await page.click(button("I have copied it"));
    await page.until(`location.hash.startsWith("#/keys/key_") && ${main}.includes("$25.00")`);
  });

  test("rotate a key: four presses", async () => {
    await press(link("Keys and budgets", "nav"));
    await press(rowMenu("editors"));
    await press(menuItem("Rotate…"));
    await press(`document.querySelector("dialog[open] button[type=submit]")`);
    await page.until(`document.querySelector("dialog[open] .secret")?.innerText.startsWith("trp_")`);
    expect(presses).toBe(4);
    await page.click(button("I have copied it"));
    await page.until(`!document.querySelector("dialog[open]")`);
  });

  test("a canary that stopped goes on: two presses", async () => {
    await press(link("acme/support: the variant canary", "main"));
    await press(button("Let canary go on"));
    await page.until(`!${button("Let canary go on")} && ${button("Stop canary")}`);
    expect(presses).toBe(2);
  });

  test("a persona with a mistake is at its line by three presses", async () => {
    await press(link("Personas", "nav"));
    await press(rowMenu("acme/triage"));
    await press(menuItem("Source"));
    await page.until(`document.querySelector("main textarea, main .prism-code-editor")`);
    expect(presses).toBe(3);
  });

  test("two models are compared by two presses, their names and a question", async () => {
    await press(link("Playground", "nav"));
    await press(button("Compare two"));
    await page.until(`document.querySelectorAll('main [role=combobox]').length === 2`);
    expect(presses).toBe(2);
  });
});
