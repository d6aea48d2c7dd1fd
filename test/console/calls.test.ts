/** Calls in a real Chromium: failures first, filters in the address, live rows, and one call explained. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import type { Config } from "../../src/config/config.ts";
import { explain } from "../../src/console/pages/calls/explain.ts";
import type { Call } from "../../src/console/pages/calls/line.ts";
import { ChromiumPage, hasChromium } from "../helpers/chromium-page.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { button, filterLine, suggestions } from "./elements.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];
const cells = (table: string) =>
  `[...document.querySelectorAll(${JSON.stringify(`[aria-label="${table}"] tbody tr`)})].map((row) => [...row.cells].map((cell) => cell.innerText.trim()))`;
const quiet = { level: "error", format: "json", sample: 1, omit: [], redact: [] } as const;
const answer = {
  choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1000, completion_tokens: 500, total_tokens: 1500 },
};

describe.skipIf(!hasChromium)("in Chromium", () => {
  let upstream: UpstreamServer;
  let troupe: Troupe;
  let page: ChromiumPage;
  let key: string;
  const held = Promise.withResolvers<void>();
  const call = async (model: string, caller = troupe.key, more: object = {}) => {
    const body = { model, messages: [{ role: "user", content: "hi" }], ...more };
    const called = await troupe.post("/gateway/v1/chat/completions", body, { key: caller });
    await called.text();
    return called.headers.get("x-request-id")!;
  };
  let refused: string;
  let rerouted: string;
  beforeAll(async () => {
    upstream = new UpstreamServer(async ({ path }) => {
      if (path.startsWith("/down")) return jsonResponse({ error: { message: "down", code: "overloaded" } }, 503);
      if (path.startsWith("/slow")) await held.promise;
      return jsonResponse(answer);
    });
    const member = (path: string) => ({ apiKey: "k", baseUrl: `${upstream.url}${path}`, weight: 1 });
    troupe = await Troupe.start({
      providers: {
        groq: {
          baseUrl: member("/down").baseUrl,
          apiKey: "k",
          pool: { strategy: "first", members: [member("/down"), member("")] },
        },
        mistral: { baseUrl: `${upstream.url}/down` },
        deepseek: { baseUrl: `${upstream.url}/slow` },
        xai: { baseUrl: upstream.url },
      },
      config: { listen, log: { ...quiet, content: true }, prices: [{ match: "xai/grok-x", input: 2, output: 10 }] },
    });
    key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    await call("xai/grok-x");
    rerouted = await call("groq/m");
    refused = await call("mistral/m");
    page = await ChromiumPage.open();
    await page.go(`${troupe.url}/console#/calls`);
    await page.until(`document.querySelector("dialog[open]") && document.activeElement.type === "password"`);
    await page.type(key);
    await page.press("Enter");
    await page.until(`!document.querySelector("dialog[open]") && ${cells("Calls")}.length === 4`);
  });
  afterAll(async () => {
    held.resolve();
    await page?.[Symbol.asyncDispose]();
    await troupe?.[Symbol.asyncDispose]();
    upstream?.[Symbol.dispose]();
  });
  beforeEach(() => void page.errors.splice(0));
  const faults = () => page.errors;
  const open = (hash: string, ready: string) =>
    page.read(`location.hash = ${JSON.stringify(hash)}`).then(() => page.until(ready));

  test("every attempt is a row, failed and rerouted ones too, and filters stand in the address", async () => {
    const rows = await page.read<string[][]>(cells("Calls"));
    expect(
      rows.map(([, ended, model, target]) => [ended!.split(/\s/)[0], model, target!.split(/\s/)[0]]).toSorted(),
    ).toEqual(
      [
        ["broken", "groq/m", "groq/m"],
        ["broken", "mistral/m", "mistral/m"],
        ["finished", "groq/m", "groq/m"],
        ["finished", "xai/grok-x", "xai/grok-x"],
      ].map(([ended, ...rest]) => [
        expect.stringMatching(ended === "broken" ? /broken|refused/ : /finished/),
        ...rest,
      ]) as never,
    );
    await open("#/calls?model=groq%2Fm", `${cells("Calls")}.length === 2`);
    await open("#/calls?failure=server_error", `${cells("Calls")}.length === 2`);
    await open("#/calls?model=xai%2Fother", `document.body.innerText.includes("Nothing fits these filters.")`);
    expect(faults()).toEqual([]);
  });

  test("a call is explained: what each attempt said, what it cost, and where the same happened", async () => {
    await open(`#/calls/${rerouted}`, `document.querySelector("#why") && ${cells("Attempts")}.length === 2`);
    const why = await page.read<string>(`document.querySelector("#why").innerText`);
    expect(why).toContain("It was answered to its end.");
    expect(why).toMatch(
      /Attempt 1 at groq\/m took [\d.]+ ms and was left, because the provider failed \(status 503\)\. It said: overloaded: down\./,
    );
    const said = (await page.read<string[][]>(cells("Attempts"))).map((row) => row[4]);
    expect(said).toEqual(["overloaded: down", "–"]);
    expect((await page.read<string[][]>(cells("Tokens and cost"))).map(([name, tokens]) => [name, tokens])).toEqual([
      ["input", "1,000"],
      ["output", "500"],
    ]);
    await page.until(`${cells("Calls just before and after")}.length > 0`);
    await page.click(`[...document.querySelectorAll("a")].find((one) => one.innerText === "of this model and key")`);
    const chosen = `["error_code=overloaded", "model=groq%2Fm", "key=key_"].every((one) => location.hash.includes(one))`;
    await page.until(`${chosen} && ${cells("Calls")}.length === 1`);
    await open(`#/calls/${refused}`, `document.querySelector("#why")?.innerText.includes("the provider failed")`);
    await open("#/calls/req_none", `document.body.innerText.includes("There is no call of that request id")`);
    expect(faults().filter((text) => !text.includes("404"))).toEqual([]);
  });

  test("calls are found by what was slow, dear, refused or rerouted, with one press each", async () => {
    await open("#/calls", `${cells("Calls")}.length >= 4`);
    const press = (words: string) =>
      page.click(`[...document.querySelectorAll(".tabs a")].find((one) => one.innerText === ${JSON.stringify(words)})`);
    const models = () => page.read<string[]>(`${cells("Calls")}.map((row) => row[2])`);
    await press("Rerouted");
    await page.until(`location.hash.includes("min_attempt=2") && ${cells("Calls")}.length === 1`);
    expect(await models()).toEqual(["groq/m"]);
    await press("Failed");
    await page.until(`location.hash.includes("ended=broken") && ${cells("Calls")}.length === 2`);
    expect((await models()).toSorted()).toEqual(["groq/m", "mistral/m"]);
    /** By keyboard: the filter's name, and the first of the values that fit. */
    const choose = async (name: string, value: string, shown: string) => {
      await page.click(filterLine);
      await page.type(`${name}:`);
      await page.type(value);
      await page.until(`${suggestions}[0] === ${JSON.stringify(shown)}`);
      await page.press("Enter");
    };
    await press("All");
    await choose("cost", "0.01 or", "$0.01 or more 10000");
    await page.until(`document.body.innerText.includes("Nothing fits these filters.")`);
    await open("#/calls?min_cost_micro_dollars=7000", `${cells("Calls")}.length === 1`);
    expect(await models()).toEqual(["xai/grok-x"]);
    expect(await page.read<string>(`document.querySelector('[aria-label="Calls"] td.end [title^="$"]').title`)).toBe(
      "$0.007",
    );
    await open("#/calls", `${cells("Calls")}.length >= 4`);
    await choose("status", "5xx", "5xx");
    await page.until(`location.hash.includes("status=5xx") && ${cells("Calls")}.length === 2`);
    await choose("took", "600 s", "600 s or more 600000");
    await page.until(`document.body.innerText.includes("Nothing fits these filters.")`);
    expect(faults()).toEqual([]);
  });

  test("filters are suggested, names first and then what the ledger has, and each is a button that takes it away", async () => {
    await page.look({ width: 1440, height: 900, theme: "light" });
    await open("#/calls", `${cells("Calls")}.length >= 4`);
    // The table begins where a hand's breadth of the page is gone.
    expect(
      await page.read<number>(`document.querySelector('[aria-label="Calls"]').getBoundingClientRect().top`),
    ).toBeLessThan(200);
    expect(await page.read<string>(`${filterLine}.placeholder`)).toBe("Filter by model: key: status:…");
    await page.click(filterLine);
    await page.until(
      `${suggestions}[0] === "model: Model" && ${suggestions}.includes("error code: What its error was called")`,
    );
    await page.press("ArrowDown");
    await page.press("ArrowUp");
    await page.press("Enter");
    await page.until(`${filterLine}.value === "model:"`);
    // What was called, as it is called.
    await page.until(`${suggestions}.includes("mistral/m") && ${suggestions}.includes("xai/grok-x")`);
    await page.type("stral");
    await page.until(`${suggestions}.length === 2`);
    expect(await page.read<string[]>(suggestions)).toEqual(["stral as it is written: the whole name", "mistral/m"]);
    await page.click(`[...document.querySelectorAll("[role=option]")].find((one) => one.innerText === "mistral/m")`);
    await page.until(`location.hash === "#/calls?model=mistral%2Fm" && ${cells("Calls")}.length === 1`);
    expect(await page.read<string>(`${filterLine}.placeholder`)).toBe("Add filter");
    // A key is chosen by its name, and stands in the address by its id.
    await page.type("key:");
    await page.until(`${suggestions}.length > 0`);
    await page.press("Enter");
    await page.until(`location.hash.includes("key=key_") && ${button("Clear")}`);
    await page.until(`!document.querySelector(".filter-line").innerText.includes("key: key_")`);
    // With nothing typed the last one is taken away, as in any line of names.
    await page.click(filterLine);
    await page.press("Backspace");
    await page.until(`location.hash === "#/calls?model=mistral%2Fm"`);
    await page.press("Escape");
    await page.until(`${suggestions}.length === 0`);
    await page.click(
      `[...document.querySelectorAll(".filter-line button")].find((one) => one.innerText.startsWith("model: mistral/m"))`,
    );
    await page.until(`location.hash === "#/calls" && ${cells("Calls")}.length >= 4`);
    await page.look({ width: 360, height: 740, theme: "dark" });
    await page.click(filterLine);
    await page.until(`${suggestions}.length > 3`);
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    await page.press("Escape");
    await page.look({ width: 1280, height: 800, theme: "light" });
    expect(faults()).toEqual([]);
  });

  test("what was said in a stored call is read when it is asked for, and the audit says by whom", async () => {
    const stored = await call("xai/plain", troupe.key, {
      store: true,
      messages: [{ role: "user", content: "<b onclick=x>hi</b>" }],
    });
    await open(`#/calls/${stored}`, `document.querySelector("#why")`);
    const read = `[...document.querySelectorAll("button")].find((one) => one.innerText === "Read what was said")`;
    expect(await page.read<boolean>(`document.body.innerText.includes("onclick")`)).toBe(false);
    await page.click(read);
    await page.until(`document.querySelectorAll("pre.sent").length === 2`);
    expect(await page.read<string[]>(`[...document.querySelectorAll("pre.sent")].map((one) => one.innerText)`)).toEqual(
      ["<b onclick=x>hi</b>", "ok"],
    );
    await open(
      "#/system/audit",
      `${cells("What was done")}.some((row) => row.join(" ").includes(${JSON.stringify(stored)}))`,
    );
    await open(`#/calls/${refused}`, `${read}`);
    await page.click(read);
    await page.until(`document.body.innerText.includes("Nothing is stored of it")`);
    expect(faults()).toEqual([]);
  });

  test("a call's tags stand apart, each leads to its calls", async () => {
    const tagged = await troupe.createKey({ name: "tagged", tier: "pro", tags: ["acme.eu", "beta"] });
    const id = await call("xai/tagged", tagged);
    await troupe.server.services.ledger.flush();
    await open(`#/calls/${id}`, `document.querySelector("#why")`);
    const tags = `[...document.querySelectorAll("dt")].find((one) => one.innerText === "Tags").nextElementSibling`;
    expect(await page.read<string>(`${tags}.innerText`)).toBe("acme.eu, beta");
    await page.click(`${tags}.querySelectorAll("a")[1]`);
    await page.until(`location.hash === "#/calls?tag=beta" && ${cells("Calls")}.length === 1`);
    expect(faults()).toEqual([]);
  });

  test("a priced call shows its parts, to the micro-dollar", async () => {
    await open("#/calls?model=xai%2Fgrok-x", `${cells("Calls")}.length === 1`);
    await page.click(`document.querySelector('[aria-label="Calls"] tbody a')`);
    await page.until(`${cells("Tokens and cost")}.length === 2`);
    expect(await page.read<string[][]>(cells("Tokens and cost"))).toEqual([
      ["input", "1,000", "$0.002", "$2.00"],
      ["output", "500", "$0.005", "$10.00"],
    ]);
  });

  test("a row opens anywhere in it, beside the list; j, k and Escape lead on and back, and its id is copied", async () => {
    await page.look({ width: 1440, height: 900, theme: "light" });
    await open("#/calls?provider=groq", `${cells("Calls")}.length === 2`);
    const row = (at: number) => `document.querySelector('[aria-label="Calls"] tbody').rows[${at}]`;
    await page.click(`${row(0)}.cells[5]`);
    await page.until(`document.querySelector("aside #why")`);
    expect(await page.read<string>("location.hash")).toBe(`#/calls?provider=groq&call=${rerouted}`);
    expect(await page.read<number>(`document.querySelectorAll('[aria-label="Calls"] tbody tr').length`)).toBe(2);
    // Each attempt along the time: the first waited and was left, the second waited and wrote.
    const bars = `[...document.querySelectorAll("aside .waterfall li")].map((one) => one.innerText.replaceAll("\\n", " "))`;
    const [first, second] = await page.read<string[]>(bars);
    expect(first).toMatch(/^1\. groq\/m no token, [\d.]+ ms in all: left, because the provider failed$/);
    expect(second).toMatch(/^2\. groq\/m .*[\d.]+ ms in all$/);
    await page.read(
      `navigator.clipboard.writeText = (text) => { globalThis.copied = text; return Promise.resolve(); }`,
    );
    await page.click(`[...document.querySelectorAll("aside button")].find((one) => one.innerText === "Copy")`);
    await page.until(`globalThis.copied === ${JSON.stringify(rerouted)}`);
    await page.press("Escape");
    await page.until(`!document.querySelector("aside") && location.hash === "#/calls?provider=groq"`);
    await open("#/calls", `${cells("Calls")}.length >= 4`);
    await page.settle();
    const at = `[...${row(0)}.parentElement.rows].findIndex((one) => one.contains(document.activeElement))`;
    await page.read("document.activeElement.blur()");
    for (const [letter, to] of [
      ["j", 0],
      ["j", 1],
      ["k", 0],
      ["j", 1],
    ] as const) {
      await page.pressLetter(letter);
      await page.until(`${at} === ${to}`);
    }
    await page.press("Enter");
    const openedRow = `[...${row(0)}.parentElement.rows].findIndex((one) => one.getAttribute("aria-current") === "true")`;
    await page.until(`document.querySelector("aside #why") && ${openedRow} >= 0`);
    const [before, shown] = [await page.read<number>(openedRow), `document.querySelector("aside code").innerText`];
    const begun = await page.read<string>(shown);
    await page.pressLetter("j");
    await page.until(`${openedRow} > ${before} && ${shown} !== ${JSON.stringify(begun)}`);
    await page.click(`document.querySelector('aside button[aria-label="Previous call"]')`);
    await page.until(`${openedRow} === ${before} && ${shown} === ${JSON.stringify(begun)}`);
    // Where there is no room beside it, it lies over the list, and goes again.
    await page.look({ width: 360, height: 740, theme: "dark" });
    expect(await page.read<number>("document.documentElement.scrollWidth - innerWidth")).toBeLessThanOrEqual(0);
    await page.click(`document.querySelector('aside button[aria-label="Close"]')`);
    await page.until(`!document.querySelector("aside")`);
    expect(await page.read<boolean>(`document.activeElement.matches("a[data-opens]")`)).toBe(true);
    await page.look({ width: 1280, height: 800, theme: "light" });
    expect(faults()).toEqual([]);
  });

  test("nothing that is a page of more is sorted by what is loaded", async () => {
    await open("#/calls", `${cells("Calls")}.length >= 4`);
    expect(await page.read<number>(`document.querySelectorAll('[aria-label="Calls"] thead button').length`)).toBe(0);
    const { store, budgets } = troupe.server.services;
    const setBudgets = async (from: number, to: number) => {
      for (let at = from; at < to; at += 1)
        await store.budgets.set({ scope: `tag:t${at}`, period: "day", limit: 1_000_000, updatedAt: Date.now() });
      await budgets.load();
    };
    const heads = `document.querySelectorAll('[aria-label="Budgets"] thead button').length`;
    await setBudgets(0, 2);
    await open("#/keys/budgets", `${cells("Budgets")}.length === 2 && ${heads} > 0`);
    await setBudgets(2, 1_001);
    await open("#/keys/budgets?period=day", `document.body.innerText.includes("Next page") && ${heads} === 0`);
    await page.click(`[...document.querySelectorAll("main a")].find((one) => one.innerText === "Next page")`);
    await page.until(`${cells("Budgets")}.length === 1 && ${heads} === 0`);
    expect(faults()).toEqual([]);
  });

  test("a filter that there is none of says so, and one for none stays when another is chosen", async () => {
    await open("#/calls?failed=true&persona=", `document.querySelector("main .notice.warn")`);
    await page.settle();
    expect(await page.read<string>(`document.querySelector("main .notice.warn").innerText`)).toStartWith(
      "There is no filter 'failed': the calls below are not chosen by it.",
    );
    await page.click(
      `[...document.querySelectorAll("main .notice.warn button")].find((one) => one.innerText === "Remove it")`,
    );
    await page.until(`location.hash === "#/calls?persona=" && !document.querySelector("main .notice.warn")`);
    const none = `[...document.querySelectorAll("main button")].find((one) => one.innerText.startsWith("persona: none"))`;
    await page.until(none);
    await page.click(`[...document.querySelectorAll(".tabs a")].find((one) => one.innerText === "Failed")`);
    await page.until(`location.hash.includes("ended=") && location.hash.includes("persona=&")`);
    await page.click(filterLine);
    await page.type("model:mistral/m");
    await page.press("Enter");
    await page.until(`location.hash.includes("model=mistral%2Fm") && ${cells("Calls")}.length === 1`);
    expect(await page.read<string>("location.hash")).toContain("persona=&");
    await page.click(none);
    await page.until(`!location.hash.includes("persona") && ${cells("Calls")}.length === 1`);
    expect(faults()).toEqual([]);
  });

  test("what is under way, and what comes live, is only what the filters can choose", async () => {
    const later = call("deepseek/m");
    await open("#/calls", `${cells("Calls under way")}.length === 1`);
    await page.click(`[...document.querySelectorAll(".tabs a")].find((one) => one.innerText === "Failed")`);
    await page.until(`document.body.innerText.includes("what they are chosen by (ended) is known at an end")`);
    expect(await page.read<number>(`${cells("Calls under way")}.length`)).toBe(0);
    await open("#/calls?since=1h", `document.body.innerText.includes("the oldest first, whenever they began")`);
    const until = new Date(Date.now() - 1).toISOString();
    await open(
      `#/calls?live=1&until=${until}`,
      `document.body.innerText.includes("Nothing is added live: what is shown ends at ${until}.") && ${cells("Calls")}.length > 0`,
    );
    expect(page.requests.filter((url) => url.includes("calls/stream"))).toEqual([]);
    const shown = await page.read<number>(`${cells("Calls")}.length`);
    await call("xai/late");
    await troupe.server.services.ledger.flush();
    await open("#/calls?model=xai%2Flate", `${cells("Calls")}.length === 1`);
    await open(`#/calls?live=1&until=${until}`, `${cells("Calls")}.length === ${shown}`);
    expect(await page.read<number>(`${cells("Calls under way")}.length`)).toBe(0);
    expect(await Promise.race([later, "under way"])).toBe("under way");
    expect(faults()).toEqual([]);
  });

  test("a call under way is shown, then appears live by itself; a burst leaves the page answering", async () => {
    await open("#/calls?live=1", `document.body.innerText.includes("Live: calls appear as they end.")`);
    const slow = call("deepseek/m");
    await page.until(`${cells("Calls under way")}.some((row) => row.includes("deepseek/m"))`);
    held.resolve();
    await slow;
    await page.until(`${cells("Calls")}.some((row) => row.includes("deepseek/m"))`);
    const burst = Array.from({ length: 300 }, () => call("xai/grok-x"));
    await Promise.all(burst);
    await page.until(`document.body.innerText.includes("Show more of ")`);
    // However many come, so many are drawn, and a click is answered.
    expect(await page.read<number>(`${cells("Calls")}.length`)).toBe(50);
    await page.click(`[...document.querySelectorAll("button")].find((one) => one.innerText === "Live")`);
    await page.until(`!location.hash.includes("live") && ${cells("Calls")}.length === 50`);
    expect(faults()).toEqual([]);
  });

  test("a name of a model as long as a caller may choose is cut, and the columns beside it keep their places", async () => {
    const long = `xai/${"W".repeat(200)}`;
    await call(long);
    await troupe.server.services.ledger.flush();
    await open(`#/calls?model=${long}`, `${cells("Calls")}.length === 1`);
    const cell = (at: number) => `document.querySelector('[aria-label="Calls"] tbody').rows[0].cells[${at}]`;
    expect(await page.read<number[]>(`[${cell(2)}, ${cell(3)}].map((one) => one.offsetWidth)`)).toEqual([384, 384]);
    // Where a cell is text alone, all of it is its title.
    await open("#/spend", `document.querySelector("td[title]")`);
    expect(await page.read<string>(`document.querySelector("td[title]").title`)).toBe(long);
    expect(faults()).toEqual([]);
  });
});

test.each([
  [
    { ended: "refused", status: 429, error_code: "insufficient_quota", error_text: "The day's budget has $1.00 left." },
    "It was refused: a budget has less left than the call may cost: see Keys and budgets. It said: insufficient_quota: The day's budget has $1.00 left.",
  ],
  [{ ended: "refused", status: 429 }, "It was refused: a limit of the key or of its plan was reached."],
  [
    { ended: "broken", failure: "timeout", status: 504 },
    "It failed before any of its answer came: the provider did not answer in time.",
  ],
  [
    { ended: "broken", failure: "broken", status: 200, first_token_ms: 3 },
    "It broke off: what the client had was not all: the provider's answer broke off.",
  ],
  [{ ended: "interrupted" }, "It was under way when the server ended."],
] as const)("%j is explained", (some, words) => {
  const line = {
    attempt: 1,
    at: "2026-11-24T10:00:00Z",
    failure: null,
    status: null,
    tokens: {},
    total_ms: 5,
    first_token_ms: null,
  };
  const one = {
    ...line,
    cost_micro_dollars: 0,
    costs_micro_dollars: null,
    counted: "none",
    price_note: null,
    ...some,
  } as unknown as Call;
  expect(explain([one])[0]).toBe(words);
});

test("a slow first token, a long answer and what it cost are explained by their numbers", () => {
  const one = {
    ...{ attempt: 1, at: "2026-11-24T10:00:00Z", ended: "finished", failure: null, status: 200, price_note: null },
    ...{ tokens: { output: 1000, reasoning: 800 }, total_ms: 25_000, first_token_ms: 5_000, counted: "upstream" },
    ...{ cost_micro_dollars: 12_000, costs_micro_dollars: { input: 2_000, output: 10_000 } },
  } as unknown as Call;
  expect(explain([one], { p50: 400, p95: 1_200 }).slice(1)).toEqual([
    "Its first token took 5.00 s, slower than 95 of 100 calls of this model that day (1.20 s; half take less than 400 ms).",
    "Most of the time went to writing 1,000 tokens, 50 a second.",
    "800 of its output tokens are thinking.",
    "It cost $0.012, of which $0.01 for output.",
  ]);
});
