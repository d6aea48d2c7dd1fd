/**
 * Every page of the console, in a real browser and below a path prefix: the pages of the navigation, and one address of each kind that they link to.
 * `TROUPE_SCREENSHOTS` names a folder for pictures of all of them.
 */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Demo } from "../../src/cli/demo/demo.ts";
import { Console } from "../cli/console.ts";
import { ChromiumPage, hasChromium, type Look } from "../helpers/chromium-page.ts";
import { isLongForm, some } from "../helpers/long-form.ts";
import { PrefixProxy } from "../helpers/prefix-proxy.ts";

const pictures = process.env["TROUPE_SCREENSHOTS"];
const axe = readFileSync(new URL(import.meta.resolve("axe-core/axe.min.js")), "utf8");
const rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"];
const wide = (theme: Look["theme"]): Look => ({ width: 1280, height: 800, theme });
const narrow: Look = { width: 360, height: 740, theme: "dark" };

const dialog = "document.querySelector('dialog[open]')";
const failures = "[...document.querySelectorAll('.state.bad')].map((one) => one.innerText.replaceAll('\\n', ' '))";
/** What can be used at the moment. Parts of a whole that is one stop, such as the tabs of a list, have a tabindex of -1. */
const usable = `[...document.querySelectorAll("a[href], button:not(:disabled), input:not(:disabled), select:not(:disabled), textarea:not(:disabled), summary, [tabindex='0']")]
  .filter((one) => one.tabIndex >= 0 && one.checkVisibility({ visibilityProperty: true }) && !one.closest("[inert]"))
  .filter((one) => one.type !== "radio" || one.checked || !document.querySelector(\`input[name="\${one.name}"]:checked\`))`;
/** Rows of a table are alike: in the suite the first are looked at. */
const looked = isLongForm ? "document" : `{ include: [["html"]], exclude: [["tbody > tr:nth-child(n + 7)"]] }`;
/** Where sums stand to the micro-dollar. */
const exactPlaces = "#why, #equality, [aria-label^='Spend by '], [aria-label='Tokens and cost']";
/** Sums that may be rounded and have no exact value behind them. Charts say theirs under the pointer. */
const roundedSums = `(() => {
  const found = [];
  const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const at = node.parentElement;
    if (!/\\$[\\d,]+(\\.\\d+)?/.test(node.data) || at.closest("[title*='$'], figure, pre, code, option, textarea, ${exactPlaces}")) continue;
    found.push(at.tagName + " " + node.data.slice(0, 80));
  }
  return found;
})()`;
const described = (one: string) =>
  `(${one}.tagName + " " + (${one}.getAttribute("aria-label") ?? ${one}.innerText ?? "").slice(0, 40).replaceAll("\\n", " ") + " " + (${one}.getAttribute("href") ?? ""))`;

describe.skipIf(!hasChromium)("in Chromium", () => {
  let demo: Demo;
  let proxy: PrefixProxy;
  let page: ChromiumPage;
  let home: string;
  /** The addresses that the navigation leads to. */
  let pages: readonly string[];
  beforeAll(async () => {
    demo = await Demo.start({ io: new Console(tmpdir()).io(), flags: {} }, { lines: 8_000, live: false });
    proxy = new PrefixProxy(demo.url, "/ops/troupe");
    home = `${proxy.url}/console`;
    page = await ChromiumPage.open();
    await page.beforeEachPage(
      `globalThis.violations = [];
       addEventListener("securitypolicyviolation", ({ violatedDirective, blockedURI, sample }) => violations.push([violatedDirective, blockedURI, sample].join(" ")));`,
    );
    await page.look(wide("light"));
    await page.go(home);
    await signIn();
    await page.settle();
    pages = await page.read<string[]>(
      `[...document.querySelectorAll("nav.side ul a")].map((a) => a.getAttribute("href"))`,
    );
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await proxy?.[Symbol.asyncDispose]();
    await demo?.[Symbol.asyncDispose]();
  });
  beforeEach(() => {
    page.errors.splice(0);
    page.requests.splice(0);
  });

  async function signIn(): Promise<void> {
    await page.until(`${dialog} && document.activeElement.type === "password"`);
    await page.type(demo.key);
    await page.press("Enter");
    await page.until(`!${dialog} && document.querySelector('.account')`);
  }

  async function open(address: string): Promise<void> {
    await page.read(`location.hash = ${JSON.stringify(address)}`);
    await page.until("document.querySelector('main h1')");
    await page.settle();
  }

  async function picture(address: string, look: string): Promise<void> {
    if (pictures === undefined) return;
    mkdirSync(pictures, { recursive: true });
    const name = address.replace(/^#\/?/, "").replace(/[^\w-]+/g, "_") || "overview";
    writeFileSync(join(pictures, `${name.slice(0, 60)}.${look}.png`), await page.screenshot({ full: true }));
  }

  /** @param isQuick without what takes it half of its time: how large the targets are @returns what a tool for accessibility finds at fault */
  async function barriers(isQuick = false): Promise<string[]> {
    const slow = isQuick ? { rules: { "target-size": { enabled: false } } } : {};
    const options = { runOnly: { type: "tag", values: rules }, resultTypes: ["violations"], ...slow };
    type Violation = { id: string; nodes: { target: unknown[]; failureSummary: string }[] };
    const run = `axe.run(${looked}, ${JSON.stringify(options)}).then(({ violations }) =>
      violations.map(({ id, nodes }) => ({ id, nodes: nodes.map(({ target, failureSummary }) => ({ target, failureSummary })) })))`;
    const found = await page.readApart<Violation[]>(axe, run);
    return found.flatMap(({ id, nodes }) =>
      nodes
        .slice(0, 3)
        .map((node) => `${id} at ${node.target.join(" ")}: ${node.failureSummary.split("\n").slice(0, 3).join(" ")}`),
    );
  }

  /** What an address shows, whatever its ids and values are: a view, and each parameter of it for itself, as of many together there are too many sets. */
  const kindsOf = (address: string) => {
    const [path = "", query = ""] = address.slice(2).split("?");
    const [name, ...rest] = path.split("/");
    const view = [name, ...rest.map((part) => (/^[a-z]{1,12}$/.test(part) ? part : "*"))].join("/");
    return [view, ...[...new URLSearchParams(query).keys()].map((key) => `${view}?${key}`)];
  };

  /** Pages come one by one; what leads to one that is not there yet is left out. */
  const isBuilt = (address: string) => pages.includes(/^#\/[a-z]*/.exec(address)![0]);

  test("no page and no address that one links to breaks its policy, asks elsewhere, writes an error, or shuts anybody out", async () => {
    const faults: string[] = [];
    const seen = new Set<string>();
    let known = 0;
    const queue = [...pages];
    const looks = isLongForm ? [wide("light"), wide("dark"), narrow] : [wide("light"), narrow];
    while (queue.length > 0) {
      const address = queue.shift()!;
      const kinds = kindsOf(address).filter((kind) => !seen.has(kind));
      if (kinds.length === 0 || !isBuilt(address)) continue;
      // The long form looks at all in all ways; the suite at each view once and at every third of its further addresses.
      const isNew = isLongForm || kinds.includes(kindsOf(address)[0]!);
      for (const kind of kinds) seen.add(kind);
      if (!isNew) known += 1;
      if (!isNew && known % 3 !== 1) continue;
      await open(address);
      for (const look of isNew ? looks : []) {
        await page.look(look);
        await page.settle();
        if (look === narrow) {
          const tooWide = await page.read<number>("document.documentElement.scrollWidth - innerWidth");
          if (tooWide > 0) faults.push(`${address}: ${tooWide} px too wide for a narrow window`);
        }
        const name = look === narrow ? "narrow" : look.theme;
        if (name === "light" || isLongForm || pages.includes(address))
          faults.push(...(await barriers(!isLongForm && look !== narrow)).map((text) => `${address} ${name}: ${text}`));
        await picture(address, name);
      }
      // The next one is opened as this one was seen last, which saves a layout.
      looks.reverse();
      faults.push(...(await page.read<string[]>(failures)).map((text) => `${address} shows: ${text}`));
      faults.push(...(await page.read<string[]>(roundedSums)).map((text) => `${address}: no exact value: ${text}`));
      const title = await page.read<string>("document.querySelector('main h1').innerText");
      if (title.includes("no such page")) faults.push(`${address}: there is no such page`);
      faults.push(...(await page.read<string[]>("violations.splice(0)")).map((text) => `${address} policy: ${text}`));
      faults.push(...page.errors.splice(0).map((text) => `${address} error: ${text}`));
      queue.push(
        ...(await page.read<string[]>(
          `[...document.querySelectorAll("main a[href^='#/']")].map((a) => a.getAttribute("href"))`,
        )),
      );
    }
    const elsewhere = page.requests.filter(
      (url) => !url.startsWith(home.replace(/console$/, "")) && !url.startsWith("data:"),
    );
    expect({ faults, elsewhere }).toEqual({ faults: [], elsewhere: [] });
    expect(seen.size).toBeGreaterThan(pages.length);
  });

  test("everything is reached by the keyboard alone, and seen to have the focus", async () => {
    await page.look(wide("light"));
    const faults: string[] = [];
    for (const address of pages) {
      await open(address);
      await page.read(
        `globalThis.reached = new Set(); globalThis.unseen = []; document.activeElement.blur();
         if (!globalThis.watchFocus) addEventListener("focusin", (event) => watchFocus(event));
         globalThis.watchFocus = ({ target }) => {
           reached.add(target);
           const shape = (one) => { const { outlineStyle, outlineWidth, boxShadow } = getComputedStyle(one); return outlineStyle !== "none" && outlineWidth !== "0px" || boxShadow !== "none"; };
           if (![target, target.parentElement, target.closest("label")].some((one) => one && shape(one))) unseen.push(${described("target")});
         }`,
      );
      // What comes while the keys are pressed is reached by more of them; what none leads to is not.
      let missed: string[] = [];
      for (let pressed = 0, most = 100; pressed === 0 || (missed.length > 0 && pressed < most); ) {
        const count = await page.read<number>(`${usable}.length`);
        most = 100 + 3 * count;
        for (let at = 0; at < count + 5; at += 1, pressed += 1) await page.press("Tab");
        await page.read("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))");
        missed = await page.read<string[]>(
          `${usable}.filter((one) => !reached.has(one)).map((one) => ${described("one")})`,
        );
      }
      faults.push(...missed.map((text) => `${address}: not reached: ${text}`));
      faults.push(...(await page.read<string[]>("unseen")).map((text) => `${address}: focus not seen: ${text}`));
      const fit = [
        "A",
        "BUTTON",
        "INPUT",
        "SELECT",
        "TEXTAREA",
        "SUMMARY",
        "LABEL",
        "DIALOG",
        "FORM",
        "CANVAS",
        "OPTION",
      ];
      const byMouse = (await page.listeners("click")).filter((name) => !fit.includes(name.split(" ")[0]!));
      faults.push(...byMouse.map((name) => `${address}: a ${name} that only a mouse can press`));
    }
    expect(faults).toEqual([]);
  });

  test("a session that ends under a page leaves it as it is, and it goes on after the sign-in", async () => {
    const faults: string[] = [];
    const { sessions } = demo.server.services.store;
    for (const address of pages) {
      const other = pages[address === pages[0] ? 1 : 0]!;
      await open(other);
      for (const { id } of await sessions.list(10)) await sessions.remove(id);
      await page.read(`location.hash = ${JSON.stringify(address)}`);
      await page.until(dialog);
      await signIn();
      await page.settle();
      if ((await page.read("location.hash || '#/'")) !== address) faults.push(`${address}: left`);
      faults.push(...(await page.read<string[]>(failures)).map((text) => `${address} shows: ${text}`));
      if (
        await page.read<boolean>(
          `[...document.querySelectorAll("main .state")].some((one) => one.innerText === "Loading…")`,
        )
      )
        faults.push(`${address}: still loading`);
    }
    faults.push(...page.errors.filter((text) => !text.includes("status of 401")));
    expect(faults).toEqual([]);
  });

  test("a page whose server went away says so, and comes back with it", async () => {
    const faults: string[] = [];
    for (const address of some(pages, 3)) {
      await open(pages[address === pages[0] ? 1 : 0]!);
      await page.setOffline(true);
      await page.read(`location.hash = ${JSON.stringify(address)}`);
      await page.until("document.querySelector('main [role=status]')?.innerText.includes('does not answer')");
      await page.settle();
      faults.push(...(await barriers()).map((text) => `${address} offline: ${text}`));
      await picture(address, "offline");
      await page.setOffline(false);
      // By itself: nobody presses anything.
      await page.until("!document.querySelector('main').innerText.includes('does not answer')");
      await page.settle();
      faults.push(...(await page.read<string[]>(failures)).map((text) => `${address} still shows: ${text}`));
    }
    faults.push(...page.errors.filter((text) => !text.includes("ERR_INTERNET_DISCONNECTED")));
    expect(faults).toEqual([]);
  });
});
