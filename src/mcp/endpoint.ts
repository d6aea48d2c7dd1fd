/**
 * Serves tools by MCP over streamable HTTP, by the official server library: each request by itself, in revision 2026-07-28 and, without
 * sessions, in 2025-11-25 and before. This file is loaded with the first request.
 */
import { createMcpHandler, ProtocolError, ProtocolErrorCode, Server } from "@modelcontextprotocol/server";
import type { JsonObject } from "../lib/json/json.ts";

/** A tool as it is listed. */
export type ServedTool = {
  readonly name: string;
  readonly title?: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
};

export type ServedResult = { readonly text: string; readonly isError: boolean };

type ServedTools = {
  readonly version: string;
  readonly instructions: string;
  list(): readonly ServedTool[];
  /** @returns undefined where there is no such tool. Rejects only with what is unexpected */
  call(name: string, args: JsonObject): Promise<ServedResult> | undefined;
};

/** @param parsed the request's body */
export function answerMcp(request: Request, parsed: JsonObject, tools: ServedTools): Promise<Response> {
  // Nothing is ever announced, so that nobody waits for it.
  const handler = createMcpHandler(() => serverOf(tools), { maxSubscriptions: 1 });
  return handler.fetch(request, { parsedBody: parsed });
}

function serverOf({ version, instructions, list, call }: ServedTools): Server {
  const server = new Server({ name: "troupe", version }, { capabilities: { tools: {} }, instructions });
  server.setRequestHandler("tools/list", () => ({ tools: list().map((tool) => ({ ...tool })) as never }));
  server.setRequestHandler("tools/call", async ({ params }) => {
    const calling = call(params.name, params.arguments ?? {});
    if (calling === undefined)
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool '${params.name.slice(0, 100)}'.`);
    const { text, isError } = await calling;
    return { content: [{ type: "text", text }], ...(isError && { isError }) };
  });
  return server;
}
