/** `/mcp`: the personas as tools of an MCP server, with the keys, limits and ledger of every call. */
import type { Caller } from "../auth/keys.ts";
import { admit } from "../call/admit/admit.ts";
import { planAndSend } from "../call/call.ts";
import type { RequestContext } from "../call/context.ts";
import { once } from "../call/once.ts";
import { orchestrator } from "../call/plan/orchestrator.ts";
import { parseCall } from "../call/read/read.ts";
import { readWhole } from "../call/read/request-body.ts";
import { asApiError, bodyTextOf as bodyOf, wholeOf } from "../call/relay/relay.ts";
import { CallEnvelope, Writer } from "../call/relay/writer.ts";
import type { Services } from "../call/services.ts";
import { isObject, type JsonObject, objectOf, parseJson, textOf } from "../lib/json/json.ts";
import { truncate } from "../lib/text/truncate.ts";
import type { ServedResult, ServedTool } from "../mcp/endpoint.ts";
import { ToolNames } from "../mcp/grants.ts";
import type { Persona } from "../personas/persona.ts";
import { chat } from "../protocols/chat/chat.ts";
import { ApiError } from "../protocols/errors.ts";
import { isUpstreamError, type WholeAnswer } from "../upstream/answer.ts";
import { personasFor, prepareNamed } from "./models/models.ts";
import type { Route } from "./routes.ts";

export const mcpRoutes: readonly Route[] = [
  { method: "POST", path: "/mcp", area: "orchestrator", describe: () => ({ hide: true }), run: serveMcp },
];

async function serveMcp(services: Services, context: RequestContext): Promise<Response> {
  const { request } = context;
  const caller = await admit(services, context, "orchestrator");
  checkOrigin(services, request);
  const source = await readWhole(context, services.live.config.limits);
  const { parsed } = source;
  // Revisions since 2025-06-18 have no lists of requests, by which one hit would be many calls.
  if (!isObject(parsed)) throw ApiError.invalidValue("", "The body must be one JSON-RPC request.");
  context.logFields["mcp_method"] = truncate(textOf(parsed["method"]) ?? "");
  context.setIdleTimeout(0);
  const { answerMcp } = await import("../mcp/endpoint.ts");
  await prepareNamed(services, caller);
  const named = namedPersonas(services, caller);
  const answered = await answerMcp(withoutBody(request), parsed, {
    version: services.build.version,
    instructions: "Each tool asks a persona of this server: a model with a role of its own.",
    list: () => [...named].map(([name, persona]) => toolOf(name, persona)),
    call(name, args) {
      const persona = named.get(name);
      return persona && ask(services, context, caller, persona, args);
    },
  });
  return finishedBy(context, answered);
}

/** Its headers alone: the body was read. */
function withoutBody({ url, headers, signal }: Request): Request {
  const address = url.startsWith("/") ? `http://localhost${url}` : url;
  return new Request(address, { method: "POST", headers, signal });
}

/**
 * Checks that a page which calls may call: https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning
 * @throws ApiError host_not_allowed
 */
function checkOrigin({ live }: Services, { headers }: Request): void {
  const origin = headers.get("origin");
  if (origin === null) return;
  const { origins } = live.config.cors;
  const isOwn = URL.canParse(origin) && new URL(origin).host === headers.get("host");
  if (!isOwn && !origins.includes("*") && !origins.includes(origin)) throw ApiError.originNotAllowed(origin);
}

/** A persona, and the name that the key may call it by. */
type Named = readonly [model: string, persona: Persona];

/** The personas that the key may use, by their tools' names. */
function namedPersonas(services: Services, caller: Caller): ReadonlyMap<string, Named> {
  const names = new ToolNames();
  return new Map(personasFor(services, caller).map((one) => [names.plain(`ask_${one[0]}`), one]));
}

function toolOf(name: string, [model, { description, variables }]: Named): ServedTool {
  const filled = Object.fromEntries(
    [...variables].map(([variable, { description, enum: values, maxLength, default: byDefault, required }]) => [
      variable,
      {
        type: "string",
        maxLength,
        ...(description !== undefined && { description }),
        ...(values !== undefined && { enum: values }),
        ...(!required && byDefault !== "" && { default: byDefault }),
      },
    ]),
  );
  const required = [...variables].flatMap(([variable, one]) => (one.required ? [variable] : []));
  const asked = {
    message: { type: "string", description: "What to say to it. It knows nothing of what was said before." },
    ...(variables.size > 0 && {
      variables: { type: "object", properties: filled, required, additionalProperties: false },
    }),
  };
  return {
    name,
    title: model,
    description,
    inputSchema: {
      type: "object",
      properties: asked,
      required: ["message", ...(required.length > 0 ? ["variables"] : [])],
      additionalProperties: false,
    },
  };
}

/** Calls a persona as a chat completion of the same caller. What fails is the tool's result. */
async function ask(
  services: Services,
  context: RequestContext,
  caller: Caller,
  [model]: Named,
  args: JsonObject,
): Promise<ServedResult> {
  try {
    const { message, variables, ...others } = args;
    const [other] = Object.keys(others);
    if (other !== undefined) throw ApiError.invalidValue(other, `${other} is no argument of this tool.`);
    if (message === undefined || message === null || message === "") throw ApiError.missingField("message");
    if (typeof message !== "string") throw ApiError.invalidValue("message", "message must be a string.");
    const parsed = {
      model,
      messages: [{ role: "user", content: message }],
      ...(variables != null && { variables }),
    };
    const source = { body: JSON.stringify(parsed), parsed };
    context.logFields["model"] = truncate(model);
    const admitted = { services, context, surface: orchestrator, caller };
    const asked = await parseCall(admitted, chat, source);
    const writer = new Writer(chat, asked.call.options, new CallEnvelope(services, context, chat, model));
    const scope = { ...admitted, asked, writer };
    return resultOf(wholeOf(await once(scope, context.request.signal, planAndSend)));
  } catch (error) {
    if (context.request.signal.aborted) throw error;
    const { message, code } = asApiError(services, context, error);
    return { text: `${message} (${code})`, isError: true };
  }
}

function resultOf(answer: WholeAnswer): ServedResult {
  const body = parseJson(bodyOf(answer)) as JsonObject;
  if (isUpstreamError(answer) || answer.status >= 300) return { text: JSON.stringify(body), isError: true };
  const [choice] = body["choices"] as JsonObject[];
  const message = objectOf(choice?.["message"]) ?? {};
  const content = textOf(message["content"]) ?? textOf(message["refusal"]);
  // A persona's own functions are its caller's to call.
  return { text: content ?? JSON.stringify(message["tool_calls"] ?? ""), isError: false };
}

/** Ends the request with its answer, be it a stream. */
function finishedBy(context: RequestContext, { status, headers: given, body }: Response): Response {
  const headers = new Headers(given);
  for (const [name, value] of Object.entries(context.headers)) headers.set(name, value);
  if (body === null) {
    context.finish(status);
    return new Response(null, { status, headers });
  }
  const reader = body.getReader();
  let isFinished = false;
  const finish = (end?: "finished" | "cancelled") => {
    if (!isFinished) context.finish(status, end);
    isFinished = true;
  };
  const isStream = headers.get("content-type")?.includes("event-stream") === true;
  const passed = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (!done) return controller.enqueue(value);
      finish(isStream ? "finished" : undefined);
      controller.close();
    },
    cancel(reason) {
      finish("cancelled");
      return reader.cancel(reason);
    },
  });
  return new Response(passed, { status, headers });
}
