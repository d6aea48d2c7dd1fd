/** What `troupe check` and `troupe doctor` say of the server that counts rate limits for all nodes. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { RedisClient } from "bun";
import { readInfo } from "../../src/store/redis/inspect.ts";
import { hasRedis, RedisServer } from "../helpers/redis.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

type Check = { what: string; state: string; found: string; advice?: string };

/** No database is there, which says nothing of the coordination. */
const store = "postgres://troupe:db-secret@127.0.0.1:1/troupe";

/** Runs both commands. @returns what they say of the coordination */
async function look(coordination: string) {
  using folder = new TempFolder();
  const shell = new Console(folder.path, { TROUPE_STORE: store, TROUPE_COORDINATION: coordination });
  const checked = await shell.run("--port 0 check --json");
  const { warnings, summary } = JSON.parse(checked.out) as { warnings: string[]; summary: Record<string, string> };
  const doctored = await shell.run("--port 0 doctor --json");
  const { checks } = JSON.parse(doctored.out) as { checks: Check[] };
  for (const { out, err } of [checked, doctored]) expect(out + err).not.toContain("secret");
  return {
    warnings: warnings.filter((one) => one.startsWith("coordination")),
    summary: summary["coordination"],
    checks: checks.filter(({ what }) => what === "coordination"),
  };
}

describe.skipIf(!hasRedis)("a coordination that is there", () => {
  let server: RedisServer;
  let place: string;
  beforeAll(async () => {
    server = await RedisServer.start();
    place = `127.0.0.1:${server.port}/0`;
  });
  afterAll(() => server[Symbol.asyncDispose]());
  const tell = async (...command: string[]) => {
    const client = new RedisClient(server.url());
    await client.send(command[0]!, command.slice(1));
    client.close();
  };

  test("is told with its version", async () => {
    const { warnings, summary, checks } = await look(server.url());
    expect(warnings).toEqual([]);
    expect(summary).toMatch(new RegExp(`^${place} \\((Redis|Valkey) \\d+\\.\\d+\\.\\d+\\)$`));
    expect(checks).toEqual([{ what: "coordination", state: "ok", found: summary!.replace(/ \((.*)\)/, ", $1") }]);
  });

  test("is not fit where it evicts, or takes no writes", async () => {
    await tell("CONFIG", "SET", "maxmemory-policy", "allkeys-lru");
    await tell("REPLICAOF", "127.0.0.1", "1");
    const { warnings, checks } = await look(server.url());
    await tell("REPLICAOF", "NO", "ONE");
    await tell("CONFIG", "SET", "maxmemory-policy", "noeviction");
    expect(warnings).toEqual([
      `coordination: ${place}: It is a replica, which takes no writes.`,
      `coordination: ${place}: Its maxmemory-policy is allkeys-lru: a window that is evicted is forgotten.`,
    ]);
    expect(checks.map(({ state }) => state)).toEqual(["warning", "warning"]);
  });

  test("may keep its version from this user, and refuse what is no database of it", async () => {
    await tell("ACL", "SETUSER", "node", "on", ">secret", "~*", "+@all", "-info");
    const silent = await look(`redis://node:secret@${place}`);
    expect(silent.summary).toBe(`${place} (a server that does not tell its version)`);
    expect(silent.warnings).toEqual([expect.stringContaining("may not run INFO: an old copy")]);
    expect(silent.checks).toMatchObject([{ state: "warning" }]);
    const wrong = await look(`redis://node:secret-too@${place}`);
    expect(wrong.warnings).toEqual([expect.stringContaining("its user and password")]);
    expect(wrong.checks).toMatchObject([{ state: "error" }]);
    const none = await look(server.url(99));
    expect(none.warnings).toEqual([expect.stringMatching(/127\.0\.0\.1:\d+\/99 .*index is out of range/)]);
  });

  test("is given up in time when it says nothing", async () => {
    server.signal("SIGSTOP");
    const { warnings, summary, checks } = await look(server.url());
    server.signal("SIGCONT");
    expect(warnings).toEqual([expect.stringMatching(/can't be reached \(.*\): check the server/)]);
    expect(summary).toBe(place);
    expect(checks).toMatchObject([{ state: "error", advice: expect.stringContaining("shares") }]);
  });
});

test("a coordination that is not there is a warning of the check, as a start goes on without, and an error of the doctor", async () => {
  const { warnings, summary, checks } = await look("redis://:secret@127.0.0.1:1");
  expect(warnings).toEqual([
    expect.stringMatching(/^coordination: The coordination 127\.0\.0\.1:1 can't be reached \(.*\): /),
  ]);
  expect(summary).toBe("127.0.0.1:1");
  expect(checks).toMatchObject([{ state: "error" }]);
});

test("a coordination without PostgreSQL is an error of both, with its place", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), "coordination: redis://127.0.0.1:1\n");
  const shell = new Console(folder.path);
  const told = "troupe.yaml:1:15: coordination: needs 'store: postgres://…'";
  expect(await shell.run("check")).toMatchObject({ code: 1, err: expect.stringContaining(told) });
  expect(await shell.run("doctor")).toMatchObject({ code: 1, out: expect.stringContaining(told) });
});

describe("what a server tells of itself", () => {
  test.each([
    ["# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.3\r\n", "Valkey 8.1.3", []],
    ["redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\n", "Redis 7.0.15", []],
    ["redis_version:6.2.14\r\n", "Redis 6.2.14", ["It is older than version 7.0."]],
    ["", "Redis of unknown version", []],
  ])("%j", (info, server, concerns) => {
    expect(readInfo(info)).toEqual({ server, concerns });
  });
});
