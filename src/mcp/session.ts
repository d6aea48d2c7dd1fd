/**
 * One connection to an MCP server, by the official client library, in revision 2026-07-28 or, with servers that have no such thing,
 * 2025-11-25 and before. This file is loaded when the first server is connected to: an import of the library takes 50 ms.
 */
import {
  Client,
  type JsonSchemaValidatorResult,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { McpServerConfig } from "../config/mcp.ts";
import { isObject, type JsonObject, listOf } from "../lib/json/json.ts";
import { type CallResult, McpCallError, readTool } from "./tool.ts";

/** A list of more pages is refused as endless. */
const maxPages = 64;
/** Of one message of a server that is spoken to by stdio, and of one response by HTTP. */
const maxMessageBytes = 16 * 1024 ** 2;

/** The revision that began what `server/discover` finds out. */
const firstNew = "2026-07-28";

export type SessionOptions = {
  readonly name: string;
  readonly version: string;
  readonly config: McpServerConfig;
  /** True where it spoke an old revision before: it is not asked for the newest one again. */
  readonly isOld: boolean;
  /** Gives a start up. */
  readonly signal: AbortSignal;
  readonly onStderr: (line: string) => void;
  /** Called when the server says that its tools changed. */
  readonly onToolsChanged: () => void;
  /** Called once, when the connection is lost; not by `close`. */
  readonly onClosed: (reason: string) => void;
};

export interface McpSession {
  /** The revision that both speak. */
  readonly revision: string;
  /** True for a revision before 2026-07-28. */
  readonly isOld: boolean;
  /** @returns what it lists, unjudged @throws Error with the reason */
  tools(): Promise<readonly unknown[]>;
  /** @throws McpCallError */
  call(tool: string, args: JsonObject, signal: AbortSignal): Promise<CallResult>;
  close(): Promise<void>;
}

/** Answers to the question for the newest revision of servers that do not know it, beside those that the library takes for such. */
const oldServers: readonly number[] = [403, 500, 501];

/** Starts or reaches the server. @throws Error with the reason */
export async function openSession(options: SessionOptions): Promise<McpSession> {
  const { name, config, isOld } = options;
  try {
    return await connect(options).catch((error: unknown) => {
      if (isOld || !(error instanceof SdkHttpError) || !oldServers.includes(error.status)) throw error;
      return connect({ ...options, isOld: true });
    });
  } catch (error) {
    const isLate = error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout;
    const reason = isLate ? `did not answer within ${config.startSeconds} s (start_seconds)` : textOf(error);
    throw new Error(`'${name}' could not be ${config.command === undefined ? "reached" : "started"}: ${reason}`);
  }
}

async function connect(options: SessionOptions): Promise<McpSession> {
  const { version, config } = options;
  const startMs = config.startSeconds * 1000;
  const client = new Client(
    { name: "troupe", version },
    {
      versionNegotiation: { mode: "auto", probe: { timeoutMs: Math.min(startMs, 5_000) } },
      listMaxPages: maxPages,
      listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: options.onToolsChanged } },
      // The schemas are the server's own: compiling one may take a processor for minutes.
      jsonSchemaValidator: trusting,
    },
  );
  let lastError = "";
  let isOpen = false;
  let isClosing = false;
  client.onerror = (error) => {
    lastError = error.message;
  };
  client.onclose = () => {
    if (isOpen && !isClosing) options.onClosed(lastError || "it closed the connection");
    isOpen = false;
  };
  const { transport, lastLines } = transportOf(config, options.onStderr);
  const close = async () => {
    isClosing = true;
    await client.close();
    await lastLines();
  };
  let listed: unknown[] = [];
  // The library calls what stands here before it reads a message itself.
  transport.onmessage = (message) => {
    if ("result" in message) mendResult(message.result, (tools) => listed.push(...tools));
  };
  try {
    await client.connect(transport, {
      timeout: startMs,
      signal: options.signal,
      ...(options.isOld && { prior: { kind: "legacy" as const } }),
    });
  } catch (error) {
    await close().catch(() => {});
    throw error;
  }
  isOpen = true;
  const revision = client.getNegotiatedProtocolVersion() ?? "";
  return {
    revision,
    isOld: revision < firstNew,
    async tools() {
      listed = [];
      lastError = "";
      const { tools } = await client.listTools({}, { timeout: startMs, cacheMode: "refresh" }).catch((error) => {
        // An answer that is no message by the protocol is dropped by the library, which then waits for another.
        throw lastError === ""
          ? error
          : new Error(`${textOf(error)}: ${lastError}`.replace(/\s+/g, " ").slice(0, 2 * maxLine));
      });
      // The library leaves out those whose arguments it can't write into headers as they ask for.
      const callable = new Set(tools.map(({ name }) => name));
      return listed.filter((one) => {
        const tool = readTool(one);
        return "reason" in tool || callable.has(tool.name);
      });
    },
    async call(tool, args, signal) {
      const timeout = config.callSeconds * 1000;
      const isOfSession = transport.sessionId !== undefined;
      try {
        const options = { signal, timeout, maxTotalTimeout: timeout };
        return (await client.callTool({ name: tool, arguments: args }, options)) as CallResult;
      } catch (error) {
        throw callError(error, config, signal, isOfSession);
      }
    },
    close,
  };
}

/**
 * Takes null for absent, and gives the library no more of each tool than it needs to call it: it refuses a whole list, or a result, for
 * one member of another type.
 */
function mendResult(result: JsonObject, onListed: (tools: readonly unknown[]) => void): void {
  const { tools, content, structuredContent, capabilities } = result;
  if (isObject(capabilities)) dropNulls(result);
  const isNull = structuredContent === null;
  for (const name of nullable) if (result[name] === null) delete result[name];
  if (Array.isArray(content)) {
    for (const block of content.filter(isObject))
      for (const name of Object.keys(block)) if (block[name] === null) delete block[name];
  }
  if (isNull && listOf(content).length === 0) result["content"] = [{ type: "text", text: "null" }];
  if (!Array.isArray(tools)) return;
  onListed(tools);
  result["tools"] = tools.flatMap((one) => {
    const tool = readTool(one);
    return "reason" in tool ? [] : [{ name: tool.name, inputSchema: tool.inputSchema }];
  });
}

/** Of what a server says of itself, null for a member at any depth. */
function dropNulls(value: JsonObject): void {
  for (const [name, member] of Object.entries(value)) {
    if (member === null) delete value[name];
    else if (isObject(member)) dropNulls(member);
  }
}

/** Members of lists of tools and of results of calls. */
const nullable = ["nextCursor", "content", "structuredContent", "isError"] as const;

/** Takes every result as it is. */
const trusting = {
  getValidator<T>() {
    return (data: unknown): JsonSchemaValidatorResult<T> => ({ valid: true, data: data as T, errorMessage: undefined });
  },
};

function transportOf({ command, args, env, cwd, url, headers }: McpServerConfig, onStderr: SessionOptions["onStderr"]) {
  if (command === undefined) {
    const init = headers === undefined ? {} : { requestInit: { headers: { ...headers } } };
    const transport = new StreamableHTTPClientTransport(new URL(url!), { ...init, fetch: boundedFetch }) as Transport;
    return { transport, lastLines: async () => {} };
  }
  const transport = new StdioClientTransport({
    command,
    args: [...args],
    stderr: "pipe",
    maxBufferSize: maxMessageBytes,
    ...(env !== undefined && { env: { ...env } }),
    ...(cwd !== undefined && { cwd }),
  });
  const stderr = transport.stderr as unknown as AsyncIterable<Uint8Array>;
  const reading = readLines(stderr, onStderr);
  return { transport: transport as Transport, lastLines: () => Promise.race([reading, Bun.sleep(lastLinesMs)]) };
}

/** So long its last lines are waited for once it has ended: a program that it started may hold its stderr for ever. */
const lastLinesMs = 100;

/** So much of a line is read; what follows is dropped until it ends. */
const maxLine = 500;

async function readLines(stderr: AsyncIterable<Uint8Array>, onLine: (line: string) => void): Promise<void> {
  const decoder = new TextDecoder();
  let begun = "";
  try {
    for await (const bytes of stderr) {
      const lines = (begun + decoder.decode(bytes, { stream: true })).split("\n");
      begun = lines.pop()!.slice(0, maxLine);
      for (const line of lines) if (line.trim() !== "") onLine(line.trimEnd().slice(0, maxLine));
    }
  } catch {
    // The process is gone.
  }
  if (begun.trim() !== "") onLine(begun.trimEnd());
}

/** A response is cut off where it passes the bound, which the library reads as a broken connection. */
async function boundedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init);
  if (response.body === null) return response;
  let bytes = 0;
  const bounded = response.body.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(piece, controller) {
        bytes += piece.byteLength;
        if (bytes > maxMessageBytes) controller.error(new Error(`a response of more than ${maxMessageBytes} bytes`));
        else controller.enqueue(piece);
      },
    }),
  );
  const { status, statusText, headers } = response;
  return new Response(bounded, { status, statusText, headers });
}

function callError(
  error: unknown,
  { callSeconds, command }: McpServerConfig,
  signal: AbortSignal,
  isOfSession: boolean,
): McpCallError {
  if (signal.aborted) return new McpCallError("cancelled", "the call was cancelled");
  if (error instanceof ProtocolError) return new McpCallError("refused", textOf(error));
  if (error instanceof SdkError && error.code === SdkErrorCode.RequestTimeout)
    return new McpCallError("timeout", `no result within ${callSeconds} s`);
  if (error instanceof SdkError && error.code === SdkErrorCode.InvalidResult)
    return new McpCallError("refused", "a result that is none by the protocol");
  if (isOfSession && error instanceof SdkHttpError && isUnknownSession(error))
    return new McpCallError("expired", "the server no longer knows the session");
  // The connection of a program is lost when it ends; of an address, when a request fails.
  return new McpCallError(command === undefined ? "lost" : "broken", textOf(error));
}

/**
 * https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management; the official examples for TypeScript and
 * earlier ones for Python answer 400 with words about the session.
 */
const isUnknownSession = ({ status, message }: SdkHttpError) =>
  status === 404 || (status === 400 && /\bsession\b/i.test(message));

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error).slice(0, maxLine);
  const cause = isObject(error.cause) ? error.cause["message"] : undefined;
  return (typeof cause === "string" ? `${error.message}: ${cause}` : error.message).slice(0, maxLine);
}
