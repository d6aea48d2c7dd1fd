/** Facts that nobody has heard of, taken while three processes serve: on one data folder, and as nodes of one database. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import type { JsonObject } from "../../src/lib/json/json.ts";
import { testExecutable } from "../helpers/executable.ts";
import { dayOf, executableKeys, factsText, published, sha256 } from "../helpers/facts-files.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

let server: PostgresServer | undefined;
beforeAll(async () => {
  if (hasPostgres) server = await PostgresServer.start();
});
afterAll(() => server?.[Symbol.asyncDispose]());

const usage = { prompt_tokens: 1_000_000, completion_tokens: 10, total_tokens: 1_000_010 };
const completion = {
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage,
};

async function takenOn(env: Readonly<Record<string, string>>, isShared: boolean): Promise<void> {
  using folder = new TempFolder();
  const keys = executableKeys;
  const sent: JsonObject[] = [];
  using upstream = new UpstreamServer(({ json }) => {
    // Lists of models are asked for too, whenever a node wants to.
    if (json !== undefined) sent.push(json as JsonObject);
    return jsonResponse(completion);
  });
  const today = dayOf(Date.now());
  let files: Readonly<Record<string, string>> = published(factsText(today), keys, today, Date.now());
  const asked: string[] = [];
  using place = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const name = new URL(request.url).pathname.slice(1);
      asked.push(name);
      return new Response(files[name] ?? "not here", { status: name in files ? 200 : 404 });
    },
  });
  const from = `http://127.0.0.1:${place.port}/facts.json`;
  const all = { ...env, TROUPE_FACTS_UPDATE: "daily", TROUPE_FACTS_FROM: from };
  await using processes = new AsyncDisposableStack();
  const dataOf = (node: number) => folder.file(isShared ? "data" : `data-${node}`);
  const start = async (node: number, key?: string) => {
    mkdirSync(dataOf(node), { recursive: true });
    const options = { env: all, ...(key !== undefined && { key }) };
    return processes.use(await TroupeProcess.start(dataOf(node), upstream.url, options));
  };
  const troupe = async (words: string) => {
    const child = Bun.spawn([await testExecutable(), ...words.split(" "), "--data", dataOf(0)], {
      cwd: dataOf(0),
      env: { PATH: process.env["PATH"] ?? "", OPENAI_API_KEY: "key", OPENAI_BASE_URL: upstream.url, ...all },
      stdin: "ignore",
      stdout: "pipe",
      stderr: "pipe",
    });
    const [out, err] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
    return { code: await child.exited, out, err };
  };
  const call = async ({ url, key }: TroupeProcess) => {
    const response = await fetch(`${url}/gateway/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({
        ...{ model: "openai/zeta-1", max_tokens: 5, messages: [{ role: "user", content: "hi" }] },
        usage: { include: true },
      }),
    });
    const answer = (await response.json()) as { readonly usage: { readonly cost: number | null } };
    return {
      status: response.status,
      cost: answer.usage.cost,
      field: Object.keys(sent.at(-1)!).includes("max_tokens"),
    };
  };
  /** Calls until the node does what the facts say. */
  const until = async (node: TroupeProcess, cost: number | null, field: boolean) => {
    for (;;) {
      const found = await call(node);
      expect(found.status).toBe(200);
      if (found.cost === cost && found.field === field) return;
      await Bun.sleep(20);
    }
  };

  const first = await start(0);
  const nodes = [first, await start(1, first.key), await start(2, first.key)];
  const before = await call(first);
  expect(before).toEqual({ status: 200, cost: null, field: before.field });
  expect(asked).toEqual([]);

  const update = await troupe("facts update");
  expect({ code: update.code, err: update.err }).toEqual({ code: 0, err: expect.stringContaining("Taken: ") });
  expect(update.out).toContain("+ openai/zeta-1: ");
  // By the ledger's line, 1,000,000 × 7 and 10 × 70 micro-dollars.
  for (const node of nodes) await until(node, 7.0007, false);
  const metrics = await Promise.all(nodes.map(async ({ url }) => (await fetch(`${url}/metrics`)).text()));
  for (const text of metrics) expect(text).toMatch(/^troupe_facts_renewed(\{.*\})? 1$/m);

  // What was billed before stays as it was; what came after says by which facts.
  const hash = sha256(Object.values(files).find((text) => text.includes("zeta-1"))!).slice(0, 12);
  let lines: JsonObject[] = [];
  // Lines are written some moments after their calls.
  while (!lines.some((line) => line["cost_micro_dollars"] !== null)) {
    const { out } = await troupe("usage --lines --json --since 1h");
    lines = out.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line) as JsonObject]));
  }
  expect(lines.at(-1)).toMatchObject({ cost_micro_dollars: null, price_source: "unknown" });
  expect(lines.find((line) => line["cost_micro_dollars"] !== null)).toMatchObject({
    ...{ cost_micro_dollars: 7_000_700, price_source: "list", price_date: today, price_note: `facts ${hash}` },
  });

  // Without the place where they were published, a restart has them.
  files = {};
  await nodes[2]!.kill();
  const again = await start(2, first.key);
  expect(await call(again)).toMatchObject({ cost: 7.0007 });

  const back = await troupe("facts rollback");
  expect([back.code, back.out]).toEqual([0, expect.stringContaining("Back to the facts of the executable")]);
  for (const node of [nodes[0]!, nodes[1]!, again]) await until(node, null, before.field);

  // Carried by hand: by its hash, where nothing signs it.
  const text = factsText(today, (file) => {
    file.prices.providers
      .find(({ id }: { id: string }) => id === "openai")
      .models.unshift({ id: "zeta-1", match: { equals: "zeta-1" }, prices: { input_mtok: 1, output_mtok: 0 } });
  });
  writeFileSync(folder.file("carried.json"), text);
  const shown = await troupe(`facts update --from ${folder.file("carried.json")}`);
  expect([shown.code, shown.err]).toEqual([0, expect.stringContaining(`--sha256 ${sha256(text)}`)]);
  expect((await troupe(`facts update --from ${folder.file("carried.json")} --sha256 ${sha256(text)}`)).code).toBe(0);
  for (const node of [nodes[0]!, nodes[1]!, again]) await until(node, 1, before.field);
}

test("by three processes on one data folder", () => takenOn({}, true));

test.skipIf(!hasPostgres)("by three nodes on one PostgreSQL database", async () =>
  takenOn({ TROUPE_STORE: await server!.createDatabase() }, false),
);
