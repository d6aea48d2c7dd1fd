/** Checks the configured MCP servers: each is started or reached, and asked for its tools, where that is wanted. */
import { buildInfo } from "../../build-info.ts";
import type { Config } from "../../config/config.ts";
import type { McpServerConfig } from "../../config/mcp.ts";
import { globMatches } from "../../lib/text/glob.ts";
import { isGranted } from "../../mcp/grants.ts";
import { leftOutText, type McpTool, usableTools } from "../../mcp/tool.ts";
import type { Persona } from "../../personas/persona.ts";
import { type Check, failure, ok, warning } from "./check.ts";

/** @param personas whose grants are compared with the tools of each @param call whether each is started or reached */
export async function examineMcpServers(config: Config, personas: readonly Persona[], call: boolean): Promise<Check[]> {
  const servers = Object.entries(config.mcpServers);
  if (servers.length === 0) return [];
  if (!call)
    return servers.map(([name, server]) =>
      ok(`mcp server ${name}`, `${placeOf(server)}, not ${startedOr(server, "called")} (--call does)`),
    );
  return (await Promise.all(servers.map(([name, server]) => tryServer(name, server, personas)))).flat();
}

const placeOf = ({ command, url }: McpServerConfig) => command ?? new URL(url!).origin;

/** What personas allow of a server and it does not have: most likely misspelt. */
function lostGrants(name: string, tools: readonly McpTool[], personas: readonly Persona[]): Check[] {
  return personas.flatMap(({ id, mcp = [] }) =>
    mcp
      .filter(({ server }) => server === name)
      .flatMap((grant) => {
        const lost = (grant.allow ?? []).filter((glob) => !tools.some((tool) => globMatches(glob, tool.name)));
        const allowed = tools.filter((tool) => isGranted({ ...grant, arguments: undefined }, tool));
        const unfit = allowed.filter((tool) => !isGranted(grant, tool)).map((tool) => tool.name);
        return [
          ...lost.map((glob) => `allows '${glob}' of ${name}, which has no such tool`),
          ...unfit.map((tool) => `has fixed arguments that ${tool} of ${name} does not take: it is left out`),
        ].map((found) => warning(`persona ${id}`, found, "Correct its mcp: see docs/mcp.md."));
      }),
  );
}

const startedOr = ({ command }: McpServerConfig, other: string) => (command === undefined ? other : "started");

async function tryServer(name: string, config: McpServerConfig, personas: readonly Persona[]): Promise<Check[]> {
  const what = `mcp server ${name}`;
  const place = placeOf(config);
  const { openSession } = await import("../../mcp/session.ts");
  const said = new LastLines();
  try {
    const session = await openSession({
      name,
      version: buildInfo.version,
      config,
      isOld: false,
      signal: new AbortController().signal,
      onStderr: (line) => said.add(line),
      onToolsChanged: () => {},
      onClosed: () => {},
    });
    try {
      const { tools, leftOut } = usableTools(await session.tools());
      const found = `${place}, revision ${session.revision}, ${tools.length} tools`;
      const advice = "Personas are not given them: see docs/mcp.md.";
      const check =
        leftOut.length === 0
          ? ok(what, found)
          : warning(what, `${found}, ${leftOut.length} left out (${leftOutText(leftOut)})`, advice);
      return [check, ...lostGrants(name, tools, personas)];
    } finally {
      await session.close();
    }
  } catch (error) {
    const advice = "Run it by hand, or look at its address and headers. See docs/mcp.md.";
    return [failure(what, `${(error as Error).message}${said.text}`, advice)];
  }
}

const maxLines = 5;

/** What a program said last on stderr, without the places in its code. */
class LastLines {
  #lines: string[] = [];

  add(line: string): void {
    if (/^\s+at |^Node\.js v/.test(line)) return;
    this.#lines = [...this.#lines, line.trim()].slice(-maxLines);
  }

  get text(): string {
    return this.#lines.length === 0 ? "" : `; on stderr it said: ${this.#lines.join(" | ")}`;
  }
}
