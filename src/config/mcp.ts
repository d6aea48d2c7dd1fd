/** The settings of tools by MCP: the servers, what one call may use of them, and the hosted tools that they stand in for. */

import { type TObject, Type } from "@sinclair/typebox";
import { KeyedRecord } from "../lib/json/keyed-record.ts";
import type { PathPart } from "../lib/json/schema-errors.ts";
import { Closed, Words } from "../lib/json/schemas.ts";
import { tiers } from "../protocols/tiers.ts";
import { toolBounds } from "../protocols/tool-bounds.ts";
import { type Filled, filledIn } from "./filled.ts";
import { headerName } from "./provider-schema.ts";
import type { FaultReporter } from "./report.ts";
import { defaulted, optional, section, text, texts, timeout } from "./schema-fields.ts";

/** Begins the names of the server's tools, of which upstreams take 64 characters. */
const serverName = {
  pattern: "^[a-z](?:[a-z0-9-]|_(?!_)){0,31}$",
  message: "must be of 1 to 32 lower-case letters, digits, '_' and '-', without '__', and begin with a letter",
};

const variableName = { pattern: "^[A-Za-z_][A-Za-z0-9_]*$", message: "is no name for a variable" };
const hostedName = {
  pattern: "^[a-z][a-z0-9_]{0,63}$",
  message: "must be the type of a hosted tool without its date, such as web_search",
};

export const McpServerFile = Closed({
  command: optional(text("The program of a server that is started here and spoken to by stdio. Default: none.")),
  args: texts("The program's arguments."),
  env: optional(
    KeyedRecord(variableName, Type.String(), {
      description:
        "Its environment, beside HOME, LOGNAME, PATH, SHELL, TERM and USER; nothing else of this process's is passed on. Better `${NAME}` than a secret itself.",
    }),
  ),
  cwd: optional(text("The folder it is started in. Default: that of the server process.")),
  url: optional(text("The address of a server that is spoken to by streamable HTTP. Default: none.")),
  headers: optional(
    KeyedRecord(headerName, Type.String(), {
      description: "Sent with every request. Better `${NAME}` than a secret itself.",
    }),
  ),
  tier: optional(Words(tiers, { description: "The lowest plan whose keys may use it. Default: `free`." })),
  tags: texts("Keys that may use it: those with one of these tags. Default: keys of every tag, and without one."),
  start_seconds: defaulted(timeout("How long its start, and each list of its tools, may take."), 30),
  call_seconds: defaulted(timeout("How long one call of a tool may take."), 60),
});

export const mcpServers = defaulted(
  KeyedRecord(serverName, McpServerFile, {
    description:
      "MCP servers by the names that personas call them by: a `command` that is started here, or a `url`. [mcp.md](mcp.md) has examples.",
  }),
  {},
);

export const hostedTools = defaulted(
  KeyedRecord(hostedName, text("`<server>.<tool>`."), {
    description:
      "Tools of MCP servers that stand in where a client declares a tool that providers run themselves, such as `web_search`, and the model's provider has none: `web_search: search.query`.",
  }),
  {},
);

const { turns, parallel, calls, seconds, result_bytes, total_bytes, dollars, find_above } = toolBounds;

/** The bounds of one call, which a persona may set otherwise. */
const mcpBounds = {
  turns: defaulted(Type.Integer(turns), 10),
  parallel: defaulted(Type.Integer(parallel), 4),
  calls: defaulted(Type.Integer(calls), 50),
  seconds: defaulted(Type.Number(seconds), 300),
  result_bytes: defaulted(Type.Integer(result_bytes), 64 * 1024),
  total_bytes: defaulted(Type.Integer(total_bytes), 512 * 1024),
  dollars: optional(Type.Number(dollars)),
  find_above: defaulted(Type.Integer(find_above), 40),
};

export const mcpSection = section("Bounds of the tools that one request calls by MCP.", mcpBounds);

export type McpServerConfig = Filled<typeof McpServerFile>;
export type McpBounds = Filled<TObject<typeof mcpBounds>>;

/** @returns each server, checked: a command or an address, and what goes with it */
export function mcpServersFrom(
  file: Readonly<Record<string, unknown>>,
  report: FaultReporter,
): Readonly<Record<string, McpServerConfig>> {
  return Object.fromEntries(
    Object.entries(file).map(([name, entry]) => {
      const server = filledIn(McpServerFile, entry);
      checkServer(server, ["mcp_servers", name], report);
      return [name, server];
    }),
  );
}

function checkServer(
  { command, args, env, cwd, url, headers }: McpServerConfig,
  at: PathPart[],
  report: FaultReporter,
): void {
  if ((command === undefined) === (url === undefined)) report(at, "must have either command or url");
  if (url !== undefined) {
    if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol))
      report([...at, "url"], "must begin with https:// or http://");
    for (const [name, value] of Object.entries({ env, cwd, args: args.length > 0 ? args : undefined }))
      if (value !== undefined) report([...at, name], "belongs beside command");
  }
  if (command !== undefined && headers !== undefined) report([...at, "headers"], "belongs beside url");
}

/** @returns the tools that stand in for hosted ones, each with a server that there is */
export function hostedToolsFrom(
  file: Readonly<Record<string, string>>,
  servers: Readonly<Record<string, unknown>>,
  report: FaultReporter,
): Readonly<Record<string, string>> {
  for (const [hosted, given] of Object.entries(file)) {
    const { server } = toolReference(given);
    if (server === undefined) report(["hosted_tools", hosted], "must be <server>.<tool>");
    else if (!Object.hasOwn(servers, server))
      report(["hosted_tools", hosted], `names ${server}, which mcp_servers does not have`);
  }
  return file;
}

/** Reads `<server>.<tool>`. Servers have no dot in their names, tools may. */
export function toolReference(given: string): { readonly server: string | undefined; readonly tool: string } {
  const dot = given.indexOf(".");
  const isWhole = dot > 0 && dot < given.length - 1;
  return { server: isWhole ? given.slice(0, dot) : undefined, tool: given.slice(dot + 1) };
}
