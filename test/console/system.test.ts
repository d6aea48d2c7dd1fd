/** The System page in a real Chromium: each part shows what the admin API answers. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../src/config/config.ts";
import { verbOf } from "../../src/console/pages/system/act-words.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { Troupe } from "../helpers/troupe.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";
import { filterLine, labelled, menuItem } from "./elements.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const pictures = process.env["TROUPE_SCREENSHOTS"];

/** Texts of the cells of a table's rows. */
const cells = (table: string) =>
  `[...document.querySelectorAll(${JSON.stringify(`[aria-label="${table}"] tbody tr`)})].map((row) => [...row.cells].map((cell) => cell.innerText))`;
const stat = (label: string) =>
  `[...document.querySelectorAll(".stat")].find((one) => one.firstElementChild.innerText === ${JSON.stringify(label)})?.children[1].innerText`;
const main = "document.querySelector('main').innerText";
const button = (text: string) =>
  `[...document.querySelectorAll("button")].find((one) => one.innerText === ${JSON.stringify(text)})`;
const settled = `!document.querySelector("main .state[role=status]") && document.querySelector("main .tabs")`;

const inLines = (rows: string[][]) => rows.map((row) => row.map((cell) => cell.replace(/\n+/g, " ")));

async function signIn(page: ChromiumPage, url: string, key: string): Promise<void> {
  await page.go(`${url}/console`);
  await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
  await page.type(key);
  await page.press("Enter");
  await page.until(`!document.querySelector("dialog[open]") && document.querySelector(".account")`);
}

describe.skipIf(!hasChromium)("in Chromium", () => {
  let troupe: Troupe;
  let hook: UpstreamServer;
  let key: string;
  let page: ChromiumPage;
  beforeAll(async () => {
    hook = new UpstreamServer(() => new Response());
    const alerts = { urls: [`${hook.url}/x?token=hush`], secret: "a text of some length" };
    const upstream = { dialect: "openai", baseUrl: "http://127.0.0.1:9/v1", apiKey: "sk-a-secret" };
    troupe = await Troupe.start({ config: { listen, alerts }, providers: { up: upstream } });
    key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    page = await ChromiumPage.open();
    await signIn(page, troupe.url, key);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    hook?.[Symbol.dispose]();
  });
  beforeEach(() => void page.errors.splice(0));
  const faults = () => page.errors;
  const open = async (hash: string, ready = settled) => {
    await page.read(`location.hash = ${JSON.stringify(hash)}`);
    await page.until(ready);
    if (pictures !== undefined)
      writeFileSync(join(pictures, `${hash.replace(/\W+/g, "_")}.png`), await page.screenshot());
  };
  const api = async <T>(path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const answer = await fetch(`${troupe.url}/admin/v1/${path}`, { ...init, headers });
    return (await answer.json()) as T;
  };

  test("what runs: the numbers of its health", async () => {
    await open("#/system", stat("Version"));
    type Health = { version: string; database_bytes: number; checks: object; listeners: { address: string }[] };
    const health = await api<Health>("health");
    expect(await page.read<string>(stat("State"))).toBe("ok");
    expect(await page.read<string>(stat("Version"))).toBe(health.version);
    expect(await page.read<string>(stat("Database"))).toBe(`${(health.database_bytes / 1024).toFixed(1)} KiB`);
    const checks = await page.read<string[][]>(cells("Checks of its health"));
    expect(checks.map(([name, state]) => [name, state])).toEqual(
      Object.keys(health.checks).map((name) => [name, "ok"]),
    );
    expect(await page.read<string[][]>(cells("Addresses"))).toEqual([
      [health.listeners[0]!.address, "no", "orchestrator, gateway, admin"],
    ]);
    expect(await page.read<string[]>(`[...document.querySelectorAll("main .tabs a")].map((one) => one.hash)`)).toEqual(
      ["", "/doctor", "/alerts", "/facts", "/nodes", "/configuration", "/sessions", "/audit"].map(
        (part) => `#/system${part}`,
      ),
    );
    expect(faults()).toEqual([]);
  });

  test("the doctor's findings, the worst first, each with what to do", async () => {
    writeFileSync(join(troupe.data, "first-key"), "trp_x");
    await open("#/system/doctor", `${cells("What the doctor found")}.length > 5`);
    type Report = { findings: { level: string; place: string; message: string; advice: string | null }[] };
    const { findings } = await api<Report>("doctor");
    const shown = await page.read<string[][]>(cells("What the doctor found")).then(inLines);
    // What is free changes from one moment to the next.
    const changes = /^(memory|data folder|clock)$/;
    expect(shown.filter(([, place]) => !changes.test(place!))).toEqual(
      findings
        .filter(({ place }) => !changes.test(place))
        .map(({ level, place, message, advice }) => [
          level,
          place,
          advice === null ? message : `${message} → ${advice}`,
        ]),
    );
    expect(shown).toContainEqual([
      "warning",
      "first key",
      `${join(troupe.data, "first-key")} still holds it → Note the key, and remove the file: only its hash is needed.`,
    ]);
    expect(shown.find(([, place]) => place === "provider up")?.[2]).toContain("not called");

    await page.click(button("Call providers too…"));
    await page.until(`document.querySelector("dialog[open]")`);
    await page.click(button("Call them"));
    await page.until(`${main}.includes("providers called")`);
    const called = await page.read<string[][]>(cells("What the doctor found"));
    expect(called.find(([, place]) => place === "provider up")?.[2]).toContain("→ Look at its base_url");
    expect(faults()).toEqual([]);
  });

  test("alerts that are on, and the messages with what became of them", async () => {
    await open("#/system/alerts", `${main}.includes("Nothing is on.")`);
    const { budgets, ledger } = troupe.server.services.store;
    await budgets.set({ scope: "tag:team-a", period: "month", limit: 1_000_000, updatedAt: Date.now() });
    await ledger.append([ledgerLine("req_1", { at: Date.now(), tags: ["team-a"], cost: 550_000 })]);
    await troupe.server.services.budgets.load();
    while ((await api<{ counts: { delivered: number } }>("alerts")).counts.delivered < 1) await Bun.sleep(50);
    await open("#/system", stat("Version"));
    await open("#/system/alerts", `${stat("Delivered")} === "1"`);
    const active = await page.read<string[][]>(cells("What was reported and has not ended"));
    expect(active.map((row) => row.slice(0, 3))).toEqual([
      ["budget.reached", "tag:team-a", "budget:tag:team-a:month:50"],
    ]);
    const [message] = await page.read<string[][]>(cells("Messages to operators"));
    expect(message!.slice(1, 3)).toEqual(["budget.reached", "tag:team-a"]);
    expect(message![3]).toContain("percent 50, limit dollars 1, spent dollars 0.55");
    expect(message![4]).toBe(`delivered ${hook.url}`);
    expect(await page.read<string>("document.body.innerHTML")).not.toContain("hush");
    expect(faults()).toEqual([]);
  });

  test("one node, where the data is in a folder", async () => {
    await open("#/system/nodes", `${cells("Nodes and the versions of what they serve")}.length === 1`);
    type Nodes = { data: { program: string; configuration: string; personas: string }[] };
    const [one] = (await api<Nodes>("nodes")).data;
    expect(await page.read<string[][]>(cells("Nodes and the versions of what they serve"))).toEqual([
      ["This one", one!.program, one!.configuration, one!.personas],
    ]);
    expect(await page.read<string>(main)).toContain("There is one node");
  });

  test("the configuration is searched, its address holds the search, and no secret is in it", async () => {
    await open("#/system/configuration", `${cells("Settings")}.length > 30`);
    await page.write(labelled("Search"), "alerts");
    await page.until(`${cells("Settings")}.length === 2`);
    expect(await page.read<string[][]>(cells("Settings"))).toEqual([
      ["alerts.url", JSON.stringify([`${hook.url}/***`]), "default"],
      ["alerts.secret", "***", "default"],
    ]);
    expect(await page.read<string>("location.hash")).toBe("#/system/configuration?q=alerts");
    await open("#/system/configuration?q=nothing+of+that+name", `${main}.includes("No setting is like this.")`);
    await page.click(button("Show all"));
    await page.until(`${cells("Settings")}.length > 30`);
    const text = await page.read<string>("document.body.innerHTML");
    for (const secret of ["sk-a-secret", "hush", "a text of some length"]) expect(text).not.toContain(secret);
    expect(faults()).toEqual([]);
  });

  test("another browser's session is ended, and the audit names it by its filters", async () => {
    const body = JSON.stringify({ key });
    const headers = { "content-type": "application/json", origin: troupe.url, "user-agent": "other browser" };
    const other = await fetch(`${troupe.url}/admin/v1/session`, { method: "POST", headers, body });
    const cookie = other.headers.get("set-cookie")!.split(";", 1)[0]!;
    expect(other.status).toBeLessThan(300);
    const sessions = cells("Browsers that are signed in");
    await open("#/system/sessions", `${sessions}.length === 2`);
    const opener = `[...document.querySelectorAll('[aria-label="Browsers that are signed in"] tbody tr')].find((one) => !one.innerText.includes("this browser"))?.querySelector(".dots")`;
    const end = async () => {
      await page.click(opener);
      await page.click(menuItem("End it"));
    };
    await page.settle();
    await end();
    await page.until(button("Undo"));
    await page.settle();
    await page.click(button("Undo"));
    await page.until(`${button("Undo")} === undefined && ${opener}`);
    expect((await fetch(`${troupe.url}/admin/v1/keys`, { headers: { cookie } })).status).toBe(200);
    await end();
    await page.until(button("Undo"));
    // Who leaves the page does not wait for the ten seconds.
    await open("#/system", `!${button("Undo")}`);
    await page.settle();
    await open("#/system/sessions", `${sessions}.length === 1`);
    expect((await fetch(`${troupe.url}/admin/v1/keys`, { headers: { cookie } })).status).toBe(401);
    // Nor who closes it, or goes elsewhere with it.
    const third = await fetch(`${troupe.url}/admin/v1/session`, { method: "POST", headers, body });
    const thirdCookie = third.headers.get("set-cookie")!.split(";", 1)[0]!;
    await page.read("location.reload()");
    await page.until(`${sessions}.length === 2`);
    await end();
    await page.until(button("Undo"));
    const statusOfThird = async () =>
      (await fetch(`${troupe.url}/admin/v1/keys`, { headers: { cookie: thirdCookie } })).status;
    expect(await statusOfThird()).toBe(200);
    await page.go("about:blank");
    while ((await statusOfThird()) !== 401) await Bun.sleep(20);
    await page.go(`${troupe.url}/console`);

    await open("#/system/audit", `${cells("What was done")}.length >= 3`);
    type Acts = { data: { act: string; actor: string; actor_name: string }[] };
    const all = (await api<Acts>("audit?limit=50")).data;
    const shown = await page.read<string[][]>(cells("What was done"));
    // One sentence a line, of which who reads it is one.
    const actor = await page.read<string>(`sessionStorage.getItem("troupe.actor")`);
    expect(shown.map(([, said]) => said)).toEqual(
      all.map((one) =>
        expect.stringContaining(`${one.actor === actor ? "you" : one.actor_name} ${verbOf(one.act)} `),
      ) as never,
    );
    expect(all[0]!.actor_name).toBe("ops");
    const { act } = all[0]!;
    expect(act).toStartWith("session.");
    await page.click(filterLine);
    await page.type(`act:${act}`);
    await page.press("Enter");
    await page.until(`${cells("What was done")}.length === ${all.filter((one) => one.act === act).length}`);
    expect(await page.read<string>("location.hash")).toBe(`#/system/audit?act=${act}`);
    const made = (await api<{ id: string }>("keys", { method: "POST", body: JSON.stringify({ name: "first" }) })).id;
    await api(`keys/${made}`, { method: "PATCH", body: JSON.stringify({ name: "second" }) });
    await open("#/system/audit?act=key.update", `${cells("What was done")}.length === 1`);
    const [update] = await page.read<string[][]>(cells("What was done"));
    expect(update![1]).toBe("you changed the key second");
    expect(update![2]!.split(/\s+/)).toEqual(["name", "first", "second"]);
    await api(`budgets/key:${made}/month`, { method: "PUT", body: JSON.stringify({ dollars: 25 }) });
    await open("#/system/audit?act=budget.set", `${cells("What was done")}.length === 1`);
    expect((await page.read<string[][]>(cells("What was done")))[0]![1]).toBe(
      "you set the budget of second, $25.00 a month",
    );
    await open("#/system/audit?act=key.update&since=24h", `${cells("What was done")}.length === 1`);
    await open("#/system/audit?until=2001-01-01", `${main}.includes("Nothing was done.")`);
    await open("#/system/audit?actor=nobody", `${main}.includes("Nothing fits these filters.")`);
    expect(faults()).toEqual([]);
  });

  test("all parts fit a narrow window", async () => {
    await page.look({ width: 360, height: 740, theme: "dark" });
    const wide: string[] = [];
    for (const part of ["", "/doctor", "/alerts", "/nodes", "/configuration", "/sessions", "/audit"]) {
      await open(`#/system${part}?narrow=1`);
      await page.settle();
      if (pictures !== undefined)
        writeFileSync(join(pictures, `system_narrow_${part.slice(1)}.png`), await page.screenshot());
      if ((await page.read<number>("document.documentElement.scrollWidth - innerWidth")) > 0) wide.push(part);
    }
    expect(wide).toEqual([]);
    expect(faults()).toEqual([]);
  });
});

describe.skipIf(!hasChromium || !hasPostgres)("in Chromium, with several nodes", () => {
  test("a node with another configuration is named with what differs", async () => {
    await using server = await PostgresServer.start();
    const limits = { pool: 2, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
    const config: Partial<Config> = { listen, store: { url: await server.createDatabase(), ...limits } };
    await using one = await Troupe.start({ config });
    await one.server.services.loading;
    await using _ = await Troupe.start({ config: { ...config, tiers: { free: 1, pro: 1_000 } } });
    const key = await one.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    await using page = await ChromiumPage.open();
    await signIn(page, one.url, key);
    const headers = { authorization: `Bearer ${key}` };
    const nodes = async () =>
      ((await (await fetch(`${one.url}/admin/v1/nodes`, { headers })).json()) as { data: unknown[] }).data;
    // Nodes compare every ten seconds.
    while ((await nodes()).length < 2) await Bun.sleep(100);
    await page.read(`location.hash = "#/system/nodes"`);
    const rows = cells("Nodes and the versions of what they serve");
    await page.until(`${rows}.length === 2`);
    const found = await page.read<string[][]>(rows);
    expect(found[0]!.join()).toContain("this one answers");
    expect(found.map((row) => row.map((cell) => cell.includes("differs")))).toEqual([
      [false, false, false, false],
      [false, false, true, false],
    ]);
    expect(await page.read<string>(main)).toContain("1 of 2 nodes serve something else than this one");
  });
});
