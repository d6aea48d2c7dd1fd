/** MCP servers for tests, as the configuration names them. */
import { join } from "node:path";
import type { McpServerConfig } from "../../src/config/mcp.ts";

const script = join(import.meta.dir, "mcp-server.ts");

export const mcpServer = (more: Partial<McpServerConfig> = {}): McpServerConfig => ({
  args: [],
  tags: [],
  startSeconds: 20,
  callSeconds: 10,
  ...more,
});

/** The program of `mcp-server.ts`. @param env `MODE` and `CALLS` */
export const testServer = (env: Record<string, string> = {}, more: Partial<McpServerConfig> = {}): McpServerConfig =>
  mcpServer({ command: process.execPath, args: [script], env, ...more });
