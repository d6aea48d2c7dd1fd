/** `troupe reconcile` against local servers that answer as OpenAI's and Anthropic's reports do, and against exported files. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import type { UsageCompletionsResponse, UsageCostsResponse } from "openai/resources/admin/organization/usage";
import { loadFrom } from "../../../src/cli/context.ts";
import { examineBills } from "../../../src/cli/doctor/bills.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

type Answer = { readonly status?: number; readonly headers?: Record<string, string>; readonly body: unknown };

const day = (date: string) => Date.parse(`${date}T00:00:00Z`) / 1000;
const bucket = (date: string, results: readonly object[]) => ({
  ...{ object: "bucket", start_time: day(date), end_time: day(date) + 86_400, results },
});
const costs = (...items: readonly [item: string | null, value: number | string, currency?: string][]) =>
  items.map(([line_item, value, currency = "usd"]) => ({
    ...{ object: "organization.costs.result", amount: { value, currency }, line_item },
    ...{ project_id: null, api_key_id: null, quantity: null },
  }));
const completions = (model: string, input: number, output: number, more: object = {}) => ({
  ...{ object: "organization.usage.completions.result", model, batch: false, service_tier: "default" },
  ...{ input_tokens: input, output_tokens: output, input_cached_tokens: 0, num_model_requests: 1 },
  ...{ project_id: null, user_id: null, api_key_id: null, ...more },
});
const page = (data: readonly object[], next: string | null = null) => ({
  ...{ object: "page", data, has_more: next !== null, next_page: next },
});
/** Fails to compile where the SDK reads another form. */
const asSdkReads: [UsageCostsResponse, UsageCompletionsResponse] = [
  {
    ...{ object: "page", has_more: false, next_page: null },
    data: [
      {
        ...{ object: "bucket", start_time: 0, end_time: 86_400 },
        results: [{ object: "organization.costs.result", amount: { value: 0.06, currency: "usd" }, line_item: null }],
      },
    ],
  },
  {
    ...{ object: "page", has_more: false, next_page: null },
    data: [
      {
        ...{ object: "bucket", start_time: 0, end_time: 86_400 },
        results: [
          {
            ...{ object: "organization.usage.completions.result", input_tokens: 1, output_tokens: 1 },
            ...{ num_model_requests: 1, model: "gpt-4o", batch: false, service_tier: "default" },
          },
        ],
      },
    ],
  },
];

type Row = {
  readonly day: string;
  readonly model: string | null;
  readonly service_tier: string;
  readonly ledger: Readonly<Record<string, number>>;
  readonly reported: Readonly<Record<string, number>>;
};

let folder: TempFolder;
let server: Bun.Server<undefined>;
const asked: { readonly url: URL; readonly headers: Headers }[] = [];
let answer: (url: URL) => Answer;
const shell = (env: Record<string, string> = {}) => new Console(folder.path, { OPENAI_API_KEY: "sk-1", ...env });
const openai = { OPENAI_ADMIN_KEY: "sk-admin-secret" };
const span = "--since 2026-11-20 --until 2026-11-22";

beforeAll(async () => {
  folder = new TempFolder();
  server = Bun.serve({
    ...{ hostname: "127.0.0.1", port: 0 },
    fetch(request) {
      const url = new URL(request.url);
      asked.push({ url, headers: request.headers });
      const { status = 200, headers = {}, body } = answer(url);
      return typeof body === "string"
        ? new Response(body, { status, headers })
        : Response.json(body, { status, headers });
    },
  });
  writeFileSync(
    folder.file("troupe.yaml"),
    `providers:
  openai: { base_url: "http://127.0.0.1:${server.port}/v1" }
  anthropic: { base_url: "http://127.0.0.1:${server.port}", api_key: sk-ant-1 }
`,
  );
  await shell().run("keys create alice");
  const store = openStore(folder.file("data"));
  const tokens = {
    ...ledgerLine("x").tokens,
    input: 1_000,
    cacheRead: 400,
    cacheWrite5m: 0,
    cacheWrite1h: 0,
    output: 200,
  };
  const free = {
    input: 0,
    cacheRead: 0,
    cacheWrite: 0,
    output: 0,
    reasoning: 0,
    audioInput: 0,
    audioOutput: 0,
    other: 0,
  };
  const line = (id: string, changes: object) =>
    ledgerLine(id, {
      at: Date.UTC(2026, 10, 20, 12),
      tokens,
      costs: { ...free, input: 60_000 },
      cost: 60_000,
      ...changes,
    });
  await store.ledger.append([
    line("req_1", { upstreamModel: "gpt-6.2" }),
    line("req_2", {
      upstreamModel: "gpt-6.2",
      serviceTier: "priority",
      cost: 120_000,
      costs: { ...free, input: 120_000 },
    }),
    // The last moment of the day, and the first of the next.
    line("req_3", {
      upstreamModel: "gpt-6.2",
      at: Date.UTC(2026, 10, 21) - 1,
      cost: 70_000,
      costs: { ...free, input: 60_000, other: 10_000 },
    }),
    line("req_4", { upstreamModel: "gpt-6.2", at: Date.UTC(2026, 10, 21), ended: "abandoned", counted: "estimated" }),
    line("req_5", {
      upstreamModel: "gpt-6.2",
      at: Date.UTC(2026, 10, 21, 3),
      cost: null,
      costs: null,
      priceSource: "unknown",
    }),
    // Nobody bills what was refused or replayed.
    line("req_6", {
      upstreamModel: "gpt-6.2",
      ended: "refused",
      counted: "none",
      tokens: { ...tokens, input: 0, cacheRead: 0, output: 0 },
      cost: 0,
      costs: free,
    }),
    line("req_7", {
      provider: "anthropic",
      upstreamModel: "claude-haiku-4-5",
      cost: 1_450_000,
      costs: { ...free, input: 1_450_000 },
      tokens: { ...tokens, input: 1_000_000, cacheRead: 500_000, cacheWrite5m: 100_000, output: 50_000 },
    }),
    line("req_8", {
      provider: "else",
      upstreamModel: "gpt-6.2",
      cost: 9_000_000,
      costs: { ...free, input: 9_000_000 },
    }),
  ]);
  await store.close();
});
afterAll(async () => {
  await server.stop(true);
  folder[Symbol.dispose]();
});
beforeEach(() => void asked.splice(0));

const reported = (url: URL): Answer => {
  if (url.pathname.endsWith("/embeddings")) return { body: page([bucket("2026-11-20", []), bucket("2026-11-21", [])]) };
  if (url.pathname.endsWith("/completions")) {
    return {
      body: page([
        bucket("2026-11-20", [
          completions("gpt-6.2-2026-10-01", 2_000, 400, { num_model_requests: 2, input_cached_tokens: 800 }),
          completions("gpt-6.2-2026-10-01", 1_000, 200, { service_tier: "priority", input_cached_tokens: 400 }),
        ]),
        bucket("2026-11-21", [
          completions("gpt-6.2-2026-10-01", 5_000, 900, { num_model_requests: 5, input_cached_tokens: 800 }),
          completions("gpt-6.2-luna", 10, 2),
        ]),
      ]),
    };
  }
  // The second day is on a page of its own.
  return url.searchParams.get("page") === "next/2"
    ? {
        body: page([
          bucket(
            "2026-11-21",
            costs(["gpt-6.2-2026-10-01, input", 0.3], ["gpt-6.2-luna, output", "0.0200000000000000"]),
          ),
        ]),
      }
    : {
        body: page(
          [
            bucket(
              "2026-11-20",
              costs(
                ["gpt-6.2-2026-10-01, input", 0.1],
                ["gpt-6.2-2026-10-01, cached input", 2e-2],
                ["priority | gpt-6.2-2026-10-01, output, long context", 0.15],
                ["web search tool calls", 0.01],
              ),
            ),
          ],
          "next/2",
        ),
      };
};

describe("troupe reconcile", () => {
  test("the local servers answer in the form that the SDK reads", () => {
    const [asCosts, asUse] = asSdkReads;
    expect(Object.keys(page([]))).toEqual(expect.arrayContaining(Object.keys(asCosts)));
    const [one] = asUse.data[0]!.results;
    expect(Object.keys(completions("m", 1, 1))).toEqual(expect.arrayContaining(Object.keys(one!)));
  });

  test("OpenAI's reports: every difference by day, model and tier, with what explains it", async () => {
    answer = reported;
    const { out, err, code } = await shell(openai).run(`reconcile ${span} --provider openai --all`);
    expect({ err, code }).toEqual({ err: "", code: 0 });
    expect(out).toBe(`openai (openai), 2026-11-20 to 2026-11-21, days in UTC
DAY         MODEL                  TIER      INPUT           OUTPUT        LEDGER     REPORTED   DIFFERENCE             WHY
2026-11-20  web search tool calls  standard  -               -             $0.010000  $0.010000  $0.000000 (0.00%)
2026-11-20  gpt-6.2                priority  1,000           200           $0.120000  $0.150000  +$0.030000 (+20.00%)   tokens agree, the price differs
2026-11-20  gpt-6.2                standard  2,000           400           $0.120000  $0.120000  $0.000000 (0.00%)
2026-11-21  gpt-6.2                standard  2,000 (+3,000)  400 (+500)    $0.060000  $0.300000  +$0.240000 (+80.00%)   3 calls more than the ledger has: other keys of the account; 1 call of unknown cost; 1 call with estimated tokens; 1 call left or broken before the end
2026-11-21  gpt-6.2-luna           standard  0 (+10)         0 (+2)        $0.000000  $0.020000  +$0.020000 (+100.00%)  not in the ledger: another key of the account, or past this program
total                                        5,000 (+3,010)  1,000 (+502)  $0.310000  $0.600000  +$0.290000 (+48.33%)
`);
    expect(asked.map(({ url }) => url.pathname)).toEqual([
      "/v1/organization/costs",
      "/v1/organization/costs",
      "/v1/organization/usage/completions",
      "/v1/organization/usage/embeddings",
    ]);
    const {
      start_time,
      end_time,
      bucket_width,
      limit,
      "group_by[]": by,
    } = Object.fromEntries(asked[0]!.url.searchParams);
    expect([start_time, end_time]).toEqual(["2026-11-20", "2026-11-22"].map((date) => String(day(date))));
    expect([bucket_width, limit, by]).toEqual(["1d", "180", "line_item"]);
    expect(asked[2]!.url.searchParams.getAll("group_by[]")).toEqual(["model", "batch", "service_tier"]);
    expect(new Set(asked.map(({ headers }) => headers.get("authorization")))).toEqual(
      new Set(["Bearer sk-admin-secret"]),
    );
  });

  test("without --all only what differs; --json has exact numbers", async () => {
    answer = reported;
    const { out } = await shell(openai).run(`reconcile ${span} --provider openai`);
    expect(out).toContain("2 more rows agree; --all shows them.");
    expect(out).not.toContain("web search");
    const { data } = JSON.parse((await shell(openai).run(`reconcile ${span} --provider openai --json`)).out);
    expect(data[0]).toMatchObject({
      ...{ account: "openai", providers: ["openai"], within: false, other_currencies: [] },
      ledger: {
        calls: 5,
        input_tokens: 5_000,
        cache_read_tokens: 2_000,
        output_tokens: 1_000,
        cost_micro_dollars: 310_000,
      },
      reported: { calls: 9, input_tokens: 8_010, output_tokens: 1_502, cost_micro_dollars: 600_000 },
      missing_days: { costs: [], usage: [] },
    });
    expect(data[0].rows[1]).toEqual({
      ...{ day: "2026-11-20", model: "gpt-6.2", service_tier: "priority" },
      ledger: {
        ...{ calls: 1, input_tokens: 1_000, cache_read_tokens: 400, cache_write_tokens: 0, output_tokens: 200 },
        ...{ cost_micro_dollars: 120_000, unknown_cost_calls: 0, estimated_calls: 0, unfinished_calls: 0 },
      },
      reported: {
        ...{ calls: 1, input_tokens: 1_000, cache_read_tokens: 400, cache_write_tokens: 0, output_tokens: 200 },
        cost_micro_dollars: 150_000,
      },
      why: [{ reason: "price" }],
    });
  });

  test.each([
    ["48.34%", 0],
    ["48.33%", 1],
    ["0.5", 0],
  ])("--tolerance %s: exit code %d", async (tolerance, code) => {
    answer = reported;
    const ran = await shell(openai).run(`reconcile ${span} --provider openai --tolerance ${tolerance}`);
    expect([ran.code, ran.err]).toEqual([code, ""]);
  });

  const anthropicDay = (date: string, results: readonly object[]) => ({
    ...{ starting_at: `${date}T00:00:00Z`, ending_at: new Date((day(date) + 86_400) * 1000).toISOString(), results },
  });
  const cost = (amount: string, token_type: string, more: object = {}) => ({
    ...{
      currency: "USD",
      amount,
      workspace_id: "wrkspc_1",
      description: "Claude Haiku 4.5 Usage",
      cost_type: "tokens",
    },
    ...{ context_window: "0-200k", model: "claude-haiku-4-5-20251001", service_tier: "standard", token_type, ...more },
  });

  test("Anthropic's reports: cents as decimals, lifetimes of cache writes, a workspace alone", async () => {
    answer = ({ pathname }) => ({
      body: {
        ...{ has_more: false, next_page: null },
        data: pathname.endsWith("cost_report")
          ? [
              anthropicDay("2026-11-20", [
                cost("99.99999999", "uncached_input_tokens"),
                cost("45.00000001", "output_tokens"),
                cost("700.5", "output_tokens", { workspace_id: "wrkspc_2" }),
                cost("3", "", {
                  cost_type: "web_search",
                  description: "Web Search Usage",
                  model: null,
                  token_type: null,
                }),
              ]),
              anthropicDay("2026-11-21", []),
            ]
          : [
              anthropicDay("2026-11-20", [
                {
                  ...{ uncached_input_tokens: 400_000, cache_read_input_tokens: 500_000, output_tokens: 50_000 },
                  cache_creation: { ephemeral_1h_input_tokens: 40_000, ephemeral_5m_input_tokens: 60_000 },
                  server_tool_use: { web_search_requests: 3 },
                  ...{
                    model: "claude-haiku-4-5-20251001",
                    service_tier: "standard",
                    workspace_id: null,
                    api_key_id: null,
                  },
                },
              ]),
              anthropicDay("2026-11-21", []),
            ],
      },
    });
    const key = { ANTHROPIC_ADMIN_KEY: "sk-ant-admin01-secret" };
    const line = `reconcile ${span} --provider anthropic --project wrkspc_1`;
    const { out, err, code } = await shell(key).run(`${line} --all`);
    expect({ err, code }).toEqual({ err: "", code: 0 });
    expect(out).toBe(`anthropic (anthropic), 2026-11-20 to 2026-11-21, days in UTC
DAY         MODEL             TIER      INPUT      OUTPUT  LEDGER     REPORTED   DIFFERENCE             WHY
2026-11-20  Web Search Usage  standard  -          -       $0.000000  $0.030000  +$0.030000 (+100.00%)  not in the ledger: another key of the account, or past this program
2026-11-20  claude-haiku-4-5  standard  1,000,000  50,000  $1.450000  $1.450000  $0.000000 (0.00%)
total                                   1,000,000  50,000  $1.450000  $1.480000  +$0.030000 (+2.03%)
`);
    expect(asked.map(({ url }) => `${url.pathname} ${url.searchParams.getAll("group_by[]")}`)).toEqual([
      "/v1/organizations/cost_report description,workspace_id",
      "/v1/organizations/usage_report/messages model,service_tier",
    ]);
    expect(asked[1]!.url.searchParams.getAll("workspace_ids[]")).toEqual(["wrkspc_1"]);
    expect(asked[0]!.url.searchParams.get("starting_at")).toBe("2026-11-20T00:00:00.000Z");
    expect(asked[0]!.headers.get("x-api-key")).toBe("sk-ant-admin01-secret");
    expect(asked[0]!.headers.get("anthropic-version")).toBe("2023-06-01");
  });

  test("files of OpenAI's dashboard: costs of whole days, tabs, empty days, numbers with a fraction", async () => {
    const head =
      "start_time\tend_time\tstart_time_iso\tend_time_iso\tamount_value\tamount_currency\tline_item\tproject_id\torganization_id\torganization_name";
    writeFileSync(
      folder.file("costs.tsv"),
      `${head}
${day("2026-11-20")}\t${day("2026-11-21")}\t2026-11-20T00:00:00+00:00\t2026-11-21T00:00:00+00:00\t0.2500000000000000\tusd\t\t\torg-1\tPersonal
${day("2026-11-21")}\t${day("2026-11-22")}\t2026-11-21T00:00:00+00:00\t2026-11-22T00:00:00+00:00\t\t\t\t\t\t
`,
    );
    writeFileSync(
      folder.file("use.csv"),
      `start_time,end_time,start_time_iso,end_time_iso,project_id,num_model_requests,user_id,api_key_id,model,batch,service_tier,input_tokens,output_tokens,input_cached_tokens
${day("2026-11-20")},0,2026-11-20T00:00:00+00:00,,proj_1,2.0,u,k,gpt-6.2-2026-10-01,FALSE,default,2000.0,400.0,800.0
${day("2026-11-20")},0,2026-11-20T00:00:00+00:00,,proj_1,1.0,u,k,gpt-6.2-2026-10-01,TRUE,default,7.0,1.0,0.0
${day("2026-11-21")},0,2026-11-21T00:00:00+00:00,,,,,,,,,,,
`,
    );
    const { out, err, code } = await shell().run(
      `reconcile ${span} --provider openai --report costs.tsv --report use.csv --json`,
    );
    expect({ err, code }).toEqual({ err: "", code: 0 });
    const { rows, ledger, reported: theirs } = JSON.parse(out).data[0];
    expect([ledger.cost_micro_dollars, theirs.cost_micro_dollars]).toEqual([310_000, 250_000]);
    expect(
      (rows as Row[]).map((row) => [
        row.day,
        row.model,
        row.service_tier,
        row.ledger.cost_micro_dollars,
        row.reported.cost_micro_dollars,
        row.reported.input_tokens,
      ]),
    ).toEqual([
      ["2026-11-20", null, "standard", 250_000, 250_000, undefined],
      ["2026-11-20", "gpt-6.2", "batch", 0, undefined, 7],
      ["2026-11-20", "gpt-6.2", "priority", 0, undefined, 0],
      ["2026-11-20", "gpt-6.2", "standard", 0, undefined, 2_000],
      ["2026-11-21", "gpt-6.2", "standard", 60_000, 0, 0],
    ]);
    expect(asked).toEqual([]);
  });

  test("files of Anthropic's console: names as people say them, a byte order mark, quotes", async () => {
    writeFileSync(
      folder.file("anthropic-costs.csv"),
      `\u{feff}usage_date_utc,model,workspace,api_key,usage_type,context_window,token_type,cost_usd,list_price_usd,cost_type,inference_geo,speed
2026-11-20,Claude Haiku 4.5,"Ours, and more",k,message,≤ 200k,input_no_cache,1.20,1.20,token,not_available,
2026-11-20,Claude Haiku 4.5,"Ours, and more",k,message,≤ 200k,output,0.25,0.25,token,not_available,
2026-11-21,Claude Haiku 4.5,Theirs,k,message,≤ 200k,output,5,5,token,not_available,
`,
    );
    writeFileSync(
      folder.file("anthropic-use.csv"),
      `usage_date_utc,model_version,api_key,workspace,usage_type,context_window,usage_input_tokens_no_cache,usage_input_tokens_cache_write_5m,usage_input_tokens_cache_write_1h,usage_input_tokens_cache_read,usage_output_tokens,web_search_count
2026-11-20,claude-haiku-4-5-20251001,k,"Ours, and more",standard,≤ 200k,400000,60000,40000,500000,50000,0
`,
    );
    const line = [
      "reconcile",
      ...span.split(" "),
      "--provider",
      "anthropic",
      "--tolerance",
      "0",
      "--project",
      "Ours, and more",
    ];
    const files = ["--report", "anthropic-costs.csv", "--report", "anthropic-use.csv"];
    const { out, err, code } = await shell().run([...line, ...files]);
    expect({ err, code }).toEqual({ err: "", code: 0 });
    expect(out).toContain("total               1,000,000  50,000  $1.450000  $1.450000  $0.000000 (0.00%)");
    expect(out).toContain("1 more row agrees; --all shows it.");
  });

  test("an answer that was kept is a file, too; with one report alone the other is said to be missing", async () => {
    writeFileSync(
      folder.file("kept.json"),
      JSON.stringify(page([bucket("2026-11-20", costs(["gpt-6.2, input", 0.25]))])),
    );
    const { out, code } = await shell().run(`reconcile ${span} --provider openai --report kept.json --tolerance 1%`);
    expect(code).toBe(1);
    expect(out).toContain("+$0.130000 (+52.00%)  the cost differs\n");
    expect(out).toContain("There was no report of usage.");
    expect(out).toContain("The report of costs lacks 2026-11-21; the total leaves them out on both sides.");
    expect(out).toContain("total                          -      -       $0.250000  $0.250000  $0.000000 (0.00%)");
  });

  test("another currency is compared with nothing, and no total is within the tolerance", async () => {
    answer = (url) =>
      url.pathname.endsWith("/costs")
        ? { body: page([bucket("2026-11-20", costs(["gpt-6.2, input", 1.25, "EUR"])), bucket("2026-11-21", [])]) }
        : reported(url);
    const { out, code } = await shell(openai).run(`reconcile ${span} --provider openai --tolerance 100%`);
    expect(code).toBe(1);
    expect(out).toContain("Reported in other currencies, and not compared: 1.25 eur.");
  });

  const broken = "http://127.0.0.1:PORT/v1/organization/costs";
  test.each<[string, Answer, string]>([
    [
      "a key for calls",
      { status: 403, body: { error: { message: "Missing scopes: api.usage.read for sk-admin-secret" } } },
      `${broken} answers 403: Missing scopes: api.usage.read for *** (OPENAI_ADMIN_KEY must hold an admin key; a key for calls may not read reports)`,
    ],
    [
      "too many",
      { status: 429, headers: { "retry-after": "17" }, body: { error: { message: "Slow down" } } },
      `${broken} answers 429: Slow down (try again in 17 s)`,
    ],
    ["a page of words", { body: "<html>down</html>" }, `${broken}: that is no JSON: <html>down</html>`],
    [
      "another form",
      { body: { data: [{ start_time: "today" }], has_more: false } },
      `${broken}: data[0].end_time is required`,
    ],
    [
      "a local day",
      { body: page([{ ...bucket("2026-11-20", []), start_time: day("2026-11-20") - 3_600 }]) },
      `${broken}: data[0]: from ${day("2026-11-20") - 3_600} to ${day("2026-11-21")} is no day in UTC`,
    ],
    [
      "no amount",
      { body: page([bucket("2026-11-20", costs(["gpt-6.2, input", "a lot"]))]) },
      `${broken}: data[0]: 'a lot' is no amount`,
    ],
    ["pages without end", { body: page([], "again") }, `${broken} says that there is more, and comes to no end`],
    [
      "a next page nowhere",
      { body: { data: [], has_more: true, next_page: null } },
      `${broken} says that there is more, and not where`,
    ],
  ])("%s: an error that says what and where", async (_, given, message) => {
    answer = () => given;
    const { out, err, code } = await shell(openai).run(`reconcile ${span} --provider openai`);
    expect({ out, err, code }).toEqual({
      out: "",
      err: `error: ${message.replace("PORT", String(server.port))}\n`,
      code: 1,
    });
  });

  test.each([
    [
      "reconcile",
      2,
      "error: No provider is OpenAI or Anthropic at its own address; --provider names one at another.\n",
    ],
    [
      "reconcile --provider openai",
      2,
      "error: Set OPENAI_ADMIN_KEY or ANTHROPIC_ADMIN_KEY to an admin key of the account, or give its exported files by --report.\n",
    ],
    [
      "reconcile --provider groq",
      2,
      "error: --provider groq is no configured provider of the kind openai or anthropic.\n",
    ],
    [
      "reconcile --since 2026-11-20T10:00:00Z",
      2,
      "error: --since must be a whole day in UTC, as reports have no others: 2026-11-22, 7d, 2w.\n",
    ],
    [
      "reconcile --since 2026-11-22 --until 2026-11-20",
      2,
      "error: --since must lie before --until, which is the beginning of today by default.\n",
    ],
    [
      "reconcile --since 2024-11-22 --until 2026-11-20",
      2,
      "error: --since and --until lie more than 366 days apart.\n",
    ],
    [
      "reconcile --tolerance 7",
      2,
      "error: option '--tolerance <share>' argument '7' is invalid. It must be a share such as 0.5% or 0.005, at most 100%.\n",
    ],
    ["reconcile --provider openai --report nowhere.csv", 1, "error: There is no file nowhere.csv.\n"],
    [
      "reconcile --provider openai --report words.txt",
      1,
      "error: words.txt is no report that is known: it has no column amount_value (openai), num_model_requests (openai), cost_usd (anthropic), usage_input_tokens_no_cache (anthropic), but one, two\n",
    ],
  ])("%s: exit code %d, and why", async (line, code, message) => {
    writeFileSync(folder.file("words.txt"), "one,two\n1,2\n");
    const ran = await shell().run(line);
    expect({ code: ran.code, out: ran.out }).toEqual({ code, out: "" });
    expect(ran.err).toStartWith(message);
  });

  test("a file's fault is named by its line", async () => {
    writeFileSync(
      folder.file("bad.csv"),
      "start_time,start_time_iso,amount_value,line_item\n1,2026-11-20T00:00:00Z,0.1,\n1,2026-11-20T00:00:00Z,much,\n",
    );
    const bad = await shell().run(`reconcile ${span} --provider openai --report bad.csv`);
    expect([bad.code, bad.err]).toEqual([1, "error: bad.csv:3: 'much' is no amount\n"]);
    writeFileSync(
      folder.file("torn.csv"),
      'start_time,start_time_iso,amount_value,line_item\n1,2026-11-20T00:00:00Z,"0.1,\n',
    );
    const torn = await shell().run(`reconcile ${span} --provider openai --report torn.csv`);
    expect(torn.code).toBe(1);
    expect(torn.err).toStartWith("error: torn.csv: Quote Not Closed");
  });

  test("doctor says it in a line for the last seven days, and what keeps it from saying it", async () => {
    const today = Math.floor(Date.now() / 86_400_000) * 86_400;
    const days = Array.from({ length: 7 }, (_, at) =>
      new Date((today - (7 - at) * 86_400) * 1000).toJSON().slice(0, 10),
    );
    answer = ({ pathname }) => ({
      body: page(days.map((date) => bucket(date, pathname.endsWith("/costs") ? costs(["gpt-9, input", 0.5]) : []))),
    });
    expect((await shell(openai).run("reconcile --provider openai")).code).toBe(0);
    const context = { io: shell(openai).io(), flags: {} };
    const loaded = loadFrom(context);
    if ("errors" in loaded) throw new Error("the configuration is right");
    const [found, ...more] = await examineBills(context, loaded.config, ["openai"]);
    expect(more).toEqual([]);
    expect(found).toMatchObject({ what: "bills", state: "warning" });
    expect(found!.found).toStartWith("openai reports $3.500000, the ledger has $");
    expect(found!.found).toEndWith(`, ${days[0]} to ${days[6]}`);
    answer = () => ({ status: 401, body: { error: { message: "Incorrect API key" } } });
    const [refused] = await examineBills(context, loaded.config, ["openai"]);
    expect(refused).toMatchObject({ state: "warning", advice: "See docs/costs.md, under reconciliation." });
    asked.splice(0);
    // An admin key goes to no other address than the vendor's by itself: what was compared last is said then.
    const kept = await examineBills(context, loaded.config);
    expect(kept.filter(({ found }) => found.startsWith("openai"))).toEqual([
      {
        ...{ what: "bills", state: "warning" },
        found: expect.stringMatching(
          new RegExp(`^openai reported \\$3\\.500000, the ledger had \\$.*, from ${days[0]} until .*; compared 20`),
        ) as never,
        advice: "'troupe reconcile' says by day and model what differs, and why.",
      },
    ]);
    expect(asked).toEqual([]);
  });
});
