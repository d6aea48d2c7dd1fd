/**
 * Tools of MCP servers that stand in for those that a client declares and expects the provider to run: hosted tools that the
 * configuration names a tool for, and Responses' `mcp` with the label of a configured server. A server that the caller names is never called.
 */
import type { Caller } from "../../../auth/keys.ts";
import { toolReference } from "../../../config/mcp.ts";
import { listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import { truncate } from "../../../lib/text/truncate.ts";
import { type Grant, mayUseServer } from "../../../mcp/grants.ts";
import { ApiError } from "../../../protocols/errors.ts";
import type { HostedTool } from "../../../protocols/native-only.ts";
import { inClientsPlace } from "../../relay/errors.ts";
import type { Services } from "../../services.ts";

type StandIns = {
  readonly grants: readonly Grant[];
  /** The error for the first tool that nothing stands in for. Absent: there is none. */
  readonly refusal: ApiError | undefined;
};

/** `isNative`: the upstream gets the client's own body, and may know its tools. `drops`: tools that it does not know are left out. */
type Upstream = { readonly isNative: boolean; readonly drops: boolean };

/** @returns undefined where nothing stands in for any @throws ApiError for a server that the caller names */
export function standInsFor(
  services: Services,
  caller: Caller,
  tools: readonly HostedTool[],
  upstream: Upstream,
): StandIns | undefined {
  const grants: Grant[] = [];
  let refusal: ApiError | undefined;
  for (const tool of tools) {
    const find = tool.type === "mcp" ? labelled : hosted;
    const grant = find(services, caller, tool, upstream);
    if (grant === undefined) refusal ??= tool.refusal;
    else grants.push(grant);
  }
  if (grants.length === 0) return undefined;
  // A call with tools here is translated, so that the upstream's own are out of reach.
  return upstream.isNative
    ? standInsFor(services, caller, tools, { ...upstream, isNative: false })
    : { grants, refusal };
}

/** Words of the formats for the same tool. */
const sameTools: Readonly<Record<string, string>> = {
  web_search_preview: "web_search",
  code_interpreter: "code_execution",
};

function hosted({ live }: Services, _caller: Caller, { type }: HostedTool, { isNative }: Upstream): Grant | undefined {
  if (isNative) return undefined;
  const { hostedTools } = live.config;
  const name = [type, Object.hasOwn(sameTools, type) ? sameTools[type]! : type].find((one) =>
    Object.hasOwn(hostedTools, one),
  );
  if (name === undefined) return undefined;
  const { server, tool } = toolReference(hostedTools[name]!);
  return { server: server!, allow: [tool], as: name };
}

/** Members by which a caller would have its own server called, or ours with its own rights. */
const ofOwnServers = ["server_url", "connector_id", "authorization", "headers"];

/** https://platform.openai.com/docs/api-reference/responses/create#responses-create-tools (MCP tool) */
function labelled(
  { mcp }: Services,
  caller: Caller,
  { declared, path }: HostedTool,
  { isNative, drops }: Upstream,
): Grant | undefined {
  const refuse = (name: string, message: string): undefined => {
    if (isNative || drops) return undefined;
    throw refusedAt(`${path}.${name}`, message);
  };
  const own = ofOwnServers.find((name) => declared[name] != null);
  if (own !== undefined)
    return refuse(own, "servers are named by the operator, and by a caller through server_label alone.");
  const label = textOf(declared["server_label"]) ?? "";
  const server = mcp.find(label);
  if (server === undefined || !mayUseServer(server.config, caller))
    return refuse("server_label", `there is no MCP server '${truncate(label)}' here for this key.`);
  const approval = declared["require_approval"];
  if (approval != null && approval !== "never")
    throw refusedAt(`${path}.require_approval`, "must be 'never': calls are made here, without asking.");
  const given = declared["allowed_tools"];
  const names = listOf(Array.isArray(given) ? given : objectOf(given)?.["tool_names"]);
  return { server: label, ...(given != null && { exactly: names.flatMap((name) => textOf(name) ?? []) }) };
}

const refusedAt = (path: string, message: string) => inClientsPlace(ApiError.invalidValue(path, `${path}: ${message}`));
