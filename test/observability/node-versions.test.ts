/** Nodes that should serve the same, and say so where they don't. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { LogFields, Logger } from "../../src/lib/process/log.ts";
import { NodeComparison } from "../../src/observability/node-versions.ts";
import type { NodeRepository, NodeVersions } from "../../src/store/contract/store.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { hasPostgres, PostgresServer } from "../helpers/postgres.ts";
import { silentLogger } from "../helpers/silent-logger.ts";
import { Troupe } from "../helpers/troupe.ts";

const same = { node: "a", program: "1 a", configuration: "c", personas: "p" };

describe("a node among others", () => {
  test("warns once of a difference that stays, not of one that passes, and says when it is over", async () => {
    const said: [string, LogFields | undefined][] = [];
    const note = (words: string, fields?: LogFields) => void said.push([words, fields]);
    const log: Logger = { ...silentLogger, info: note, warn: note };
    const clock = new ManualClock();
    let aheadMs = 0;
    let others: (NodeVersions & { readonly node: string })[] | undefined = [];
    const nodes: NodeRepository = {
      report: async () => {
        if (others === undefined) throw new Error("away");
        return { others, now: clock.now() + aheadMs };
      },
      leave: async () => {},
    };
    const comparison = new NodeComparison({ nodes, clock, log, versions: () => same });
    await comparison.start();
    expect(comparison.difference).toEqual({ nodes: 1, program: 0, configuration: 0, personas: 0 });
    others = [same, { ...same, personas: "q" }];
    await clock.advanceSlowly(20_000);
    others = [same, same];
    await clock.advanceSlowly(10_000);
    expect(said).toEqual([]);
    others = [same, { ...same, personas: "q", configuration: "d" }];
    const found = { nodes: 3, program: 0, configuration: 1, personas: 1 };
    await clock.advanceSlowly(60_000);
    expect(comparison.difference).toEqual(found);
    expect(said).toEqual([["other nodes serve another program, configuration or personas than this one", found]]);
    others = undefined;
    await clock.advanceSlowly(10_000);
    expect(comparison.difference).toEqual(found);
    others = [same];
    await clock.advanceSlowly(10_000);
    expect(said[1]).toEqual([
      "all nodes serve the same again",
      { nodes: 2, program: 0, configuration: 0, personas: 0 },
    ]);
    said.length = 0;
    for (const ms of [1_900, -2_500, -2_600, 0]) {
      aheadMs = ms;
      await clock.advanceSlowly(10_000);
      expect(comparison.clockState?.aheadMs).toBe(ms);
    }
    expect(said).toEqual([
      ["this machine's clock is wrong, or the database's is", { database_ahead_seconds: -2.5 }],
      ["this machine's clock agrees with the database's again", { database_ahead_seconds: 0 }],
    ]);
    await comparison.close();
    await clock.advanceSlowly(60_000);
    expect(said).toHaveLength(2);
  });
});

describe.skipIf(!hasPostgres)("nodes of one database", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server[Symbol.asyncDispose]());

  test("/health and metrics count those with other files; where a node listens and its secrets are its own", async () => {
    const limits = { pool: 2, statementSeconds: 2, leaseSeconds: 15, keysWithoutDatabaseSeconds: 60 };
    const store = { url: await server.createDatabase(), ...limits };
    type Health = { status: string; checks: Record<string, { version?: string; nodes_differing?: number }> };
    const healthOf = async (troupe: Troupe) => (await (await troupe.fetch("/health")).json()) as Health;
    const upstream = (apiKey: string) => ({ up: { dialect: "openai", baseUrl: "http://127.0.0.1:1/v1", apiKey } });
    await using one = await Troupe.start({ config: { store }, providers: upstream("first-secret") });
    await using two = await Troupe.start({ config: { store }, providers: upstream("other-secret") });
    const settled = async (troupe: Troupe, configuration: number, personas: number) => {
      for (;;) {
        const { checks } = await healthOf(troupe);
        const found = [checks["configuration"]!.nodes_differing, checks["personas"]!.nodes_differing];
        if (Bun.deepEquals(found, [configuration, personas])) return checks;
        await Bun.sleep(20);
      }
    };
    const [first, second] = [await settled(one, 0, 0), await settled(two, 0, 0)];
    for (const part of ["configuration", "personas"]) {
      expect(first[part]!.version).toMatch(/^[0-9a-f]{12}$/);
      expect(second[part]!.version).toBe(first[part]!.version!);
    }
    await using other = await Troupe.start({ config: { store, tiers: { free: 1, pro: 2 } }, providers: upstream("x") });
    const { services } = other.server;
    const checks = await settled(other, 2, 0);
    expect(checks["configuration"]).toMatchObject({
      status: "ok",
      message: "Of 3 nodes 2 serve with another version: configuration is in files on each node.",
    });
    services.personas.replace(services.personas.list().slice(1));
    expect((await healthOf(other)).checks["personas"]!.version).not.toBe(first["personas"]!.version);
    expect((await healthOf(other)).status).toBe("ok");
    expect(await (await other.fetch("/metrics")).text()).toMatch(/^troupe_nodes_other_configuration 2$/m);
  });
});
