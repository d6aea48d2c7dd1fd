import { describe, expect, test } from "bun:test";
import { compiledList } from "../../../src/facts/prices/list.ts";
import { openStore } from "../../../src/store/sqlite/store.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";
import { untilEnd } from "../../helpers/served.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";
import { Console } from "../console.ts";

const folder = untilEnd(new TempFolder());
const shell = new Console(folder.path);
await shell.run("keys create alice");
const { id } = JSON.parse((await shell.run("keys show alice --json")).out) as { id: string };
const store = openStore(folder.file("data"));
const at = Date.UTC(2026, 10, 21, 12);
const tokens = { ...ledgerLine("x").tokens, input: 1_000, cacheRead: 400, output: 200 };
const line = (requestId: string, changes: object) => ledgerLine(requestId, { at, keyId: id, tokens, ...changes });
await store.ledger.append([
  line("req_1", { cost: 3_000_000 }),
  line("req_2", { cost: 1_500_000, at: at + 86_400_000, tags: ["team-a"], provider: "second" }),
  line("req_3", { cost: null, costs: null, model: "=cmd|' /C calc'!A0", keyId: "key_gone", persona: "troupe/tutor" }),
  line("req_4", { cost: 250, model: 'a "quoted", one\u001b[31m', keyId: "key_gone" }),
]);
await store.close();

const all = "--since 2026-11-21 --until 2026-11-23";

describe("troupe usage", () => {
  test("shows each day and the sum of all, and how many calls it leaves out", async () => {
    expect(await shell.run(`usage ${all}`)).toEqual({
      code: 0,
      out: `DAY         CALLS  INPUT  CACHED  OUTPUT  COST       UNKNOWN
2026-11-21  3      3,000  1,200   600     $3.000250  1
2026-11-22  1      1,000  400     200     $1.500000  -
total       4      4,000  1,600   800     $4.500250  1
The cost leaves out 1 call whose price is not known.
`,
      err: "",
    });
  });

  test("draws bars for people, the longest for the costliest", async () => {
    const { out } = await new Console(folder.path, {}, true).run(`usage ${all} --by provider`);
    expect([...out.matchAll(/^(\S+) .*?(█*)$/gm)].map(([, name, bar]) => [name, bar!.length])).toEqual([
      ["PROVIDER", 0],
      ["openai", 20],
      ["second", 10],
      ["total", 0],
      ["The", 0],
    ]);
  });

  test("names keys as people do, and lets no model's name steer the terminal", async () => {
    const { out } = await shell.run(`usage ${all} --by key,model`);
    expect(out).toMatch(/^alice +openai\/gpt-4o +2 /m);
    expect(out).toMatch(/^key_gone +a "quoted", one␛\[31m +1 /m);
    expect(out).not.toContain("\u001b");
  });

  test.each([
    ["--key alice", 2],
    ["--tag team-a", 1],
    ["--model openai/gpt-4o", 2],
    ["--persona troupe/tutor", 1],
    ["--provider second", 1],
    ["--key alice --provider second", 1],
    ["--provider nobody", 0],
  ])("counts only what %s asks for", async (filter, calls) => {
    const { out, code } = await shell.run(`usage ${all} ${filter} --json`);
    expect(code).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ total: { calls } });
  });

  test("--csv is what spreadsheets read, and no formula", async () => {
    const { out } = await shell.run(`usage ${all} --by model --csv`);
    const [head, ...rows] = out.split("\r\n");
    expect(head).toBe(
      "model,calls,finished,broken,abandoned,interrupted,refused,replayed,joined,input_tokens,cache_read_tokens," +
        "cache_write_5m_tokens,cache_write_1h_tokens,output_tokens,reasoning_tokens,audio_input_tokens,audio_output_tokens," +
        "cost_dollars,unknown_cost_calls,estimated_calls",
    );
    expect(rows.toSorted()).toEqual(
      [
        "openai/gpt-4o,2,2,0,0,0,0,0,0,2000,800,10,6,400,14,4,2,4.500000,0,0",
        '"a ""quoted"", one\u001b[31m",1,1,0,0,0,0,0,0,1000,400,5,3,200,7,2,1,0.000250,0,0',
        `'=cmd|' /C calc'!A0,1,1,0,0,0,0,0,0,1000,400,5,3,200,7,2,1,0.000000,1,0`,
        "",
      ].toSorted(),
    );
  });

  test("--lines --csv has a column for each part of a line, its names once, and they stand where no line does", async () => {
    const { out } = await shell.run(`usage ${all} --lines --csv`);
    const [head, ...rows] = out.split("\r\n");
    const kinds = ["input", "cache_read", "cache_write", "output", "reasoning", "audio_input", "audio_output", "other"];
    expect(head!.split(",")).toEqual([
      ...["request_id", "attempt", "at", "key", "key_name", "tags"],
      ...["call_of", "status", "first_token_ms", "total_ms", "error_text"],
      ...["surface", "format", "model", "persona", "persona_version", "variant", "provider", "upstream_model"],
      ...["upstream_format", "upstream_key", "upstream_endpoint"],
      ...[
        "service_tier",
        "client",
        "user",
        "ended",
        "failure",
        "error_code",
        "counted",
        "price_source",
        "price_date",
        "price_note",
        "metadata",
      ],
      ...["input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens", "output_tokens"],
      ...["reasoning_tokens", "audio_input_tokens", "audio_output_tokens"],
      ...["cost_dollars", ...kinds.map((kind) => `${kind}_cost_dollars`)],
    ]);
    expect(rows).toHaveLength(5);
    const { out: json } = await shell.run(`usage ${all} --lines --json`);
    const line = JSON.parse(json.split("\n")[0]!);
    for (const name of head!.split(",").filter((column) => !/_(tokens|dollars)$/.test(column)))
      expect(line).toHaveProperty([name]);
    expect((await shell.run(`usage ${all} --provider nobody --lines --csv`)).out).toBe(`${head}\r\n`);
  });

  test("--lines are chosen by their own numbers too, and sums are not", async () => {
    const ids = async (filter: string) =>
      (await shell.run(`usage ${all} --lines --json ${filter}`)).out.match(/req_\d/g) ?? [];
    expect(await ids("--min-cost-micro-dollars 1500000")).toEqual(["req_2", "req_1"]);
    expect(await ids("--min-total-ms 345 --key alice --ended finished,broken")).toEqual(["req_2", "req_1"]);
    expect(await ids("--min-total-ms 346")).toEqual([]);
    expect(await ids("--status 404,2xx --min-attempt 1 --min-first-token-ms 12")).toHaveLength(4);
    for (const [flags, message] of [
      ["--status 200", "--status chooses among --lines."],
      ["--lines --json --status 99", "status must be a status from 100 to 599"],
      ["--lines --json --min-total-ms soon", "min_total_ms must be a whole number, 0 or more."],
      ["--ended well", "ended must be one of finished, broken, abandoned,"],
    ]) {
      const { code, err } = await shell.run(`usage ${all} ${flags}`);
      expect([code, err]).toEqual([2, expect.stringContaining(message!)]);
    }
  });

  test("metadata that no call has is refused, with the keys that calls have", async () => {
    const message = "No call has metadata.taem: usage.metadata in the configuration names";
    const line = `usage ${all} --by day,metadata.taem`;
    expect(await shell.run(line)).toMatchObject({ code: 2, out: "", err: expect.stringContaining(`${message} none.`) });
    const named = new Console(folder.path, { TROUPE_USAGE_METADATA: "team,project" });
    expect(await named.run(line)).toMatchObject({ code: 2, err: expect.stringContaining(`${message} project, team.`) });
    expect(await named.run(`usage ${all} --metadata taem=red`)).toMatchObject({ code: 2 });
    expect(await named.run(`usage ${all} --by metadata.team`)).toMatchObject({ code: 0 });
  });

  test("--json has the same numbers", async () => {
    const { total, data } = JSON.parse((await shell.run(`usage ${all} --by tag --json`)).out);
    expect(data.map(({ tag, calls }: { tag: string; calls: number }) => [tag, calls])).toEqual([
      ["", 3],
      ["team-a", 1],
    ]);
    expect(total).toMatchObject({ calls: 4 });
  });

  test("--first-token adds quantiles, in every form", async () => {
    // All took 12 ms, of which the ledger counts that they took 50 ms at most.
    const table = (await shell.run(`usage ${all} --first-token`)).out.split("\n").map((row) => row.split(/ {2,}/));
    expect(table[0]!.slice(-3)).toEqual(["P50", "P95", "P99"]);
    expect(table[3]!.slice(-3)).toEqual(["25 ms", "48 ms", "50 ms"]);
    const [head, first] = (await shell.run(`usage ${all} --first-token --csv`)).out.split("\r\n");
    expect(head).toEndWith(",first_token_calls,first_token_p50_ms,first_token_p95_ms,first_token_p99_ms");
    expect(first).toEndWith(",3,25,47,50");
    const { data, total } = JSON.parse((await shell.run(`usage ${all} --first-token --json`)).out);
    expect(total.first_token_ms).toEqual({ calls: 4, p50: 25, p95: 48, p99: 50 });
    expect(data[1].first_token_ms).toEqual({ calls: 1, p50: 25, p95: 48, p99: 50 });
  });

  test.each([
    ["usage --by nothing", "by must be 1 to 3 of month, day, hour, tag, key"],
    ["usage --since tomorrow", "since must be"],
    ["usage --since 2026-11-22 --until 2026-11-21", "since must lie before until."],
    ["usage --json --csv", "'--json' cannot be used with option '--csv'"],
  ])("troupe %s is a wrong use", async (line, message) => {
    expect(await shell.run(line)).toMatchObject({ code: 2, out: "", err: expect.stringContaining(message) });
  });

  test("a key that is not there is an error", async () => {
    expect(await shell.run("usage --key nobody")).toMatchObject({ code: 1, out: "" });
  });
});

describe("troupe prices show", () => {
  test("says what a model costs, and that the list says so, of when and whose", async () => {
    expect(await shell.run("prices show openai/gpt-4o")).toEqual({
      code: 0,
      out: `openai/gpt-4o: by the list in the executable (public lists, MIT), openai/gpt-4o of ${compiledList.asOf}

WHAT         PRICE
input        $2.5     per million tokens
cache_read   $1.25    per million tokens
output       $10      per million tokens
web_search   $0.01    each
file_search  $0.0025  each

SERVICE TIER BATCH  PRICE
input               $1.25    per million tokens
cache_read          $1.25    per million tokens
output              $5       per million tokens
web_search          $0.01    each
file_search         $0.0025  each

service tier flex: × 0.5

SERVICE TIER PRIORITY  PRICE
input                  $4.25    per million tokens
cache_read             $2.125   per million tokens
output                 $17      per million tokens
web_search             $0.01    each
file_search            $0.0025  each

SERVICE TIER FAST  PRICE
input              $4.25    per million tokens
cache_read         $2.125   per million tokens
output             $17      per million tokens
web_search         $0.01    each
file_search        $0.0025  each
`,
      err: "",
    });
  });

  test("shows tiers by the length of the input", async () => {
    const { out } = await shell.run("prices show google/gemini-2.5-pro");
    expect(out).toContain("ABOVE 200,000 INPUT TOKENS");
  });

  test("shows a row of the configuration before the list", async () => {
    using own = new TempFolder();
    const match = "openai/*";
    const prices = [{ match, input: 1, audio_minute: 0.006, image: 0.04, tools: { web_search: 0.02 } }];
    await Bun.write(own.file("troupe.yaml"), JSON.stringify({ prices }));
    const console = new Console(own.path);
    expect(
      (await console.run("prices show openai/gpt-4o")).out,
    ).toBe(`openai/gpt-4o: by the configuration's row openai/*

WHAT        PRICE
input       $1      per million tokens
image       $0.04   each
audio       $0.006  per minute
web_search  $0.02   each

service tier batch: × 0.5

service tier flex: × 0.5
`);
    expect(JSON.parse((await console.run("prices show openai/gpt-4o --json")).out)).toMatchObject({
      model: "openai/gpt-4o",
      source: "configuration",
      date: null,
      per_million_tokens: { input: 1 },
      per_audio_minute: 0.006,
    });
  });

  test("says what is free, what is not known, and what is no model", async () => {
    expect((await shell.run("prices show builtin/echo")).out).toContain("compiled in:");
    expect(await shell.run("prices show openai/never-heard-of")).toMatchObject({
      code: 1,
      err: expect.stringContaining("its calls cost 'unknown'"),
    });
    expect(await shell.run("prices show gpt-4o")).toMatchObject({
      code: 2,
      err: expect.stringContaining("<provider>"),
    });
  });
});
