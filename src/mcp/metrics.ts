/** The metrics of MCP servers and of the calls of their tools. */
import type { SampledTable } from "../lib/process/metrics.ts";
import type { McpServer } from "./server.ts";
import type { McpServers } from "./servers.ts";

const ofServers = (value: (server: McpServer) => number) => ({
  labels: ["server"],
  series: (servers: McpServers) => servers.list().map((server) => ({ labels: [server.name], value: value(server) })),
});

export const mcpMetrics: SampledTable<McpServers> = {
  troupe_mcp_ready: {
    help: "Whether an MCP server can be called: 1, or 0.",
    aggregate: "min",
    ...ofServers(({ state }) => Number(state === "ready")),
  },
  troupe_mcp_restarts_total: {
    help: "Times that an MCP server was started again.",
    ...ofServers(({ restarts }) => restarts),
  },
  troupe_mcp_calls_total: {
    help: "Calls of an MCP server's tools, by how they ended.",
    labels: ["server", "result"],
    series: (servers) =>
      servers.list().flatMap(({ name, calls }) => [
        { labels: [name, "answered"], value: calls.answered },
        { labels: [name, "error"], value: calls.errors },
        { labels: [name, "failed"], value: calls.failed },
      ]),
  },
};
