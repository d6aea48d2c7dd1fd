/** The MCP servers of the configuration. They are started once the server listens, and follow the configuration as it is reloaded. */
import type { McpServerConfig } from "../config/mcp.ts";
import { McpServer, type OpenSession, type ServerTools } from "./server.ts";

type Configured = Readonly<Record<string, McpServerConfig>>;

export class McpServers {
  readonly #tools: ServerTools;
  #servers: ReadonlyMap<string, McpServer> = new Map();
  #isStarted = false;

  /** @param tools `open` by default loads the client library at the first connection */
  constructor(tools: Omit<ServerTools, "open"> & { readonly open?: OpenSession }) {
    this.#tools = { open: openLazily, ...tools };
  }

  find(name: string): McpServer | undefined {
    return this.#servers.get(name);
  }

  list(): readonly McpServer[] {
    return [...this.#servers.values()];
  }

  /** Takes the configuration. A server whose settings did not change stays as it is; calls under way at one that is gone end. */
  configure(configured: Configured): void {
    const before = this.#servers;
    const kept = new Set<McpServer>();
    this.#servers = new Map(
      Object.entries(configured).map(([name, config]) => {
        const known = before.get(name);
        const server =
          known !== undefined && Bun.deepEquals(known.config, config)
            ? known
            : new McpServer(name, config, this.#tools);
        kept.add(server);
        return [name, server];
      }),
    );
    for (const server of before.values()) if (!kept.has(server)) void server.close();
    if (this.#isStarted) this.start();
  }

  start(): void {
    this.#isStarted = true;
    for (const server of this.#servers.values()) server.start();
  }

  async close(): Promise<void> {
    const servers = this.list();
    this.#servers = new Map();
    await Promise.all(servers.map((server) => server.close()));
  }
}

const openLazily: OpenSession = async (options) => (await import("./session.ts")).openSession(options);
