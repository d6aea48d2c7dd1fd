import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { Troupe } from "../helpers/troupe.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const dialog = "document.querySelector('dialog[open]')";
const button = (text: string) => `[...document.querySelectorAll("button")].find((one) => one.innerText === "${text}")`;
const account = "document.querySelector('.account')";

test("the page says that nobody is signed in where no key, session or trusted user comes with its request", async () => {
  await using troupe = await Troupe.start({ config: { listen } });
  const key = await troupe.createKey({ name: "console", tier: "pro", surfaces: ["admin"] });
  const signedIn = await fetch(`${troupe.url}/admin/v1/session`, {
    method: "POST",
    headers: { "content-type": "application/json", origin: troupe.url },
    body: JSON.stringify({ key }),
  });
  const cookie = signedIn.headers.get("set-cookie")!.split(";")[0]!;
  const sessionOf = async (headers: Record<string, string>) => {
    const page = await fetch(`${troupe.url}/console`, { headers });
    return /data-session="(\w*)"/.exec(await page.text())![1]!;
  };
  expect(await sessionOf({})).toBe("none");
  expect(await sessionOf({ cookie })).toBe("");
  expect(await sessionOf({ cookie: `${cookie.slice(0, -2)}__` })).toBe("none");
  await fetch(`${troupe.url}/admin/v1/session`, { method: "DELETE", headers: { cookie, origin: troupe.url } });
  expect(await sessionOf({ cookie })).toBe("none");
  const trusted = { admin: { trustedUserHeader: "x-user" }, trustedProxies: ["127.0.0.1"] };
  await using proxied = await Troupe.start({ config: { listen, ...trusted } });
  const named = await fetch(`${proxied.url}/console`, { headers: { "x-user": "ada" } });
  expect(await named.text()).toContain('data-session=""');
});

describe.skipIf(!hasChromium)("in Chromium", () => {
  let troupe: Troupe;
  let page: ChromiumPage;
  let key: string;
  beforeAll(async () => {
    troupe = await Troupe.start({ config: { listen } });
    key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    page = await ChromiumPage.open();
  });
  afterAll(async () => {
    await page[Symbol.asyncDispose]();
    await troupe[Symbol.asyncDispose]();
  });
  beforeEach(() => void page.errors.splice(0));

  /** Answers that are no success are in the browser's log, and are what these tests are about. */
  const faults = () => page.errors.filter((text) => !text.includes("status of 40"));

  test("the page asks for a key, by keyboard alone, and says what is wrong with one", async () => {
    await page.go(`${troupe.url}/console`);
    await page.until(`${dialog} && document.activeElement.type === "password"`);
    // It asks for nothing that would be refused.
    expect(page.errors).toEqual([]);
    await page.type("trp_wrong");
    await page.press("Enter");
    await page.until("document.querySelector('[role=alert]')?.innerText.includes('unknown, mistyped')");
    await page.read("document.activeElement.select()");
    await page.type(key);
    await page.press("Enter");
    await page.until(`!${dialog} && ${account}?.innerText.includes("ops")`);
    expect(await page.read<string>("document.cookie")).toBe("");
    // What stands before the script runs is what it then writes.
    const html = await (await fetch(`${troupe.url}/console`)).text();
    const links = [...html.matchAll(/<li><a href="([^"]+)"><svg.*?<\/svg>([^<]+)</g)].map(([, address, title]) => [
      address,
      title,
    ]);
    expect(links.length).toBe(8);
    expect(
      await page.read<string[][]>(
        `[...document.querySelectorAll("nav.side ul a")].map((one) => [one.getAttribute("href"), one.textContent])`,
      ),
    ).toEqual(links as string[][]);
    expect(faults()).toEqual([]);
  });

  test("a session that ends under the page leaves the page, and a closed dialog a way back", async () => {
    const { sessions } = troupe.server.services.store;
    for (const { id } of await sessions.list(10)) await sessions.remove(id);
    await page.read("location.hash = '#/keys'");
    await page.until(dialog);
    // A second one closes the dialog whatever the page wants.
    await page.press("Escape");
    await page.until(`!${dialog} && ${button("Sign in")}`);
    await page.click(button("Sign in"));
    await page.until(`${dialog} && document.activeElement.type === "password"`);
    await page.type(await troupe.createKey({ name: "other", tier: "pro", surfaces: ["admin"] }));
    await page.press("Enter");
    await page.until(`!${dialog} && ${account}?.innerText.includes("other")`);
    expect(faults()).toEqual([]);
  });

  test("what the page asks without anybody's doing is marked, so that a page left open lets its session end", async () => {
    await page.read(`globalThis.marks = []; const plain = fetch;
      globalThis.fetch = (url, init) => (marks.push(init?.headers?.["x-troupe-refresh"] ?? ""), plain(url, init))`);
    // What is asked first after somebody's doing says so.
    await page.read("location.hash = '#/providers'");
    await page.until("marks.includes('1')");
    await page.read("marks.length = 0");
    await page.press("Tab");
    await page.read("location.hash = '#/'");
    await page.until("marks.length > 5");
    const marks = await page.read<string[]>("marks");
    expect(marks.filter((mark) => mark === "")).toHaveLength(1);
    expect(new Set(marks)).toEqual(new Set(["", "1"]));
  });

  test("what somebody wrote stays for the same key alone, and is gone from all tabs with the sign-out", async () => {
    const text = "document.querySelector('.editor textarea')";
    const signIn = async (by: string) => {
      await page.until(`${dialog} && document.activeElement.type === "password"`);
      await page.type(by);
      await page.press("Enter");
    };
    const { sessions } = troupe.server.services.store;
    const endAll = async () => {
      for (const { id } of await sessions.list(10)) await sessions.remove(id);
    };
    const source = "location.hash = '#/personas/troupe%2Fguide/source'";
    const write = async (words: string) => {
      await page.read(source);
      await page.until(`${text}?.value.includes("description")`);
      await page.click(text, { x: 60, y: 10 });
      await page.press("Home", "Control");
      await page.type(`# ${words}\n`);
      await page.until(`${text}.value.startsWith("# ${words}")`);
    };
    await page.click(button("Sign out"));
    await page.until(`${dialog} && !${account}`);
    await signIn(key);
    await page.until(`!${dialog} && ${account}?.innerText.includes("ops")`);
    await write("Ours.");
    await endAll();
    await page.read("location.hash = '#/keys'");
    await signIn(key);
    await page.until(`!${dialog} && ${account}?.innerText.includes("ops")`);
    await page.read(source);
    await page.until(`${text}?.value.startsWith("# Ours.")`);
    // Nor does a page that is loaded again forget it.
    await page.read("location.reload()");
    await page.until(`${text}?.value.startsWith("# Ours.")`);
    await endAll();
    await page.read("location.hash = '#/keys'");
    await signIn(await troupe.createKey({ name: "third", tier: "pro", surfaces: ["admin"] }));
    await page.until(`!${dialog} && ${account}?.innerText.includes("third")`);
    await page.read(source);
    await page.until(`${text}?.value.includes("description")`);
    await page.settle();
    expect(await page.read<string>(`${text}.value + JSON.stringify({ ...sessionStorage })`)).not.toContain("Ours.");
    await write("Theirs.");
    // Another tab signs out.
    await page.read("new BroadcastChannel('troupe.actor').postMessage('')");
    await page.until(`${text}?.value.includes("description") && !${text}.value.includes("Theirs.")`);
    await write("Theirs.");
    await page.until(account);
    await page.click(button("Sign out"));
    await page.until(`${dialog} && !${account}`);
    expect(await page.read<string>("document.body.innerText + JSON.stringify({ ...sessionStorage })")).not.toContain(
      "Theirs.",
    );
    await signIn(key);
    await page.until(`!${dialog} && ${account}?.innerText.includes("ops")`);
    expect(faults()).toEqual([]);
  });

  test("signing out ends the session and clears the page", async () => {
    await page.click(button("Sign out"));
    await page.until(`${dialog} && !${account}`);
    expect(await troupe.server.services.store.sessions.list(10)).toEqual([]);
    expect(faults()).toEqual([]);
  });
});
