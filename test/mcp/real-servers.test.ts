/** MCP servers as their makers publish them, by stdio and by streamable HTTP, in the old revisions and the new one. */
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, writeFileSync } from "node:fs";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import type { McpServerConfig } from "../../src/config/mcp.ts";
import { systemClock } from "../../src/lib/time/clock.ts";
import { McpServers } from "../../src/mcp/servers.ts";
import { boundedText, resultText } from "../../src/mcp/tool.ts";
import { freePort } from "../helpers/free-port.ts";
import { mcpServer } from "../helpers/mcp.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { WatchedLog } from "../helpers/watched-log.ts";

const packages = `${import.meta.dir}/../../node_modules/@modelcontextprotocol`;
const everything = `${packages}/server-everything/dist/index.js`;
const filesystem = `${packages}/server-filesystem/dist/index.js`;
const signal = new AbortController().signal;

let servers: McpServers | undefined;
afterEach(async () => {
  await servers?.close();
  servers = undefined;
});

async function start(config: McpServerConfig) {
  const watched = new WatchedLog();
  servers = new McpServers({ clock: systemClock, log: watched.log, version: "0" });
  servers.configure({ it: config });
  servers.start();
  const it = servers.find("it")!;
  const tools = await it.tools();
  if (tools === undefined) throw new Error(it.reason);
  return { it, watched, names: tools.map(({ name }) => name) };
}

const program = (path: string, ...args: string[]) => mcpServer({ command: process.execPath, args: [path, ...args] });

describe.skipIf(!existsSync(everything))("server-everything", () => {
  test("by stdio", async () => {
    const { it, names } = await start(program(everything, "stdio"));
    expect(names).toContain("echo");
    expect(resultText(await it.call("echo", { message: "hello" }, signal))).toBe("Echo: hello");
    const image = names.find((name) => /image/i.test(name))!;
    expect(resultText(await it.call(image, {}, signal))).toContain("[image of image/png, not shown]");
    const wrong = await it.call("echo", {}, signal).catch((error: unknown) => error);
    expect(wrong).toMatchObject(wrong instanceof Error ? { kind: "refused" } : { isError: true });
  });

  test("by streamable HTTP, with a session that is lost and made anew", async () => {
    const port = freePort();
    /** Resolves once it listens. */
    const serve = async () => {
      const child = Bun.spawn([process.execPath, everything, "streamableHttp"], {
        env: { ...process.env, PORT: String(port) },
        stdout: "ignore",
        stderr: "pipe",
      });
      const decoder = new TextDecoder();
      for await (const part of child.stderr) if (decoder.decode(part).includes("listening")) break;
      return child;
    };
    let child = await serve();
    try {
      const { it, names, watched } = await start(mcpServer({ url: `http://127.0.0.1:${port}/mcp` }));
      expect(names).toContain("echo");
      expect(resultText(await it.call("echo", { message: "hello" }, signal))).toBe("Echo: hello");
      const from = watched.lines.length;
      child.kill("SIGKILL");
      await child.exited;
      await expect(it.call("echo", { message: "x" }, signal)).rejects.toMatchObject({ name: "McpCallError" });
      child = await serve();
      await watched.logged(({ message }) => message === "mcp server ready", from);
      expect(resultText(await it.call("echo", { message: "again" }, signal))).toBe("Echo: again");
    } finally {
      child.kill("SIGKILL");
      await child.exited;
    }
  });
});

describe.skipIf(!existsSync(filesystem))("server-filesystem", () => {
  test("reads a file, and none outside of its folder", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("note.txt"), "cobalt-4711");
    const { it, names } = await start(program(filesystem, folder.path));
    expect(names).toContain("read_text_file");
    expect(resultText(await it.call("read_text_file", { path: folder.file("note.txt") }, signal))).toBe("cobalt-4711");
    expect((await it.call("read_text_file", { path: "/etc/hostname" }, signal)).isError).toBe(true);
  });
});

describe("a server by streamable HTTP, of the official library", () => {
  /** @param more what it says to a call in place of the usual */
  function serve(
    more: { headers?: (headers: Headers) => void; respond?: (request: Request) => Response | undefined } = {},
  ) {
    const handler = createMcpHandler(() => {
      const server = new Server({ name: "it", version: "1" }, { capabilities: { tools: {} } });
      server.setRequestHandler(
        "tools/list",
        () => ({ tools: [{ name: "add", inputSchema: { type: "object" } }] }) as never,
      );
      server.setRequestHandler("tools/call", ({ params }) => ({
        content: [{ type: "text", text: JSON.stringify(params.arguments) }],
      }));
      return server;
    });
    return Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        more.headers?.(request.headers);
        return more.respond?.(request) ?? handler.fetch(request);
      },
    });
  }

  test("speaks the newest revision, and gets the configured headers", async () => {
    const keys = new Set<string | null>();
    const server = serve({ headers: (headers) => keys.add(headers.get("authorization")) });
    const { it } = await start(mcpServer({ url: `${server.url}mcp`, headers: { authorization: "Bearer secret" } }));
    expect(it.revision).toBe("2026-07-28");
    expect(resultText(await it.call("add", { a: 1 }, signal))).toBe('{"a":1}');
    expect([...keys]).toEqual(["Bearer secret"]);
    await server.stop(true);
  });

  test("that redirects elsewhere is not followed with its secret", async () => {
    const seen: (string | null)[] = [];
    const other = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      fetch(request) {
        seen.push(request.headers.get("authorization"));
        return new Response("{}");
      },
    });
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => Response.redirect(`${other.url}`, 307) });
    const starting = start(mcpServer({ url: `${server.url}mcp`, headers: { authorization: "Bearer secret" } }));
    await expect(starting).rejects.toThrow(/could not be reached/);
    expect(seen.filter((key) => key !== null)).toEqual([]);
    await Promise.all([server.stop(true), other.stop(true)]);
  });

  test("whose response has no end is cut off", async () => {
    let isHostile = false;
    const server = serve({
      respond: () =>
        isHostile
          ? new Response(
              new ReadableStream({
                pull: (controller) => controller.enqueue(new Uint8Array(1024 * 1024).fill(120)),
              }),
              { headers: { "content-type": "application/json" } },
            )
          : undefined,
    });
    const { it } = await start(mcpServer({ url: `${server.url}mcp` }));
    isHostile = true;
    await expect(it.call("add", {}, signal)).rejects.toMatchObject({ name: "McpCallError" });
    await server.stop(true);
  });

  test("that nobody answers for is down", async () => {
    const port = freePort();
    await expect(start(mcpServer({ url: `http://127.0.0.1:${port}/mcp` }))).rejects.toThrow(/could not be reached/);
  });
});

describe("a server by streamable HTTP, with sessions", () => {
  type Message = { id?: number; method: string; params?: { name?: string } };
  /** Written by hand, to forget its sessions at will. @param probed the status of what came before `initialize` @param unknown of a lost session */
  function serve({ probed = 400, unknown = 404 }: { probed?: number; unknown?: number } = {}) {
    const sessions = new Set<string>();
    const seen: string[] = [];
    const json = (id: number | undefined, result: object, headers = {}) =>
      Response.json({ jsonrpc: "2.0", id, result }, { headers });
    const server = Bun.serve({
      port: 0,
      hostname: "127.0.0.1",
      async fetch(request) {
        if (request.method !== "POST") return new Response(null, { status: 405 });
        const { id, method } = (await request.json()) as Message;
        seen.push(method);
        if (method === "initialize") {
          const session = crypto.randomUUID();
          sessions.add(session);
          const result = {
            protocolVersion: "2025-11-25",
            capabilities: { tools: {} },
            serverInfo: { name: "it", version: "1" },
          };
          return json(id, result, { "mcp-session-id": session });
        }
        const session = request.headers.get("mcp-session-id");
        if (session === null) return new Response("no such method", { status: probed });
        if (!sessions.has(session))
          return new Response("Bad Request: No valid session ID provided", { status: unknown });
        if (id === undefined) return new Response(null, { status: 202 });
        if (method === "tools/list") return json(id, { tools: [{ name: "add", inputSchema: { type: "object" } }] });
        return json(id, { content: [{ type: "text", text: "done" }] });
      },
    });
    const count = (method: string) => seen.filter((one) => one === method).length;
    return { server, sessions, count, config: mcpServer({ url: `${server.url}mcp` }) };
  }

  test.each([404, 400])("that answers %d for a session it forgot gets a new one at once", async (unknown) => {
    const { server, sessions, count, config } = serve({ unknown });
    const { it, watched } = await start(config);
    await it.call("add", {}, signal);
    sessions.clear();
    const results = await Promise.all([1, 2, 3].map(() => it.call("add", {}, signal)));
    expect(results.map(resultText)).toEqual(["done", "done", "done"]);
    expect(count("initialize")).toBe(2);
    expect(watched.lines.some(({ message }) => message === "mcp server down")).toBe(false);
    await server.stop(true);
  });

  test("that knows no session is asked twice, and no more", async () => {
    const { server, sessions, count, config } = serve();
    const { it } = await start(config);
    sessions.add = () => sessions;
    sessions.clear();
    await expect(it.call("add", {}, signal)).rejects.toMatchObject({ name: "McpCallError" });
    expect(count("initialize")).toBe(2);
    await server.stop(true);
  });

  test.each([400, 403, 404, 405, 500, 501])(
    "that answers %d to what it does not know is spoken to as before",
    async (probed) => {
      const { server, config } = serve({ probed });
      const { it, names } = await start(config);
      expect([it.revision, names]).toEqual(["2025-11-25", ["add"]]);
      await server.stop(true);
    },
  );

  test.each([401, 503])("that answers %d is down", async (status) => {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: () => new Response(null, { status }) });
    await expect(start(mcpServer({ url: `${server.url}mcp` }))).rejects.toThrow(/could not be reached/);
    await server.stop(true);
  });
});

test("a text is cut at whole characters", () => {
  expect(boundedText("é".repeat(10), 20)).toBe("é".repeat(10));
  expect(boundedText("é".repeat(11), 21)).toBe(`${"é".repeat(10)}\n[cut off: 22 bytes, of which 21 are shown]`);
});
