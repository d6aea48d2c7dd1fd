/** The admin API's doctor and list of nodes: the command's findings, from a server that runs. */
import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Config } from "../../src/config/config.ts";
import { Console } from "../cli/console.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Troupe } from "../helpers/troupe.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];

type Finding = { level: "error" | "warning" | "ok"; place: string; message: string; advice: string | null };
type Report = { at: string; ok: boolean; counts: Record<Finding["level"], number>; findings: Finding[] };
type Server = { readonly url: string; readonly key: string };

async function asked<T>({ url, key }: Server, path: string, method = "GET"): Promise<T> {
  const answer = await fetch(`${url}/admin/v1/${path}`, { method, headers: { authorization: `Bearer ${key}` } });
  expect(answer.status).toBe(200);
  return (await answer.json()) as T;
}

const ofPlace = ({ findings }: Report, place: string) => findings.filter((one) => one.place === place);

test("a server finds what the command finds, worst first, each fault with what to do, and calls nobody unasked", async () => {
  using folder = new TempFolder();
  using upstream = new UpstreamServer(() => Response.json({ error: { message: "no such key" } }, { status: 401 }));
  const data = folder.file("data");
  const personas = folder.file("personas");
  mkdirSync(data);
  mkdirSync(join(personas, "acme"), { recursive: true });
  const persona = (name: string, text: string) => writeFileSync(join(personas, "acme", `${name}.yaml`), text);
  persona("good", "model: openai/x\ndescription: Good.\nsystem: Hi.\n");
  persona("lost", "model: opennai/x\ndescription: Lost.\nsystem: Hi.\n");
  persona("broken", "model: [\n");
  const file = folder.file("troupe.yaml");
  writeFileSync(file, `personas: ${personas}\nproviders: { anthropic: { enabled: false } }\n`);
  const env = {
    OPENAI_API_KEY: "sk-a-secret",
    OPENAI_BASE_URL: upstream.url,
    TROUPE_CONFIG: file,
    ANTHROPIC_API_KEY: "sk-a-secret",
  };
  await using troupe = await TroupeProcess.start(data, upstream.url, { env });
  const report = await asked<Report>(troupe, "doctor");

  const command = new Console(folder.path, { ...env, PATH: process.env["PATH"] ?? "" });
  const { out } = await command.run(["--data", data, "--port", "0", "doctor", "--json"]);
  const { checks } = JSON.parse(out) as { checks: { what: string; state: string; found: string; advice?: string }[] };
  // Where the server listens, what is free at a moment, and what only the command asks differ.
  const differs = /^(executable|address|credentials|memory|clock|data folder|open files)/;
  expect(report.findings.filter(({ place }) => !differs.test(place)).toSorted(byText)).toEqual(
    checks
      .map(
        ({ what, state, found, advice = null }) => ({ level: state, place: what, message: found, advice }) as Finding,
      )
      .filter(({ place }) => !differs.test(place))
      .toSorted(byText),
  );

  expect(report).toMatchObject({ object: "doctor.report", at: expect.stringMatching(/Z$/), ok: false });
  const levels = report.findings.map(({ level }) => level);
  expect(levels).toEqual([...levels].sort((a, b) => worst.indexOf(a) - worst.indexOf(b)));
  for (const level of worst) expect(report.counts[level]).toBe(levels.filter((one) => one === level).length);
  for (const { level, advice } of report.findings) expect(advice === null).toBe(level === "ok");
  expect(report.counts.error).toBe(2);
  expect(ofPlace(report, "personas").map(({ level, message }) => [level, message.replace(/:\d+:\d+: .*/, "")])).toEqual(
    [
      ["error", join(personas, "acme/broken.yaml")],
      ["error", join(personas, "acme/lost.yaml")],
      ["ok", `2 in ${personas}`],
    ],
  );
  expect(ofPlace(report, "configuration")).toContainEqual({
    level: "warning",
    place: "configuration",
    message: expect.stringContaining("anthropic"),
    advice: "Remove that line, unless it is meant so.",
  } as never);
  expect(upstream.requests).toHaveLength(0);
  await asked<Report>(troupe, "doctor?network=true");
  expect(upstream.requests).toHaveLength(0);

  // The server goes on with what it read before a file was broken.
  writeFileSync(file, "listen: [\n");
  await Bun.sleep(3_100);
  expect(ofPlace(await asked<Report>(troupe, "doctor"), "configuration")).toEqual([
    {
      level: "error",
      place: "configuration",
      message: expect.stringContaining("troupe.yaml:"),
      advice: expect.stringContaining("would not start anew"),
    },
  ] as never);

  const called = await asked<Report>(troupe, "doctor", "POST");
  expect(ofPlace(called, "provider openai")).toEqual([
    {
      level: "error",
      place: "provider openai",
      message: `${upstream.url}/v1 answered 401: {"error":{"message":"no such key"}}`,
      advice: "Its key is refused: see where 'troupe config print' says it comes from.",
    },
  ]);
  expect(upstream.requests).toHaveLength(1);
  const { data: acts } = await asked<{ data: unknown[] }>(troupe, "audit?act=doctor.call");
  expect(acts).toMatchObject([{ act: "doctor.call", subject: "server", after: called.counts }]);
  for (const one of [report, called]) expect(JSON.stringify(one)).not.toContain("sk-a-secret");

  const node = await asked<{ data: { configuration: string }[] }>(troupe, "nodes");
  expect(node).toMatchObject({
    object: "list",
    store: "sqlite",
    data: [{ object: "node", id: "this", is_this: true, personas: expect.stringMatching(/^[0-9a-f]+$/), differs: [] }],
  });
  const anonymous = await fetch(`${troupe.url}/admin/v1/doctor`, { method: "POST" });
  expect(anonymous.status).toBe(401);
});

test("of many findings of one kind the first are listed, and how many more there are", async () => {
  using folder = new TempFolder();
  mkdirSync(folder.file("acme"));
  for (let at = 0; at < 60; at += 1)
    writeFileSync(folder.file(`acme/p${at}.yaml`), "model: openai/x\ndescription: One of many.\nsystem: Hi.\n");
  await using troupe = await Troupe.start({ personas: folder.path, config: { listen } });
  const key = await troupe.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
  const report = await asked<Report>({ url: troupe.url, key }, "doctor");
  const unreachable = report.findings.filter(({ place }) => place.startsWith("persona acme/"));
  expect([unreachable.length, report.counts.warning >= 60]).toEqual([50, true]);
  expect(report.findings).toContainEqual({
    level: "warning",
    place: "personas",
    message: "10 more like the 50 that are listed",
    advice: "'troupe doctor' lists all.",
  });
  expect(ofPlace(report, "personas")).toContainEqual({
    level: "ok",
    place: "personas",
    message: `60 in ${folder.path}`,
    advice: null,
  });
});

const worst = ["error", "warning", "ok"] as const;
const byText = (a: Finding, b: Finding) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1);

describe.skipIf(!hasPostgres)("with a database of several nodes", () => {
  test("nodes with other files are named with what differs, and are a finding", async () => {
    await using server = await PostgresServer.start();
    const limits = { pool: 2, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
    const config: Partial<Config> = {
      store: { url: await server.createDatabase(), ...limits },
      listen,
    };
    await using one = await Troupe.start({ config });
    await one.server.services.loading;
    const key = await one.createKey({ name: "ops", tier: "pro", surfaces: ["admin"] });
    await using other = await Troupe.start({ config: { ...config, tiers: { free: 1, pro: 1_000 } } });
    type Node = { id: string; is_this: boolean; configuration: string; differs: string[] };
    const nodesOf = (url: string) => asked<{ store: string; data: Node[] }>({ url, key }, "nodes");
    let found = await nodesOf(other.url);
    while (found.data.length < 2) {
      await Bun.sleep(20);
      found = await nodesOf(other.url);
    }
    expect(found.store).toBe("postgres");
    expect(found.data.map(({ is_this, differs }) => [is_this, differs])).toEqual([
      [true, []],
      [false, ["configuration"]],
    ]);
    expect(new Set(found.data.flatMap(({ id, configuration }) => [id, configuration])).size).toBe(4);
    const report = await asked<Report>({ url: other.url, key }, "doctor?network=true");
    expect(ofPlace(report, "nodes")).toMatchObject([
      { level: "warning", message: "1 of 2 serve with other configuration than this one" },
    ]);
    expect(
      ofPlace(report, "database")
        .map(({ message }) => message)
        .join(),
    ).toMatch(/PostgreSQL \d+/);
  });
});
