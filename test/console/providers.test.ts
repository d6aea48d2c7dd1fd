/** Providers in a real Chromium: what is in cooldown and until when, numbers against yesterday, and a test call, whatever an upstream writes. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const dayMs = 86_400_000;
const now = Date.now();
const today = Math.floor(now / dayMs) * dayMs;
const hostile = `<img src=x onerror="globalThis.hacked = 1"><script>globalThis.hacked = 2</script> ${"[x](javascript:alert(1)) ".repeat(40)}`;

/** Of xai: calls of today, of yesterday until this time, and of yesterday behind it, which nothing is compared with. */
const lines: LedgerLine[] = Array.from({ length: 90 }, (_, at) => {
  const days = at % 3;
  const failure =
    at % 5 === 0 ? "server_error" : at % 7 === 1 ? "invalid_request" : at % 10 === 2 ? "rate_limit" : null;
  return ledgerLine(`req_${at}`, {
    at: days === 0 ? now - 1 : days === 1 ? now - dayMs - 1 : Math.min(now - dayMs + 1_800_000, today - 1),
    model: "xai/grok-x",
    provider: "xai",
    upstreamModel: "grok-x",
    cost: 1_003 * (at + 1),
    costs: null,
    firstTokenMs: 100 + 10 * at,
    ended: failure === null ? "finished" : failure === "server_error" ? "broken" : "refused",
    failure,
    status: failure === null ? 200 : failure === "server_error" ? 500 : failure === "rate_limit" ? 429 : 400,
  });
});
const within = (from: number, to: number) => lines.filter(({ at }) => at >= from && at < to);

const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "ok <b>then</b>" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 5, completion_tokens: 1, total_tokens: 6 },
};

/** Texts of a table's cells, each line of a cell one text. */
const cells = (table: string) =>
  `[...document.querySelectorAll(${JSON.stringify(`[aria-label="${table}"] tbody tr`)})].map((row) => [...row.cells].map((cell) => cell.innerText.split("\\n")))`;
/** What the page tells a screen reader, what is still loading included. */
const announced = `[...document.querySelectorAll("main p[role=status]")].map((one) => one.textContent)`;
const button = (text: string) =>
  `[...document.querySelectorAll("button")].find((one) => one.innerText === ${JSON.stringify(text)})`;

describe.skipIf(!hasChromium)("in Chromium", () => {
  let upstream: UpstreamServer;
  let troupe: Troupe;
  let page: ChromiumPage;
  let key: string;
  beforeAll(async () => {
    upstream = new UpstreamServer(({ headers, path }) => {
      const used = headers.get("authorization");
      if (used === "Bearer limited-key")
        return jsonResponse({ error: { message: "slow down" } }, 429, { "retry-after": "3000" });
      if (path.startsWith("/down")) return jsonResponse({ error: { message: "down" } }, 503);
      if (path.startsWith("/hostile")) return jsonResponse({ error: { message: hostile } }, 500);
      return jsonResponse(answer);
    });
    const baseUrl = upstream.url;
    const member = (apiKey: string, path = "") => ({ apiKey, baseUrl: `${baseUrl}${path}`, weight: 1 });
    const pool = (members: ReturnType<typeof member>[]) => ({
      ...{ baseUrl: members[0]!.baseUrl, apiKey: members[0]!.apiKey },
      pool: { strategy: "first" as const, members },
    });
    // An endpoint's first rest is over in five seconds, which a busy machine takes for less: here it has just begun.
    const [began, at] = [systemClock.monotonic(), Date.now()];
    troupe = await Troupe.start({
      clock: { ...systemClock, now: () => at, monotonic: () => began },
      providers: {
        openai: pool([member("limited-key"), member("good-key")]),
        groq: pool([member("one-key", "/down"), member("one-key")]),
        mistral: { baseUrl: `${baseUrl}/hostile` },
        xai: { baseUrl },
      },
      config: {
        listen,
        prices: [{ match: "xai/grok-x", input: 2, output: 10 }],
        alerts: { urls: [`${baseUrl}/hook`], secret: "a text of some length" },
      },
    });
    key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    const { ledger } = troupe.server.services.store;
    await ledger.append(lines);
    for (const model of ["openai/m", "groq/m", "groq/m", "groq/m"]) {
      const messages = [{ role: "user", content: "hi" }];
      const called = await troupe.post("/gateway/v1/chat/completions", { model, messages });
      expect(called.status).toBe(200);
      await called.text();
    }
    page = await ChromiumPage.open();
    await page.go(`${troupe.url}/console#/providers`);
    await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
    await page.type(key);
    await page.press("Enter");
    await page.until(`!document.querySelector("dialog[open]") && document.querySelector("tbody")`);
  });
  afterAll(async () => {
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    upstream?.[Symbol.dispose]();
  });
  beforeEach(() => void page.errors.splice(0));
  const faults = () => page.errors;
  const open = (hash: string, ready: string) =>
    page.read(`location.hash = ${JSON.stringify(hash)}`).then(() => page.until(ready));
  const fingerprint = (secret: string) => new Bun.CryptoHasher("sha256").update(secret).digest("hex").slice(0, 8);

  test("keys that rest and breakers that are open are shown with why and until when", async () => {
    await open(
      "#/providers?since=today",
      `${cells("In cooldown")}.length === 2 && ${cells("Providers against the time before")}.length === 4`,
    );
    const [limited, breaker] = await page.read<string[][][]>(cells("In cooldown"));
    const seen = (await (await troupe.fetch("/admin/v1/providers", { key })).json()) as {
      data: { keys: { rests: { until: string }[]; breaker: { until: string } }[] }[];
    };
    const local = (at: string) =>
      page.read<string>(
        `new Date(${JSON.stringify(at)}).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" })`,
      );
    const [rest, broken] = [seen.data[0]!.keys[0]!.rests[0]!, seen.data[1]!.keys[0]!.breaker];
    expect(limited!.slice(0, 3)).toEqual([
      ["openai"],
      [`key ${fingerprint("limited-key")}, for m alone`],
      ["too many requests: the rate limit is reached"],
    ]);
    expect(limited![3]![0]).toMatch(/^\d+ min \d+ s left, until /);
    expect(limited![3]![0]).toEndWith(await local(rest.until));
    expect(breaker!.slice(0, 3)).toEqual([
      ["groq"],
      [`breaker of key ${fingerprint("one-key")}`],
      ["the provider's own fault 3 failures in a row"],
    ]);
    // By the browser's clock it may be over.
    expect(breaker![3]![0]).toMatch(/(?:left,|over) until /);
    expect(breaker![3]![0]).toEndWith(await local(broken.until));
    expect(breaker![4]![0]).toBe(`${upstream.url}/down`);
    const before = limited![3]![0];
    await page.until(`${cells("In cooldown")}[0][3][0] !== ${JSON.stringify(before)}`);
    const fault = await page.read<string>(
      `[...document.querySelectorAll("td a")].find((one) => one.title === "rate_limit").hash`,
    );
    expect(fault).toStartWith("#/calls?provider=openai&failure=rate_limit&since=");
    expect(await page.read<string>("document.body.innerText")).not.toMatch(/limited-key|good-key|one-key/);
    expect(faults()).toEqual([]);
  });

  test("numbers of today and of yesterday until this time are the ledger's", async () => {
    type Sums = { data: { first_token_ms: { p50: number; p95: number } }[] };
    const sums = async (from: number, to: number) => {
      const span = `since=${new Date(from).toISOString()}&until=${new Date(to).toISOString()}`;
      const got = await troupe.fetch(`/admin/v1/usage?by=provider&provider=xai&first_token=true&${span}`, { key });
      return ((await got.json()) as Sums).data[0]!;
    };
    // The two spans that the page asks for, as of now; none of the lines lies between them and those of a moment ago.
    const spans = [
      { own: within(today, now), asked: await sums(today, Date.now()) },
      { own: within(today - dayMs, now - dayMs), asked: await sums(today - dayMs, Date.now() - dayMs) },
    ].map(({ own, asked }) => {
      const failed = own.filter(({ failure }) => failure !== null && failure !== "invalid_request").length;
      return {
        ...asked.first_token_ms,
        calls: String(own.length),
        share: (100 * failed) / own.length,
        cost: `$${(own.reduce((sum, { cost }) => sum + cost!, 0) / 1e6).toFixed(2)}`,
      };
    });
    const [present, past] = spans as [(typeof spans)[0], (typeof spans)[0]];
    const rows = await page.read<string[][][]>(cells("Providers against the time before"));
    const ms = (value: number) => (value < 1_000 ? `${Math.round(value)} ms` : `${(value / 1_000).toFixed(2)} s`);
    const signed = (value: number, digits: number) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
    const grown = (a: number, b: number) => {
      const by = 100 * (a / b - 1);
      return Math.abs(by) < 0.05 ? "±0 %" : `${signed(by, 1)} %`;
    };
    const points = present.share - past.share;
    const [name, state, calls, errors, p50, p95, cost] = rows.find(([one]) => one![0] === "xai")!;
    expect([name, state]).toEqual([["xai"], ["ok"]]);
    expect(calls![0]).toBe(present.calls);
    expect(calls![1]).toStartWith(`was ${past.calls}, `);
    expect(errors).toEqual([
      `${present.share.toFixed(2)} %`,
      `was ${past.share.toFixed(2)} %, ${points.toFixed(2) === "0.00" ? "±0" : signed(points, 2)} points`,
    ]);
    expect(p50).toEqual([ms(present.p50), `was ${ms(past.p50)}, ${grown(present.p50, past.p50)}`]);
    expect(p95).toEqual([ms(present.p95), `was ${ms(past.p95)}, ${grown(present.p95, past.p95)}`]);
    expect(cost![0]).toBe(present.cost);
    expect(cost![1]).toStartWith(`was ${past.cost}, `);

    await open("#/providers/xai?since=today", `${cells("Why attempts failed")}.length === 3`);
    const reasons = await page.read<string[][][]>(cells("Why attempts failed"));
    for (const [reason, counts] of reasons) {
      const failure = reason![0]!.split(" ")[0];
      const calls = (own: LedgerLine[]) => own.filter((line) => line.failure === failure).length;
      expect(counts![0]).toBe(String(calls(within(today, now))));
      expect(counts![1]).toStartWith(`yesterday ${calls(within(today - dayMs, now - dayMs))}`);
    }
    expect(faults()).toEqual([]);
  });

  test("a test call asks before it costs money, and its outcome is announced, with time, cost and answer", async () => {
    const calls = upstream.requests.length;
    await open("#/providers/xai", `document.querySelector("input[list]")`);
    await page.read(`document.querySelector("input[list]").focus()`);
    await page.type("grok-x");
    await page.press("Enter");
    await page.until(`document.querySelector("dialog[open]")`);
    expect(await page.read<string>(`document.querySelector("dialog[open]").innerText`)).toContain(
      "One small call goes to grok-x",
    );
    expect(upstream.requests.length).toBe(calls);
    await page.click(button("Make the call"));
    const results = cells("Results of the test of grok-x");
    await page.until(`${results}.length === 1`);
    const [row] = await page.read<string[][][]>(results);
    expect(row!.map(([text]) => text)).toEqual([
      fingerprint("key-of-xai"),
      "answered 200",
      "grok-x",
      expect.stringMatching(/ ms$|s$/),
      "5 in, 1 out",
      "$0.000020",
      "ok <b>then</b>",
      upstream.url,
    ]);
    expect(await page.read<string[]>(announced)).toContain("Test of grok-x: answered.");
    expect(upstream.requests.length).toBe(calls + 1);
    expect(faults()).toEqual([]);
  });

  test("what an upstream writes is text, and cut", async () => {
    await open("#/providers/mistral", `document.querySelector("input[list]")`);
    await page.read(`document.querySelector("input[list]").focus()`);
    await page.type("m");
    await page.press("Enter");
    await page.until(`document.querySelector("dialog[open]")`);
    await page.click(button("Make the call"));
    await page.until(`${cells("Results of the test of m")}.length === 1`);
    const [row] = await page.read<string[][][]>(cells("Results of the test of m"));
    expect(row![1]).toEqual(["failed 500 the provider's own fault"]);
    expect(row![6]!.join("\n")).toContain("<img src=x onerror=");
    expect(row![6]!.join("\n").length).toBeLessThanOrEqual(300);
    expect(await page.read<string[]>(announced)).toContain("Test of m: 0 of 1 answered.");
    expect(await page.read<number>(`document.querySelectorAll("main img, main script, main b").length`)).toBe(0);
    expect(await page.read<boolean>(`"hacked" in globalThis`)).toBe(false);
    await page.look({ width: 360, height: 740, theme: "dark" });
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    await page.look({ width: 1280, height: 800, theme: "light" });
    expect(faults()).toEqual([]);
  });

  test("last errors lead to their call, and to the calls with the same fault", async () => {
    await open("#/providers/groq", `${cells("Last errors")}.length === 3`);
    const [links] = await page.read<string[][]>(
      `[...document.querySelectorAll('[aria-label="Last errors"] tbody tr')].map((row) => [...row.querySelectorAll("a")].map((one) => one.hash))`,
    );
    expect(links![0]).toMatch(/^#\/calls\/req_[0-9a-z]+$/);
    expect(links![1]).toStartWith("#/calls?provider=groq&failure=server_error&since=");
    await open("#/providers/none", `document.querySelector("main .state a")`);
    expect(await page.read<string>(`document.querySelector("main .state").innerText`)).toContain(
      "No such provider is set up.",
    );
  });

  test("the overview says what changed in the last hour: its numbers, and faults that became more, with their provider", async () => {
    const panel = `[...document.querySelectorAll(".panel")].find((one) => one.innerText.startsWith("Changed in the last hour"))`;
    await open("#/", `${panel}?.innerText.includes("hour before") && ${panel}.querySelector(".badge.bad")`);
    const hour = 3_600_000;
    const asked = async (from: number, to: number) => {
      const span = `since=${new Date(from).toISOString()}&until=${new Date(to).toISOString()}`;
      const got = await troupe.fetch(`/admin/v1/usage?by=day&${span}`, { key });
      return ((await got.json()) as { total: { calls: number } }).total.calls;
    };
    const at = Date.now();
    const facts = await page.read<string[][]>(
      `[...${panel}.querySelectorAll(".facts > div")].map((one) => one.innerText.split("\\n"))`,
    );
    expect(facts[0]!.slice(0, 2)).toEqual(["Attempts", String(await asked(at - hour, at))]);
    expect(facts[0]![2]).toStartWith(`hour before ${await asked(at - 2 * hour, at - hour)}, `);
    const risen = await page.read<string[][]>(
      `[...${panel}.querySelectorAll(".findings li")].filter((one) => one.querySelector(".badge.bad")).map((one) => [one.innerText.replaceAll("\\n", " "), ...[...one.querySelectorAll("a")].map((link) => link.hash)])`,
    );
    const [text, calls, provider] = risen.find(([one]) => one!.includes("groq"))!;
    expect(text).toMatch(/^more server_error of groq 3 since \d\d:00 UTC, usually 0\.0$/);
    expect(calls).toStartWith("#/calls?failure=server_error&provider=groq&since=");
    expect(provider).toBe("#/providers/groq");
    expect(faults()).toEqual([]);
  });

  test("the overview has the alerts that are on and what the doctor finds, each with where to go", async () => {
    const { store, budgets } = troupe.server.services;
    await store.budgets.set({ scope: "tag:team-a", period: "month", limit: 1_000_000, updatedAt: now });
    await store.ledger.append([ledgerLine("req_paid", { at: Date.now(), tags: ["team-a"], cost: 850_000 })]);
    await budgets.load();
    type Active = { active: { kind: string; since: string }[] };
    let active: Active["active"];
    do {
      await Bun.sleep(50);
      active = ((await (await troupe.fetch("/admin/v1/alerts", { key })).json()) as Active).active;
    } while (active.filter(({ kind }) => kind === "budget.reached").length < 2);
    type Report = { findings: { level: string; place: string; message: string; advice: string | null }[] };
    const { findings } = (await (await troupe.fetch("/admin/v1/doctor", { key })).json()) as Report;
    const [worst] = findings.filter(({ level }) => level !== "ok");
    await open("#/keys", `document.querySelector("h1")?.innerText.startsWith("Keys")`);
    const well = `document.querySelector("[aria-label='Whether all is well']")`;
    await open(
      "#/",
      `${well}?.innerText.includes("15 minutes") && ${well}.innerText.includes("Alert: tag:team-a used 80 % of a budget (month)")`,
    );
    const address = (text: string) =>
      page.read<string>(
        `[...${well}.querySelectorAll("a")].find((one) => one.innerText.startsWith(${JSON.stringify(text)}))?.hash`,
      );
    expect(await page.read<string>(`${well}.innerText`)).not.toContain("used 50 %");
    expect(await address("Alert: tag:team-a")).toBe("#/spend?tag=team-a");
    expect(await address("openai: some keys or endpoints are in cooldown (rate_limit)")).toBe("#/providers/openai");
    const own = within(now - 60_000, now);
    const failed = own.filter(({ failure }) => failure !== null && failure !== "invalid_request");
    const text = `xai: ${failed.length} of ${own.length} attempts were its faults in the last 15 minutes, most by server_error`;
    expect(await address(text)).toStartWith("#/calls?provider=xai&failure=server_error&since=");
    if (worst !== undefined) {
      // What it advises alone is folded.
      await page.until(`${well}.textContent.includes(${JSON.stringify(`Doctor, ${worst.place}`)})`);
      await page.read(`for (const one of ${well}.querySelectorAll("details")) one.open = true`);
      expect(await address(`Doctor, ${worst.place}`)).toBe("#/system/doctor");
    }
    expect(faults()).toEqual([]);
  });
});
