/** A persona and a caller's request, made into the request for the persona's targets. Pure. */
import { Value } from "@sinclair/typebox/value";
import { isObject } from "../../lib/json/json.ts";
import { isSameList } from "../../lib/json/same-list.ts";
import { truncate } from "../../lib/text/truncate.ts";
import {
  type ChatRequest,
  ChatRequestBody,
  type Message,
  type Metadata,
  type Tool,
} from "../../protocols/chat/schema.ts";
import { ApiError } from "../../protocols/errors.ts";
import { type Additions, withInsertions } from "../knowledge/additions.ts";
import type { Persona } from "../persona.ts";
import { applySampling, samplingFields } from "./sampling.ts";
import { fillTemplate } from "./template.ts";
import { fillIn } from "./variables.ts";

/** Without `model`, which is each target's own. */
export type ComposedRequest = Omit<ChatRequest, "model">;

type Body = Readonly<Record<string, unknown>>;
type Asked = ChatRequest & { readonly variables?: unknown };

/** The public format's bounds on what a persona and a caller give together. */
const maxStops = 4;
const maxMetadata = 16;

/**
 * The caller's fields win over the persona's, but for three things: the system text stands first on every turn, limits
 * hold, and the persona's stops and tools stay.
 * @param request as it was parsed; values for the persona's variables are in `variables` or `extra_body.variables`
 * @param additions of its knowledge and lorebook, for this request
 * @throws ApiError invalid_value or missing_field, naming the variable, tool or field
 */
export function compose(persona: Persona, request: ChatRequest, additions?: Additions): ComposedRequest {
  const { model: _, variables, ...asked } = lifted(request);
  const filled = fillTemplate(persona.system, fillIn(persona.variables, variables));
  const own = persona.skills === undefined ? filled : `${filled}\n\n${persona.skills.text}`;
  const system = additions === undefined ? own : [...additions.before, own, ...additions.after].join("\n\n");
  const messages = additions === undefined ? asked.messages : withInsertions(asked.messages, additions.within);
  const stop = joinStops(persona.stop, asked.stop);
  const tools = joinTools(persona, asked);
  const metadata = joinMetadata(persona.metadata, asked.metadata);
  const store = asked.store ?? persona.store;
  const responseFormat = asked.response_format ?? persona.responseFormat;
  return {
    ...unsaid(persona.options, asked),
    ...asked,
    ...applySampling(asked, persona.defaults, persona.limits),
    messages: arrange({ role: "system", content: system }, persona.examples, messages),
    ...(stop.length > 0 && { stop }),
    ...(tools.length > 0 && { tools }),
    ...(metadata !== undefined && { metadata }),
    ...(store !== undefined && { store }),
    ...(responseFormat !== undefined && { response_format: responseFormat }),
  };
}

/** The values of a persona's variables in a request. @throws ApiError as `compose` does */
export const valuesIn = (persona: Persona, request: ChatRequest): Map<string, string> =>
  fillIn(persona.variables, lifted(request).variables);

/**
 * @param composed of that request
 * @returns the fields that the persona set to other values, and those that it removed, as undefined; not the messages
 */
export function changedFields(request: ChatRequest, composed: ComposedRequest): Record<string, unknown> {
  const before: Body = request;
  const after: Body = composed;
  const changed: Record<string, unknown> = {};
  for (const name of Object.keys({ ...before, ...after })) {
    if (name === "model" || name === "messages" || isSame(before[name], after[name])) continue;
    changed[name] = after[name];
  }
  return changed;
}

/** Lists are joined anew, be it with nothing. */
function isSame(one: unknown, other: unknown): boolean {
  return Array.isArray(one) && Array.isArray(other) ? isSameList<unknown>(one, other) : one === other;
}

/** System messages that open the caller's turns stay next to the persona's: many upstreams take none after the first turn. */
function arrange(system: Message, examples: readonly Message[], messages: readonly Message[]): Message[] {
  const turn = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const opening = turn < 0 ? messages.length : turn;
  return [system, ...messages.slice(0, opening), ...examples, ...messages.slice(opening)];
}

function joinStops(own: readonly string[], asked: ChatRequest["stop"]): string[] {
  if (own.length === 0 && asked == null) return [];
  return [...new Set([own, asked ?? []].flat())].slice(0, maxStops);
}

function joinTools(persona: Persona, { tools = [], functions = [] }: Pick<ChatRequest, "tools" | "functions">): Tool[] {
  if (persona.tools.length === 0) return tools;
  const taken = new Set(persona.tools.map((tool) => tool.function.name));
  const refuse = (param: string, name: string) => {
    if (taken.has(name))
      throw ApiError.invalidValue(param, `${param}: this persona has a tool '${truncate(name)}' already.`);
  };
  tools.forEach((tool, at) => {
    if (tool.type === "function") refuse(`tools[${at}].function.name`, tool.function.name);
    if (tool.type === "custom") refuse(`tools[${at}].custom.name`, tool.custom.name);
  });
  functions.forEach(({ name }, at) => {
    refuse(`functions[${at}].name`, name);
  });
  return [...persona.tools, ...tools];
}

function joinMetadata(own: Metadata | undefined, asked: Metadata | undefined): Metadata | undefined {
  if (own === undefined) return asked;
  const joined = { ...own, ...asked };
  if (Object.keys(joined).length > maxMetadata) {
    const room = maxMetadata - Object.keys(own).length;
    throw ApiError.invalidValue("metadata", `metadata may have at most ${room} entries beside those of this persona.`);
  }
  return joined;
}

const governed = ["variables", "stop", "tools", "response_format", "store", "metadata", ...samplingFields];

/**
 * A client library that merges nothing sends `extra_body` as it is. What this persona has rules for moves to the top level,
 * where the rules hold; a field that is there already wins.
 * @throws ApiError invalid_value for a field of wrong type, which nobody has checked yet
 */
export function lifted(request: ChatRequest): Asked {
  const body: Body = request;
  const literal = body["extra_body"];
  if (!isObject(literal)) return request;
  const moved: Record<string, unknown> = {};
  for (const key of governed) {
    const value = literal[key];
    if (value === undefined || value === null || body[key] !== undefined) continue;
    const schema = ChatRequestBody.properties[key as keyof typeof ChatRequestBody.properties];
    const param = `extra_body.${key}`;
    if (schema !== undefined && !Value.Check(schema, value)) {
      throw ApiError.invalidValue(param, `${param} has a wrong type or is out of range.`);
    }
    moved[key] = value;
  }
  const rest = Object.entries(literal).filter(([key]) => !governed.includes(key));
  return { ...request, ...moved, extra_body: Object.fromEntries(rest) } as Asked;
}

/** Those of the persona's options that the caller gave nowhere: at the top level, in `extra_body`, or under a namespace. */
function unsaid(options: Body, asked: Body): Body {
  if (Object.keys(options).length === 0) return options;
  const literal = asked["extra_body"];
  const bodies = isObject(literal) ? [asked, literal] : [asked];
  const places = [
    ...bodies,
    ...bodies.flatMap((body) =>
      Object.entries(body)
        .filter(isNamespace)
        .map(([, place]) => place),
    ),
  ];
  return Object.fromEntries(
    Object.entries(options).filter(([name]) => !places.some((place) => Object.hasOwn(place as Body, name))),
  );
}

const isNamespace = ([key, value]: [string, unknown]) =>
  !Object.hasOwn(ChatRequestBody.properties, key) && isObject(value);
