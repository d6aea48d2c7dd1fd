/** The tools that one call may use: what its persona names, of the servers that its key may use, as the model is given them. */
import type { McpBounds, McpServerConfig } from "../config/mcp.ts";
import { type JsonObject, listOf, objectOf } from "../lib/json/json.ts";
import { globMatches } from "../lib/text/glob.ts";
import type { Skills } from "../personas/skills/schema.ts";
import type { FunctionTool } from "../protocols/chat/schema.ts";
import { ApiError } from "../protocols/errors.ts";
import { tiers } from "../protocols/tiers.ts";
import type { McpServer } from "./server.ts";
import type { McpServers } from "./servers.ts";
import { type CallResult, McpCallError, type McpTool } from "./tool.ts";
import { withoutUnused } from "./tool-schema.ts";

/** Tools of one server that a call may use. */
export type Grant = {
  readonly server: string;
  /** Globs over their names; absent: all. */
  readonly allow?: readonly string[] | undefined;
  /** Their names, which a caller gave: no globs. Absent: all that `allow` has. */
  readonly exactly?: readonly string[] | undefined;
  /** The name that the model is given for it. Absent: the server's and its own. */
  readonly as?: string | undefined;
  /** Arguments that every call gets, and that the model neither sees nor sets. */
  readonly arguments?: Readonly<Record<string, unknown>> | undefined;
  /** True where the call is answered without them while the server has never answered. */
  readonly optional?: boolean | undefined;
};

/** All that a call is granted. */
export type Grants = {
  readonly grants: readonly Grant[];
  readonly bounds: McpBounds;
  /** What the persona can read up. Absent: nothing. */
  readonly skills?: Skills | undefined;
};

const unavailableTools = "Tools of this model are not available at the moment. Try again later.";

/** The part of a key that decides which servers it may use. */
type Caller = { readonly tier: string; readonly tags: readonly string[] };

/** @param permission of the server's settings */
export function mayUseServer({ tier = "free", tags }: McpServerConfig, caller: Caller): boolean {
  const ranks: readonly string[] = tiers;
  return (
    ranks.indexOf(caller.tier) >= ranks.indexOf(tier) &&
    (tags.length === 0 || tags.some((tag) => caller.tags.includes(tag)))
  );
}

/** A tool that is called here while a model answers. */
export type CallableTool = {
  /** The name that the model knows. */
  readonly name: string;
  readonly server: string;
  /** As its server listed it. */
  readonly tool: McpTool;
  readonly definition: FunctionTool;
  /** True for one that only reads what this process holds: it is always offered, and has no line in the ledger. */
  readonly isLocal?: boolean;
  /** @throws McpCallError */
  call(args: JsonObject, signal: AbortSignal): Promise<CallResult>;
};

/** A tool as the model is given it. */
export class GrantedTool implements CallableTool {
  /** The name that the model knows: 1 to 64 letters, digits, `_` and `-`. */
  readonly name: string;
  readonly tool: McpTool;
  readonly definition: FunctionTool;
  readonly #server: McpServer;
  readonly #grant: Grant;
  /** The server's names of arguments that the model knows by others. */
  readonly #renamed: ReadonlyMap<string, string>;

  constructor(name: string, server: McpServer, grant: Grant, tool: McpTool) {
    this.name = name;
    this.tool = tool;
    this.#server = server;
    this.#grant = grant;
    const { schema, renamed } = namedForModels(withoutProperties(tool.inputSchema, Object.keys(grant.arguments ?? {})));
    this.#renamed = renamed;
    this.definition = {
      type: "function",
      function: {
        name,
        ...(tool.description !== undefined && { description: tool.description }),
        parameters: schema,
      },
    };
  }

  get server(): string {
    return this.#server.name;
  }

  /** Calls it with the fixed arguments in place. The grant is checked anew, as the server may have changed its tools. @throws McpCallError */
  call(args: JsonObject, signal: AbortSignal): Promise<CallResult> {
    const { name } = this.tool;
    const current = this.#server.listed?.find((tool) => tool.name === name);
    if (current === undefined || !isGranted(this.#grant, current))
      return Promise.reject(new McpCallError("refused", `the server '${this.server}' has no such tool any more`));
    const named = Object.entries(args).map(([one, value]) => [this.#renamed.get(one) ?? one, value]);
    return this.#server.call(name, { ...Object.fromEntries(named), ...this.#grant.arguments }, signal);
  }
}

/**
 * @param taken names of other tools of the call
 * @returns in the order of the grants; the first that allows a tool counts
 * @throws ApiError upstream_unavailable where a server that is not optional has never answered
 */
export async function grantedTools(
  servers: McpServers,
  grants: readonly Grant[],
  caller: Caller,
  taken: Iterable<string>,
): Promise<GrantedTool[]> {
  const names = new ToolNames(taken);
  const granted: GrantedTool[] = [];
  const seen = new Set<string>();
  for (const grant of grants) {
    const server = servers.find(grant.server);
    if (server !== undefined && !mayUseServer(server.config, caller)) continue;
    const listed = await server?.tools();
    if (server === undefined || listed === undefined) {
      if (grant.optional === true) continue;
      throw ApiError.unavailable("upstream_unavailable", unavailableTools);
    }
    for (const tool of listed) {
      const key = `${server.name}\n${tool.name}`;
      if (seen.has(key) || !isGranted(grant, tool)) continue;
      seen.add(key);
      const name = grant.as === undefined ? names.of(server.name, tool.name) : names.plain(grant.as);
      granted.push(new GrantedTool(name, server, grant, tool));
    }
  }
  return granted;
}

/** A tool that does not take every fixed argument is not granted: what they confine would not be confined. */
export function isGranted({ allow, exactly, arguments: fixed }: Grant, { name, inputSchema }: McpTool): boolean {
  if (exactly !== undefined && !exactly.includes(name)) return false;
  if (allow !== undefined && !allow.some((glob) => globMatches(glob, name))) return false;
  if (fixed === undefined) return true;
  const properties = objectOf(inputSchema["properties"]) ?? {};
  return Object.keys(fixed).every((one) => Object.hasOwn(properties, one));
}

function withoutProperties(schema: JsonObject, fixed: readonly string[]): JsonObject {
  if (fixed.length === 0) return schema;
  const properties = Object.entries(objectOf(schema["properties"]) ?? {}).filter(([name]) => !fixed.includes(name));
  const required = listOf(schema["required"]).filter((name) => !fixed.includes(String(name)));
  return withoutUnused({ ...schema, properties: Object.fromEntries(properties), required });
}

/**
 * Gives arguments names that every provider takes: Anthropic refuses the whole request for another.
 * Source: https://github.com/anthropics/claude-code/issues/34771
 */
function namedForModels(schema: JsonObject): { readonly schema: JsonObject; readonly renamed: Map<string, string> } {
  const renamed = new Map<string, string>();
  const properties = Object.entries(objectOf(schema["properties"]) ?? {});
  if (properties.every(([name]) => argumentName.test(name))) return { schema, renamed };
  const names = new ToolNames(properties.flatMap(([name]) => (argumentName.test(name) ? name : [])));
  const shown = new Map(properties.map(([name]) => [name, argumentName.test(name) ? name : names.plain(name)]));
  for (const [name, other] of shown) if (name !== other) renamed.set(other, name);
  const required = listOf(schema["required"]).map((name) => shown.get(String(name)) ?? name);
  return {
    schema: {
      ...schema,
      properties: Object.fromEntries(properties.map(([name, one]) => [shown.get(name), one])),
      ...(required.length > 0 && { required }),
    },
    renamed,
  };
}

const argumentName = /^[A-Za-z0-9_.-]{1,64}$/;

/** Of which upstreams take so many characters. */
const maxName = 64;

/** Names tools `<server>__<tool>`, each once, whatever servers call theirs. */
export class ToolNames {
  readonly #taken: Set<string>;

  constructor(taken: Iterable<string> = []) {
    this.#taken = new Set(taken);
  }

  of(server: string, tool: string): string {
    return this.#free(`${server}__${tool}`, false);
  }

  /** @param wanted whose other characters become `_` @returns the same where that is free */
  plain(wanted: string): string {
    return this.#free(wanted, true);
  }

  #free(wanted: string, mayChange: boolean): string {
    const plain = wanted.replaceAll(/[^A-Za-z0-9_-]/g, "_");
    const isPlain = plain.length <= maxName && (mayChange || plain === wanted);
    for (let attempt = isPlain ? 0 : 1; ; attempt += 1) {
      const name = attempt === 0 ? plain : hashed(plain, `${wanted}\n${attempt}`);
      if (this.#taken.has(name)) continue;
      this.#taken.add(name);
      return name;
    }
  }
}

function hashed(plain: string, of: string): string {
  const digest = Bun.SHA256.hash(of, "hex").slice(0, 8);
  return `${plain.slice(0, maxName - digest.length - 1)}_${digest}`;
}
