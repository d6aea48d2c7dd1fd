/** Tools of MCP servers and the results of their calls, as the protocol has them. */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../lib/json/json.ts";
import { truncate } from "../lib/text/truncate.ts";
import { toolSchema } from "./tool-schema.ts";

/** https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool */
export type McpTool = {
  readonly name: string;
  readonly description?: string | undefined;
  /** Of an object, as every provider takes it. */
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
 * during the call, and is known to be. `expired`: the server does not know the session, and did nothing. `down`: the server does not run,
 * and was not called.
 */
export class McpCallError extends Error {
  override readonly name = "McpCallError";
  readonly kind: "refused" | "timeout" | "cancelled" | "lost" | "broken" | "expired" | "down";

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

/** A tool that is not given to models. */
type LeftOut = { readonly name: string; readonly reason: string };

/** Judges each tool of a list by itself. @param listed as the server sent it @returns those that models can be given, and the others */
export function usableTools(listed: readonly unknown[]): {
  readonly tools: readonly McpTool[];
  readonly leftOut: readonly LeftOut[];
} {
  const tools = new Map<string, McpTool>();
  const leftOut: LeftOut[] = [];
  let bytes = 0;
  for (const one of listed) {
    const read = readTool(one);
    const size = "reason" in read ? 0 : JSON.stringify(read).length;
    const reason = "reason" in read ? read.reason : reasonAgainst(read, size, bytes + size, tools);
    if (reason !== undefined) leftOut.push({ name: read.name, reason });
    else {
      bytes += size;
      tools.set(read.name, read as McpTool);
    }
  }
  return { tools: [...tools.values()], leftOut };
}

function reasonAgainst({ name }: McpTool, size: number, total: number, before: ReadonlyMap<string, McpTool>) {
  if (before.has(name)) return "another has the same name";
  if (size > maxToolBytes) return `its description and schema take more than ${maxToolBytes / 1024} KiB`;
  if (total > maxListBytes || before.size === maxTools) return `it is beyond ${maxTools} tools or 4 MiB of them`;
  return undefined;
}

/** @param listed one member of a server's list; null stands for absent */
export function readTool(listed: unknown): McpTool | LeftOut {
  if (!isObject(listed)) return { name: "", reason: "it is no object" };
  const { name, description, inputSchema, execution } = listed;
  if (typeof name !== "string" || name === "") return { name: "", reason: "it has no name" };
  if (name.length > 256) return { name: truncate(name), reason: "its name has more than 256 characters" };
  // https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks#tool-level-negotiation
  if (objectOf(execution)?.["taskSupport"] === "required") return { name, reason: "it can only be called as a task" };
  if (isDeep(inputSchema, maxDepth)) return { name, reason: `its inputSchema nests deeper than ${maxDepth}` };
  const schema = toolSchema(inputSchema);
  if (typeof schema === "string") return { name, reason: schema };
  return {
    name,
    ...(typeof description === "string" && { description: description.slice(0, maxDescription) }),
    inputSchema: schema,
  };
}

/** So many tools are named where they are told of. */
const maxNamed = 20;

/** @returns the tools and why they were left out, in one line */
export function leftOutText(leftOut: readonly LeftOut[]): string {
  const named = leftOut.slice(0, maxNamed).map(({ name, reason }) => `${name === "" ? "one" : name}: ${reason}`);
  const others = leftOut.length - named.length;
  return [...named, ...(others > 0 ? [`${others} more`] : [])].join("; ");
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
