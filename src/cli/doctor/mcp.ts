/** Checks the configured MCP servers: each is started or reached, and asked for its tools, where that is wanted. */
import { buildInfo } from "../../build-info.ts";
import type { Config } from "../../config/config.ts";
import type { McpServerConfig } from "../../config/mcp.ts";
import { usableTools } from "../../mcp/tool.ts";
import { type Check, failure, ok, warning } from "./check.ts";

/** @param call whether each is started or reached */
export function examineMcpServers({ mcpServers }: Config, call: boolean): Promise<Check[]> {
  return Promise.all(
    Object.entries(mcpServers).map(([name, config]) => {
      const place = config.command ?? new URL(config.url!).origin;
      if (call) return tryServer(name, config, place);
      return Promise.resolve(ok(`mcp server ${name}`, `${place}, not ${startedOr(config, "called")} (--call does)`));
    }),
  );
}

const startedOr = ({ command }: McpServerConfig, other: string) => (command === undefined ? other : "started");

async function tryServer(name: string, config: McpServerConfig, place: string): Promise<Check> {
  const what = `mcp server ${name}`;
  const { openSession } = await import("../../mcp/session.ts");
  try {
    const session = await openSession({
      name,
      version: buildInfo.version,
      config,
      isOld: false,
      signal: new AbortController().signal,
      onStderr: () => {},
      onToolsChanged: () => {},
      onClosed: () => {},
    });
    try {
      const { tools, dropped } = usableTools(await session.tools());
      const found = `${place}, revision ${session.revision}, ${tools.length} tools`;
      if (dropped === 0) return ok(what, found);
      return warning(
        what,
        `${found}, ${dropped} left out`,
        "They are too large, too deep or too many: see docs/mcp.md.",
      );
    } finally {
      await session.close();
    }
  } catch (error) {
    const advice = "Run it by hand, or look at its address and headers. See docs/mcp.md.";
    return failure(what, (error as Error).message, advice);
  }
}
