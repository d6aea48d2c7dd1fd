import { afterEach, describe, expect, test } from "bun:test";
import type { McpServerConfig } from "../../src/config/mcp.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { McpServers } from "../../src/mcp/servers.ts";
import { resultText } from "../../src/mcp/tool.ts";
import { mcpServer, testServer } from "../helpers/mcp.ts";
import { oddTools } from "../helpers/mcp-server.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { WatchedLog } from "../helpers/watched-log.ts";

let servers: McpServers | undefined;
afterEach(async () => {
  await servers?.close();
  servers = undefined;
});

function start(configured: Record<string, McpServerConfig>) {
  const watched = new WatchedLog();
  servers = new McpServers({ clock: systemClock, log: watched.log, version: "0" });
  servers.configure(configured);
  servers.start();
  return { servers, lines: watched.lines, logged: watched.logged.bind(watched) };
}

const signal = new AbortController().signal;

describe("a server by stdio", () => {
  test("is started, listed and called, and gets no environment but its own", async () => {
    const { servers } = start({ it: testServer({ OWN: "yes" }) });
    const it = servers.find("it")!;
    const names = (await it.tools())!.map(({ name }) => name);
    expect(names).toContain("add");
    expect(it.state).toBe("ready");
    expect(it.revision).toBe("2025-11-25");
    expect(resultText(await it.call("add", { a: 2, b: 40 }, signal))).toBe("42");
    const environment = JSON.parse(resultText(await it.call("environment", {}, signal))) as Record<string, string>;
    expect(environment["OWN"]).toBe("yes");
    const inherited = Object.keys(environment).filter(
      (name) => !/^(HOME|LOGNAME|PATH|SHELL|TERM|USER|OWN|PWD|SHLVL|_)$/.test(name),
    );
    expect(inherited).toEqual([]);
  });

  test("that dies in a call is an error at once, and is started again", async () => {
    const { servers, lines, logged } = start({ it: testServer() });
    const it = servers.find("it")!;
    await it.tools();
    await expect(it.call("die", {}, signal)).rejects.toMatchObject({ name: "McpCallError" });
    expect(it.state).toBe("down");
    await expect(it.call("add", { a: 1, b: 1 }, signal)).rejects.toMatchObject({ kind: "down" });
    expect((await it.tools())!.length).toBeGreaterThan(5);
    await logged(({ message }) => message === "mcp server down");
    await logged(({ message }) => message === "mcp server ready", lines.length);
    expect(it.restarts).toBe(1);
    expect(resultText(await it.call("add", { a: 1, b: 1 }, signal))).toBe("2");
  });

  test.each([
    ["dies-at-start", /could not be started/],
    ["endless", /pages|pagination/i],
  ])("that is %s is down, with the reason in the log", async (mode, reason) => {
    const { servers, logged } = start({ it: testServer({ MODE: mode }) });
    const { fields } = await logged(({ message }) => message === "mcp server down");
    expect(String(fields["reason"])).toMatch(reason);
    expect(await servers.find("it")!.tools()).toBeUndefined();
  });

  test("that answers nothing is down, and says after how long and by which setting", async () => {
    const { servers, logged } = start({ it: mcpServer({ command: "sleep", args: ["60"], startSeconds: 0.2 }) });
    expect(await servers.find("it")!.tools()).toBeUndefined();
    const { fields } = await logged(({ message }) => message === "mcp server down");
    expect(fields["reason"]).toContain("could not be started: did not answer within 0.2 s (start_seconds)");
  });

  test("whose program there is not is down", async () => {
    const { servers, logged } = start({ it: mcpServer({ command: "/no/such/program" }) });
    expect(await servers.find("it")!.tools()).toBeUndefined();
    expect(String((await logged(({ message }) => message === "mcp server down")).fields["reason"])).toMatch(
      /ENOENT|no such/i,
    );
  });

  test("that hangs is given up after its time, and stays of use", async () => {
    const { servers } = start({ it: testServer({}, { callSeconds: 1.5 }) });
    const it = servers.find("it")!;
    await it.tools();
    await expect(it.call("hang", {}, signal)).rejects.toMatchObject({ kind: "timeout" });
    expect(resultText(await it.call("add", { a: 1, b: 2 }, signal))).toBe("3");
  });

  test("is told when a call is cancelled", async () => {
    const { servers } = start({ it: testServer() });
    const it = servers.find("it")!;
    await it.tools();
    const cancel = new AbortController();
    const calling = it.call("hang", {}, cancel.signal);
    cancel.abort();
    await expect(calling).rejects.toMatchObject({ kind: "cancelled" });
  });

  test("whose result is larger than a message may be loses its connection, and nothing else", async () => {
    const { servers, logged } = start({ it: testServer(), other: testServer() });
    const it = servers.find("it")!;
    await Promise.all(servers.list().map((one) => one.tools()));
    await expect(it.call("huge", { bytes: 40_000_000 }, signal)).rejects.toMatchObject({ name: "McpCallError" });
    await logged(({ message }) => message === "mcp server down");
    expect(resultText(await servers.find("other")!.call("add", { a: 1, b: 2 }, signal))).toBe("3");
  });

  test("whose tools change is listed anew, seldom, however often it says so", async () => {
    using folder = new TempFolder();
    const calls = folder.file("calls");
    const { servers, logged } = start({
      it: testServer({ MODE: "changes" }),
      storm: testServer({ MODE: "storm", CALLS: calls }),
    });
    const it = servers.find("it")!;
    await Promise.all(servers.list().map((one) => one.tools()));
    await it.call("add", { a: 1, b: 1 }, signal);
    await logged(({ message, fields }) => message === "mcp tools changed" && fields["server"] === "it");
    expect(it.listed!.map(({ name }) => name)).toEqual(["late"]);
    await logged(({ message, fields }) => message === "mcp tools changed" && fields["server"] === "storm");
    // Two thousand notifications came with each list.
    expect((await Bun.file(calls).text()).split("\n").length - 1).toBeLessThanOrEqual(4);
  });

  test("keeps tools that no model should be given to itself", async () => {
    const { servers, lines } = start({ it: testServer({ MODE: "bombs" }) });
    const names = (await servers.find("it")!.tools())!.map(({ name }) => name);
    expect(names).not.toContain("deep");
    expect(names).not.toContain("wide");
    expect(names.filter((name) => name === "add")).toHaveLength(1);
    expect(lines.some(({ fields }) => fields["dropped"] === 3)).toBe(true);
  });

  test("whose list has odd tools loses those that can't be called, by name, and no others", async () => {
    const { servers, logged, lines } = start({ it: testServer({ MODE: "odd" }) });
    const it = servers.find("it")!;
    const left = ["task", "text", undefined];
    expect((await it.tools())!.map(({ name }) => name)).toEqual(
      oddTools
        .flatMap((one) => (one === null ? [] : ((one as { name?: string }).name ?? [])))
        .filter((name) => !left.includes(name)),
    );
    expect(it.listed!.find(({ name }) => name === "array_without_items")!.inputSchema["properties"]).toEqual({
      a: { type: ["array", "null"], items: {} },
    });
    const { fields } = await logged(({ message }) => message.includes("left out"));
    expect(fields["tools"]).toBe(
      "task: it can only be called as a task; text: its inputSchema is not that of an object; one: it has no name; one: it is no object",
    );
    expect(resultText(await it.call("good", {}, signal))).toBe("well");
    expect(resultText(await it.call("no_schema", {}, signal))).toBe('{"a":1}');
    const before = lines.length;
    await it.call("die", {}, signal).catch(() => {});
    await logged(({ message }) => message === "mcp server ready", before);
    expect(lines.filter(({ message }) => message.includes("left out"))).toHaveLength(1);
  });

  test("has its stderr in the log, bounded in lines and in their length", async () => {
    const { servers, lines } = start({ it: testServer({ MODE: "noisy" }) });
    await servers.find("it")!.tools();
    await servers.find("it")!.call("slow", { ms: 200 }, signal);
    const written = lines.filter(({ message }) => message === "mcp stderr");
    expect(written.length).toBe(100);
    expect(Math.max(...written.map(({ fields }) => String(fields["line"]).length))).toBeLessThanOrEqual(500);
  });
});

test("a server that is starting is given up at once when all are closed", async () => {
  const { servers } = start({ it: testServer({ MODE: "silent" }) });
  const it = servers.find("it")!;
  const waiting = it.tools();
  await servers.close();
  expect(await waiting).toBeUndefined();
  expect(it.state).toBe("closed");
});

test("a reload keeps servers that stay the same, and ends the others", async () => {
  const { servers } = start({ same: testServer(), changed: testServer({ A: "1" }), gone: testServer() });
  const before = Object.fromEntries(servers.list().map((one) => [one.name, one]));
  await Promise.all(servers.list().map((one) => one.tools()));
  servers.configure({ same: testServer(), changed: testServer({ A: "2" }) });
  expect(servers.find("same")).toBe(before["same"]!);
  expect(servers.find("changed")).not.toBe(before["changed"]!);
  expect(before["gone"]!.state).toBe("closed");
  expect((await servers.find("changed")!.tools())!.length).toBeGreaterThan(5);
});
