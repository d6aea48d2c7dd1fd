/** A variant that stops itself while three processes serve: on one data folder, and as nodes of one database. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

const file = `description: Helps.
model: openai/plain
system: Plain.
variants:
  - name: now
    weight: 80
  - name: next
    weight: 20
    model: openai/new
    until: { calls: 100, error_rate: 0.05 }
`;

const completion = {
  choices: [{ index: 0, message: { role: "assistant", content: "hello" }, finish_reason: "stop" }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
};

let server: PostgresServer | undefined;
beforeAll(async () => {
  if (hasPostgres) server = await PostgresServer.start();
});
afterAll(() => server?.[Symbol.asyncDispose]());

const counts = /^troupe_variants_stopped\{persona="acme\/helper",.*variant="next"\} 1$/m;

async function stopsOn(env: Readonly<Record<string, string>>, isShared: boolean): Promise<void> {
  using folder = new TempFolder();
  mkdirSync(folder.file("personas/acme"), { recursive: true });
  writeFileSync(folder.file("personas/acme/helper.yaml"), file);
  let news = 0;
  using upstream = new UpstreamServer(({ method, json }) => {
    // Nodes that run for long ask for the list of models, too.
    if (method === "GET") return jsonResponse({ object: "list", data: [] });
    const isNew = (json as { model: string }).model === "new";
    if (isNew) news += 1;
    return isNew ? jsonResponse({ error: { message: "broken" } }, 500) : jsonResponse(completion);
  });
  await using processes = new AsyncDisposableStack();
  const start = async (node: number, key?: string) => {
    const data = folder.file(isShared ? "data" : `data-${node}`);
    mkdirSync(data, { recursive: true });
    const all = { TROUPE_PERSONAS: folder.file("personas"), TROUPE_TIERS_PRO: "1000000", ...env };
    return processes.use(await TroupeProcess.start(data, upstream.url, { env: all, ...(key && { key }) }));
  };
  const first = await start(0);
  const nodes = [first, await start(1, first.key), await start(2, first.key)];
  let users = 0;
  const call = async ({ url, key }: TroupeProcess) => {
    users += 1;
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "acme/helper", messages: [{ role: "user", content: "hi" }], user: `u${users}` }),
    });
    await response.text();
    return { status: response.status, variant: response.headers.get("x-troupe-persona-variant") };
  };
  /** Calls until this node knows of the stop. */
  const untilStopped = async (node: TroupeProcess) => {
    for (;;) {
      const { status, variant } = await call(node);
      expect([status, variant]).toEqual(variant === "next" ? [503, "next"] : [200, "now"]);
      if (counts.test(await (await fetch(`${node.url}/metrics`)).text())) return;
    }
  };
  await Promise.all(nodes.map(untilStopped));
  const before = news;
  expect(before).toBeGreaterThanOrEqual(14);
  const went = await Promise.all(nodes.flatMap((node) => Array.from({ length: 60 }, () => call(node))));
  expect(new Set(went.map(({ variant }) => variant))).toEqual(new Set(["now"]));
  expect(news).toBe(before);
  // What stopped it was counted to the call, whoever made it.
  await nodes[2]!.kill();
  const again = await start(2, first.key);
  for (let at = 0; at < 30; at += 1) expect(await call(again)).toEqual({ status: 200, variant: "now" });
  expect(news).toBe(before);
}

test("of three processes on one data folder", () => stopsOn({}, true));

test.skipIf(!hasPostgres)("of three nodes on one PostgreSQL database", async () => {
  const url = await server!.createDatabase();
  await stopsOn({ TROUPE_STORE: url }, false);
  const rows = await server!.ask(
    url,
    "select errors::int as errors, reason, stopped_at is not null as stopped from troupe.variants",
  );
  expect(rows).toEqual([{ errors: 14, reason: "error_rate", stopped: true }]);
});
