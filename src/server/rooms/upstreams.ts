/** The room of upstreams: how they are reached, what they list, and MCP servers. */
import type { FetchTransport } from "../../lib/http/fetch-transport.ts";
import { McpServers } from "../../mcp/servers.ts";
import { Upstream } from "../../upstream/client.ts";
import { ModelLists } from "../../upstream/model-lists.ts";
import type { Opening } from "./opening.ts";

/** @param transport that calls go by; absent: the client's own */
export function openUpstreams(
  { config, own, services, current, build, clock, log }: Opening,
  transport: FetchTransport | undefined,
) {
  const upstream = own(new Upstream(clock, transport));
  const modelLists = own(
    new ModelLists({
      upstream,
      accounts: () => services().live.accounts,
      clock,
      log,
      data: config.data,
      refreshMinutes: () => current().modelLists.refreshMinutes,
    }),
  );
  const mcp = own(new McpServers({ clock, log, version: build.version }));
  mcp.configure(config.mcpServers);
  return { upstream, modelLists, mcp };
}
