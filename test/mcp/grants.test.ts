import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { findTools } from "../../src/mcp/find-tools.ts";
import { GrantedTool, isGranted, mayUseServer, ToolNames } from "../../src/mcp/grants.ts";
import { McpServer } from "../../src/mcp/server.ts";
import { usableTools } from "../../src/mcp/tool.ts";
import { runs } from "../helpers/long-form.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { mcpServer } from "../helpers/mcp.ts";
import { silentLogger } from "../helpers/silent-logger.ts";

describe("names of tools", () => {
  test("stay where they can", () => {
    const names = new ToolNames(["desk__taken"]);
    expect(names.of("desk", "add")).toBe("desk__add");
    expect(names.of("desk", "taken")).toMatch(/^desk__taken_[0-9a-f]{8}$/);
    expect(names.of("desk", "a.b")).toMatch(/^desk__a_b_[0-9a-f]{8}$/);
    expect(names.of("desk", "a b")).toMatch(/^desk__a_b_[0-9a-f]{8}$/);
    expect(names.plain("ask_house_a.b")).toBe("ask_house_a_b");
  });

  test("are legal and different, whatever servers call theirs, and the same each time", () => {
    const tools = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 200, unit: "binary" }), { maxLength: 30 });
    fc.assert(
      fc.property(tools, (given) => {
        const named = () => {
          const names = new ToolNames();
          return given.map((tool) => names.of("desk", tool));
        };
        const made = named();
        expect(new Set(made).size).toBe(given.length);
        for (const name of made) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
        expect(named()).toEqual(made);
      }),
      { numRuns: runs(100) },
    );
  });
});

const schema = { type: "object", properties: { repo: {}, q: {} }, required: ["repo", "q"] };
const tool = { name: "search_issues", description: "Searches issues", inputSchema: schema };

test("a grant allows by name, and only tools that take every fixed argument", () => {
  expect(isGranted({ server: "s" }, tool)).toBe(true);
  expect(isGranted({ server: "s", allow: ["search_*"] }, tool)).toBe(true);
  expect(isGranted({ server: "s", allow: ["search"] }, tool)).toBe(false);
  expect(isGranted({ server: "s", exactly: ["search_*"] }, tool)).toBe(false);
  expect(isGranted({ server: "s", arguments: { repo: "a" } }, tool)).toBe(true);
  expect(isGranted({ server: "s", arguments: { repo: "a", branch: "b" } }, tool)).toBe(false);
  expect(isGranted({ server: "s", arguments: { constructor: "a" } }, tool)).toBe(false);
});

const serverOf = () =>
  new McpServer("s", mcpServer({ command: "x" }), {
    clock: new ManualClock(),
    log: silentLogger,
    version: "0",
    open: () => Promise.reject(new Error("never")),
  });

test("fixed arguments are not in the schema; a tool that has gone is refused when it is called", async () => {
  const granted = new GrantedTool("s__search", serverOf(), { server: "s", arguments: { repo: "a" } }, tool);
  expect(granted.definition.function.parameters).toEqual({ type: "object", properties: { q: {} }, required: ["q"] });
  await expect(granted.call({}, new AbortController().signal)).rejects.toMatchObject({ kind: "refused" });
});

test("arguments have names that every provider takes, and their own when the server is called", async () => {
  const odd = { type: "object", properties: { $filter: {}, "a b": {}, a_b: {}, ok: {} }, required: ["$filter", "ok"] };
  const called: unknown[] = [];
  const session = {
    revision: "2025-11-25",
    isOld: true,
    tools: async () => [{ name: "search", inputSchema: odd }],
    call: async (_: string, args: object) => {
      called.push(args);
      return { content: [] };
    },
    close: async () => {},
  };
  const options = { clock: new ManualClock(), log: silentLogger, version: "0", open: async () => session };
  const server = new McpServer("s", mcpServer({ command: "x" }), options);
  server.start();
  const [listed] = (await server.tools())!;
  const granted = new GrantedTool("s__search", server, { server: "s", arguments: { ok: 1 } }, listed!);
  const { properties, required } = granted.definition.function.parameters as { properties: object; required: string[] };
  const [filter, spaced] = Object.keys(properties);
  expect([filter, required]).toEqual(["_filter", ["_filter"]]);
  expect(spaced).toMatch(/^a_b_[0-9a-f]{8}$/);
  await granted.call({ _filter: "x", [spaced!]: 2, a_b: 3 }, new AbortController().signal);
  expect(called).toEqual([{ $filter: "x", "a b": 2, a_b: 3, ok: 1 }]);
  await server.close();
});

test("keys may use a server by their plan and by one of its tags", () => {
  const pro = mcpServer({ tier: "pro" });
  const tagged = mcpServer({ tags: ["a", "b"] });
  expect(["free", "pro", "enterprise"].map((tier) => mayUseServer(pro, { tier, tags: [] }))).toEqual([
    false,
    true,
    true,
  ]);
  expect([[], ["b"], ["c"]].map((tags) => mayUseServer(tagged, { tier: "free", tags }))).toEqual([false, true, false]);
});

test("find_tools finds by names before descriptions, and by words of names", () => {
  const of = (name: string, description = "") =>
    new GrantedTool(`s__${name}`, serverOf(), { server: "s" }, { name, description, inputSchema: {} });
  const tools = [
    of("createIssue", "Opens one."),
    of("list_pulls", "Lists what an issue is closed by."),
    of("search", "Finds code."),
  ];
  const found = (query: string) => findTools(tools, query).map(({ tool: { name } }) => name);
  expect(found("issue")).toEqual(["createIssue", "list_pulls"]);
  expect(found("FIND code")[0]).toBe("search");
  expect(found("CODE")).toEqual(["search"]);
  expect(found("")).toEqual([]);
  expect(found("zzz")).toEqual([]);
});

test("lists of tools keep what can be given to a model", () => {
  const object = { type: "object" };
  const listed = [
    { name: "a", description: "x".repeat(20_000), inputSchema: object },
    { name: "a", inputSchema: object },
    { name: "b", inputSchema: [] },
    { name: "", inputSchema: object },
    ...Array.from({ length: 1200 }, (_, at) => ({ name: `t${at}`, inputSchema: object })),
  ];
  const { tools, leftOut } = usableTools(listed);
  expect(tools).toHaveLength(1000);
  expect(leftOut).toHaveLength(204);
  expect(new Set(leftOut.map(({ reason }) => reason)).size).toBe(4);
  expect(tools[0]!.description).toHaveLength(8192);
});
