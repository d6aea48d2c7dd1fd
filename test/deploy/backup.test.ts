/** The nightly dump of deploy/kubernetes/cronjob-backup.yaml by its own script, brought back by the runbook's own commands, and served. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { parse } from "yaml";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { pageBlock } from "../helpers/page-blocks.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";

type Job = { command: string[]; args: string[] };
const cronJob = parse(readFileSync("deploy/kubernetes/cronjob-backup.yaml", "utf8")) as {
  spec: { jobTemplate: { spec: { template: { spec: { containers: Job[] } } } } };
};
const { command, args } = cronJob.spec.jobTemplate.spec.template.spec.containers[0]!;
const restore = pageBlock("docs/runbooks.md", "Restore a backup", "sh", "pg_restore")
  .split("\n")
  .filter((line) => /^(psql|pg_restore)\b/.test(line))
  .join("\n");

const hasTools = Bun.which("pg_dump") !== null && Bun.which("pg_restore") !== null;
const day = 86_400_000;

describe.skipIf(!hasPostgres || !hasTools)("the nightly backup", () => {
  let server: PostgresServer;
  let upstream: UpstreamServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
    upstream = new UpstreamServer(({ json }) => {
      const { messages } = json as { messages: { content: string }[] };
      const message = { role: "assistant", content: `to ${messages[0]!.content}` };
      const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 };
      return jsonResponse({ id: "up", choices: [{ index: 0, message, finish_reason: "stop" }], usage });
    });
  });
  afterAll(async () => {
    upstream[Symbol.dispose]();
    await server[Symbol.asyncDispose]();
  });

  async function run(line: readonly string[], url: string, folder: TempFolder) {
    const env = { PATH: process.env["PATH"] ?? "", DATABASE_URL: url, FOLDER: folder.path };
    const child = Bun.spawn([...line], { cwd: folder.path, env, stdout: "pipe", stderr: "pipe" });
    const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()]);
    return { code: await child.exited, out, err };
  }

  const node = (url: string) =>
    Troupe.start({
      providers: { openai: { baseUrl: upstream.url } },
      config: {
        store: { url, pool: 4, statementSeconds: 10, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 },
        prices: [{ match: "*/*", input: 1000, output: 1000 }],
      },
    });

  const ask = async (troupe: Troupe, key: string, id: string) => {
    const body = { model: "openai/x", messages: [{ role: "user", content: id }] };
    const answer = await troupe.post("/gateway/v1/chat/completions", body, {
      key,
      headers: { "service-request-id": id },
    });
    return { status: answer.status, isReplay: answer.headers.has("idempotent-replayed"), text: await answer.text() };
  };

  const spent = async (troupe: Troupe, key: string) => {
    const answer = await troupe.fetch("/gateway/v1/usage", { key });
    const { data } = (await answer.json()) as { data: { calls: number; cost_micro_dollars: number }[] };
    return data.map(({ calls, cost_micro_dollars }) => [calls, cost_micro_dollars]);
  };

  test("is brought back over what came after, and in an empty database, and serves", async () => {
    using folder = new TempFolder();
    const url = await server.createDatabase();
    let key: string;
    let later: string;
    let first: { text: string };
    {
      await using troupe = await node(url);
      key = await troupe.createKey({ name: "kept", tier: "pro" });
      first = await ask(troupe, key, "before");
      const { services } = troupe.server;
      while (services.running > 0) await new Promise((resolve) => setImmediate(resolve));
      await services.usage.close();
      await services.ledger.flush();
      const made = await run([...command, ...args], url, folder);
      expect({ code: made.code, err: made.err }).toEqual({ code: 0, err: "" });
      expect(made.out).toContain("troupe-");
      // Days of the ledger that the dump has not, and a key.
      later = await troupe.createKey({ name: "later", tier: "pro" });
      await ask(troupe, key, "after");
      await services.store.ledger.append(
        [1, 2, 30].map((days) => ledgerLine(`req_${days}`, { at: Date.now() + days * day })),
      );
    }
    const [file] = readdirSync(folder.path);
    expect(file).toMatch(/^troupe-\d{4}-\d\d-\d\dT\d{6}Z\.dump$/);
    for (const target of [url, await server.createDatabase()]) {
      const back = await run(["sh", "-euc", restore.replace("troupe.dump", file!)], target, folder);
      expect(back).toEqual({ code: 0, out: "", err: "" });
      await using troupe = await node(target);
      expect(await spent(troupe, key)).toEqual([[1, 4000]]);
      const asked = upstream.requests.length;
      expect(await ask(troupe, key, "before")).toMatchObject({ status: 200, isReplay: true, text: first.text });
      expect(upstream.requests.length).toBe(asked);
      expect((await ask(troupe, later, "of a lost key")).status).toBe(401);
      expect(await ask(troupe, key, "new")).toMatchObject({ status: 200, isReplay: false });
    }
  });

  test("keeps two weeks, and nothing of one that failed", async () => {
    using folder = new TempFolder();
    const url = await server.createDatabase();
    await (await node(url))[Symbol.asyncDispose]();
    writeFileSync(folder.file("troupe-2020-01-01T021700Z.dump"), "old");
    writeFileSync(folder.file("troupe-2020-01-15T021700Z.dump"), "of last week");
    writeFileSync(folder.file("troupe-2020-01-15T021700Z.dump.part"), "cut short");
    const now = Date.now() / 1000;
    utimesSync(folder.file("troupe-2020-01-01T021700Z.dump"), now, now - 15.5 * 86_400);
    utimesSync(folder.file("troupe-2020-01-15T021700Z.dump"), now, now - 7 * 86_400);
    const nowhere = await run([...command, ...args], server.url("none"), folder);
    expect(nowhere.code).not.toBe(0);
    expect(nowhere.err).toContain('database "none" does not exist');
    expect(
      readdirSync(folder.path)
        .filter((name) => name.endsWith(".dump"))
        .toSorted(),
    ).toEqual(["troupe-2020-01-01T021700Z.dump", "troupe-2020-01-15T021700Z.dump"]);
    expect((await run([...command, ...args], url, folder)).code).toBe(0);
    const kept = readdirSync(folder.path).toSorted();
    expect(kept).toHaveLength(2);
    expect(kept[0]).toBe("troupe-2020-01-15T021700Z.dump");
  });
});
