/** A key's life in a real Chromium, by keyboard alone: made with a budget, though the session ends meanwhile, then rotated and revoked. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { Troupe } from "../helpers/troupe.ts";
import { filterLine } from "./elements.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const focused = "(document.activeElement.labels?.[0] ?? document.activeElement).innerText";
const secret = "document.querySelector('dialog[open] .secret')?.innerText";
const dialog = "document.querySelector('dialog[open]')";
const main = "document.querySelector('main').innerText";

describe.skipIf(!hasChromium)("in Chromium", () => {
  let troupe: Troupe;
  let page: ChromiumPage;
  let key: string;
  beforeAll(async () => {
    troupe = await Troupe.start({ config: { listen } });
    key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    page = await ChromiumPage.open();
    await page.go(`${troupe.url}/console#/keys`);
    await signIn();
    // The page stands behind the sign-in already; the keyboard reaches it once that is gone.
    await page.until(`!${dialog} && ${main}.includes("Create a key")`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
  });

  const signIn = async () => {
    await page.until("document.activeElement.type === 'password'");
    await page.type(key);
    await page.press("Enter");
  };
  /** Goes on by the tabulator to what begins with a name. */
  const tabTo = async (name: string) => {
    for (let steps = 0; steps < 80; steps += 1) {
      await page.press("Tab");
      if (await page.read<boolean>(`Boolean(${focused}?.startsWith(${JSON.stringify(name)}))`)) return;
    }
    throw new Error(`'${name}' can't be reached; the page has: ${await page.read<string>("document.body.innerText")}`);
  };
  const press = async (name: string) => {
    await tabTo(name);
    await page.press("Enter");
  };
  const statusOf = async (one: string) => (await troupe.fetch("/v1/models", { key: one })).status;
  const shownSecret = async (before = "") => {
    await page.until(`${secret} && ${secret} !== ${JSON.stringify(before)}`);
    // Who has no mouse copies it next.
    expect(await page.read<string>(focused)).toBe("Copy the key");
    return page.read<string>(secret);
  };

  test("a key is made with a budget, rotated without an outage and revoked, by keyboard alone", async () => {
    await press("Create a key");
    await page.until(`${focused}.startsWith("Name")`);
    await page.type("carla");
    await tabTo("Budget in dollars");
    await page.type("0.5");
    const { sessions } = troupe.server.services.store;
    for (const { id } of await sessions.list(10)) await sessions.remove(id);
    // The form is sent once somebody has signed in again; nothing that was typed is lost.
    await page.press("Enter");
    await signIn();
    const first = await shownSecret();
    expect(await statusOf(first)).toBe(200);
    await press("I have copied it");
    await page.until(`location.hash.startsWith("#/keys/key_") && ${main}.includes("$0.50")`);
    await page.until("document.activeElement.tagName === 'H1' && document.activeElement.innerText === 'carla'");

    await press("Rotate");
    await page.until(dialog);
    await press("Rotate carla");
    const second = await shownSecret();
    expect(await Promise.all([first, second].map(statusOf))).toEqual([200, 200]);
    await page.press("Escape");
    await page.until(`!${dialog}`);
    expect(await page.read<string>(focused)).toBe("Rotate");

    await press("Revoke");
    await page.until(dialog);
    await press("Revoke carla");
    await page.until("document.querySelector('main dd').innerText === 'revoked'");
    expect(await Promise.all([first, second].map(statusOf))).toEqual([401, 401]);
    expect(page.errors.filter((text) => !text.includes("status of 401"))).toEqual([]);
  });

  test("a dialog that is opened right after another was closed stays", async () => {
    await troupe.createKey({ name: "hasty", tier: "pro" });
    await page.read("location.hash = '#/keys?search=hasty'");
    await page.until(`document.querySelectorAll('[aria-label="Keys"] tbody tr').length === 1`);
    await page.click(`document.querySelector('[aria-label="Keys"] tbody a')`);
    await page.until(`${main}.includes("Revoke")`);
    await page.click("[...document.querySelectorAll('main button')].find((one) => one.innerText === 'Rotate')");
    await page.until(dialog);
    // Before the browser tells that the first is closed: it does so in a task of its own.
    await page.read(`(async () => {
      const shown = ${dialog};
      shown.dispatchEvent(new Event("cancel", { cancelable: true }));
      while (shown.open) await null;
      window.isTold = false;
      shown.addEventListener("close", () => { window.isTold = true; });
      [...document.querySelectorAll("main button")].find((one) => one.innerText === "Revoke").click();
      while (!shown.open) await null;
    })()`);
    await page.until("window.isTold");
    expect(await page.read<string | undefined>(`${dialog}?.innerText`)).toContain(
      "are refused from the next request on",
    );
    await page.press("Escape");
    await page.until(`!${dialog}`);
  });

  test("a refusal that comes late asks nobody who has signed in again meanwhile", async () => {
    await page.read(`{
      const real = fetch;
      window.fetch = async (...asked) => {
        const answer = await real(...asked);
        if (answer.status === 401 && window.letGo === undefined) await new Promise((resolve) => { window.letGo = resolve; });
        return answer;
      };
    }`);
    // What was asked before is not held: its refusal would ask for the sign-in first.
    await page.settle();
    const { sessions } = troupe.server.services.store;
    for (const { id } of await sessions.list(10)) await sessions.remove(id);
    await page.read("location.hash = '#/keys?search=hast'");
    await page.until("window.letGo");
    await page.read("location.hash = '#/keys?search=has'");
    await signIn();
    await page.until(`!${dialog}`);
    await page.read("window.letGo()");
    await page.until(`document.querySelectorAll('[aria-label="Keys"] tbody tr').length === 1`);
    expect(await page.read<boolean>(`Boolean(${dialog})`)).toBe(false);
  });

  test("the longest name that a key may have widens no page", async () => {
    await troupe.createKey({ name: "W".repeat(100), tier: "pro" });
    await page.look({ width: 360, height: 740, theme: "light" });
    await page.read("location.hash = '#/keys'");
    // The line of the list before this one takes no more words.
    await page.until(`document.querySelectorAll('[aria-label="Keys"] tbody tr').length > 1 && ${filterLine}`);
    // A whole key that somebody looks for is found by its beginning, and is in no address.
    await page.click(filterLine);
    await page.type(`trp_${"x".repeat(40)}`);
    await page.press("Enter");
    await page.until("location.hash === '#/keys?search=trp_xxxxxxxx'");
    await page.press("Backspace");
    await page.type("WWW");
    await page.press("Enter");
    await page.until("location.hash === '#/keys?search=WWW'");
    await page.until(`document.querySelectorAll('[aria-label="Keys"] tbody tr').length === 1`);
    const beyond = "document.documentElement.scrollWidth - innerWidth";
    expect(await page.read<number>(beyond)).toBeLessThanOrEqual(0);
    // It goes on beyond the window: who clicks it does so at its beginning.
    await page.click(`document.querySelector('[aria-label="Keys"] tbody a')`, { x: 9, y: 9 });
    await page.until("document.querySelector('h1').innerText.startsWith('WWW')");
    expect(await page.read<number>(beyond)).toBeLessThanOrEqual(0);
  });
});
