/** Tools of MCP servers and the results of their calls, as the protocol has them. */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../lib/json/json.ts";

/** https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool */
export type McpTool = {
  readonly name: string;
  readonly description?: string | undefined;
  readonly inputSchema: JsonObject;
};

/** https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result */
export type CallResult = {
  readonly content: readonly JsonObject[];
  readonly structuredContent?: unknown;
  readonly isError?: boolean | undefined;
};

/**
 * A call without a result. `refused`: the server answered an error. `lost`: the connection is of no more use. `broken`: it broke
 * during the call, and is known to be. `down`: the server does not run, and was not called.
 */
export class McpCallError extends Error {
  override readonly name = "McpCallError";
  readonly kind: "refused" | "timeout" | "cancelled" | "lost" | "broken" | "down";

  constructor(kind: McpCallError["kind"], message: string) {
    super(message);
    this.kind = kind;
  }
}

const maxTools = 1_000;
/** Of one tool, and of all of them: they go to the model with every turn. */
const maxToolBytes = 64 * 1024;
const maxListBytes = 4 * 1024 ** 2;
const maxDepth = 32;
const maxDescription = 8 * 1024;

/** Drops tools that no model should be given. @returns the others, and how many were dropped */
export function usableTools(listed: readonly McpTool[]): {
  readonly tools: readonly McpTool[];
  readonly dropped: number;
} {
  const tools: McpTool[] = [];
  let bytes = 0;
  for (const { name, description, inputSchema } of listed) {
    if (name === "" || name.length > 256 || !isObject(inputSchema) || isDeep(inputSchema, maxDepth)) continue;
    const tool: McpTool = {
      name,
      ...(typeof description === "string" && { description: description.slice(0, maxDescription) }),
      inputSchema: inputSchema as JsonObject,
    };
    const size = JSON.stringify(tool).length;
    if (size > maxToolBytes || bytes + size > maxListBytes || tools.length === maxTools) continue;
    if (tools.some((one) => one.name === name)) continue;
    bytes += size;
    tools.push(tool);
  }
  return { tools, dropped: listed.length - tools.length };
}

function isDeep(value: unknown, left: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  return left === 0 || Object.values(value).some((inner) => isDeep(inner, left - 1));
}

/**
 * The text that a model reads of a result. Media are named and not shown: most models take none in a tool's result, and a result
 * may hold any number.
 */
export function resultText({ content, structuredContent }: CallResult): string {
  const texts = listOf(content).flatMap((block) => (isObject(block) ? blockText(block) : []));
  if (texts.length === 0 && structuredContent !== undefined) return JSON.stringify(structuredContent);
  return texts.join("\n");
}

function blockText(block: JsonObject): string {
  const type = textOf(block["type"]) ?? "";
  const media = textOf(block["mimeType"]) ?? "unknown type";
  switch (type) {
    case "text":
      return textOf(block["text"]) ?? "";
    case "resource_link":
      return `[resource ${textOf(block["name"]) ?? ""} ${textOf(block["uri"]) ?? ""}]`;
    case "resource": {
      const resource = objectOf(block["resource"]) ?? {};
      return textOf(resource["text"]) ?? `[resource ${textOf(resource["uri"]) ?? ""}, not text]`;
    }
    default:
      return `[${type} of ${media}, not shown]`;
  }
}

/** @returns the text, with a note where it was cut off at so many bytes */
export function boundedText(text: string, maxBytes: number): string {
  if (text.length <= maxBytes / 3) return text;
  const bytes = Buffer.from(text);
  if (bytes.length <= maxBytes) return text;
  const kept = new TextDecoder().decode(bytes.subarray(0, maxBytes)).replace(/\ufffd$/, "");
  return `${kept}\n[cut off: ${bytes.length} bytes, of which ${maxBytes} are shown]`;
}
