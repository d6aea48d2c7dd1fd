/**
 * Tools, their choice and their names. The inner form knows functions: a tool with free text is one with a single string, and
 * the tools of a namespace are functions whose names begin with its own. Both are recognized again by the request's tools.
 * Source: https://platform.openai.com/docs/guides/function-calling
 */
import { isObject, type JsonObject, listOf, objectOf, parseJson, textOf } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { checked } from "../body/checked.ts";
import type { Tool, ToolChoice } from "../chat/schema.ts";
import { customAsFunction, toolName } from "../chat/tools.ts";
import { ApiError } from "../errors.ts";
import { fittingName, maxName, shortened } from "../long-names.ts";
import type { NativeOnly } from "../native-only.ts";
import { refuseKind } from "./check.ts";
import { choiceSchemas, type FunctionTool, itemSchemas, type RequestFields, toolSchemas } from "./schema.ts";

/** A tool as its caller knows it. */
export type CallersTool = { readonly kind: "function" | "custom"; readonly name: string; readonly namespace?: string };

/** The names of a request's tools, in the inner form and as its caller gave them. */
export class ToolNames {
  readonly #byInner = new Map<string, CallersTool>();
  readonly #inner = new Map<string, string>();

  /** @param tools of a request, as they were sent and checked @param added those of its input: one that was named before takes that name's place */
  constructor(tools: unknown, added: readonly unknown[] = []) {
    this.#addAll(listOf(tools), false);
    this.#addAll(added, true);
  }

  /** The number of names in the inner form. */
  get size(): number {
    return this.#byInner.size;
  }

  /** @param name as in an answer @returns the caller's tool of this name; a function where there is none */
  callersTool(name: string): CallersTool {
    return this.#byInner.get(name) ?? { kind: "function", name };
  }

  innerName(name: string, namespace?: string | null): string {
    return this.#inner.get(keyOf(name, namespace)) ?? flatName(name, namespace);
  }

  #addAll(tools: readonly unknown[], isLater: boolean): void {
    for (const tool of tools) {
      const { type, name, tools: within } = objectOf(tool) ?? {};
      if (type !== "namespace") this.#add(tool, isLater);
      else for (const one of listOf(within)) this.#add(one, isLater, textOf(name));
    }
  }

  #add(tool: unknown, isLater: boolean, namespace?: string): void {
    const { type, name } = objectOf(tool) ?? {};
    if (typeof name !== "string" || (type !== "function" && type !== "custom")) return;
    const key = keyOf(name, namespace);
    let inner = isLater ? this.#inner.get(key) : undefined;
    if (inner === undefined) {
      inner = flatName(name, namespace);
      if (this.#byInner.has(inner)) inner = shortened(inner, key);
    }
    this.#byInner.set(inner, { kind: type, name, ...(namespace !== undefined && { namespace }) });
    this.#inner.set(key, inner);
  }
}

const keyOf = (name: string, namespace?: string | null) => JSON.stringify([namespace ?? null, name]);

function flatName(name: string, namespace?: string | null): string {
  if (namespace == null) return fittingName(name);
  const flat = `${namespace}${namespace.endsWith("__") ? "" : "__"}${name}`;
  const isLegal = flat.length <= maxName && /^[a-zA-Z0-9_-]+$/.test(flat);
  return isLegal ? flat : shortened(flat, flat);
}

type InnerTools = {
  readonly tools: Tool[];
  /** The place of each of them in the request. */
  readonly places: string[];
};

type DeclaredTool = NonNullable<RequestFields["tools"]>[number];

/** Tools that an item of the input declares. */
export type AddedTools = { readonly tools: readonly DeclaredTool[]; readonly path: readonly PathPart[] };

export const addedType = "additional_tools";

/** @returns what the items of an input add to the request's tools, in their order @throws ApiError */
export function addedTools(input: readonly unknown[]): readonly AddedTools[] {
  const added: AddedTools[] = [];
  for (const [at, item] of input.entries()) {
    if (!isObject(item) || item["type"] !== addedType) continue;
    const path = ["input", at];
    added.push({ tools: checked(itemSchemas[addedType], item, path).tools, path: [...path, "tools"] });
  }
  return added;
}

/** A tool with no more of it than its name is known by. */
export function namesIn(tool: unknown): JsonObject {
  const { type, name, tools } = objectOf(tool) ?? {};
  return { type, name, ...(type === "namespace" && { tools: listOf(tools).map(namesIn) }) };
}

/**
 * @param tools of the request, and those that its input adds: of two by one name the later one counts
 * @param nativeOnly takes those that a provider runs itself @throws ApiError
 */
export function innerTools(
  tools: RequestFields["tools"],
  added: readonly AddedTools[],
  names: ToolNames,
  nativeOnly: NativeOnly,
): InnerTools {
  const placed = placedTools(tools ?? [], ["tools"], names, nativeOnly);
  for (const one of added) {
    for (const later of placedTools(one.tools, one.path, names, nativeOnly)) {
      const at = placed.findIndex(({ tool }) => toolName(tool) === toolName(later.tool));
      if (at < 0) placed.push(later);
      else placed[at] = later;
    }
  }
  return { tools: placed.map(({ tool }) => tool), places: placed.map(({ path }) => formatPath(path)) };
}

type PlacedTool = { readonly tool: Tool; readonly path: readonly PathPart[] };

function placedTools(
  tools: readonly DeclaredTool[],
  place: readonly PathPart[],
  names: ToolNames,
  nativeOnly: NativeOnly,
): PlacedTool[] {
  return tools.flatMap((tool, at) => {
    const path = [...place, at];
    if (!Object.hasOwn(toolSchemas, tool.type)) {
      const what = `'${truncate(tool.type)}' is a tool that only providers with this API of their own have.`;
      nativeOnly.tool(formatPath([...path, "type"]), what, {
        type: tool.type,
        declared: tool as JsonObject,
        path: formatPath(path),
      });
      return [];
    }
    if (tool.type !== "namespace") return [{ tool: innerTool(tool, path, names), path }];
    const { name: namespace, tools: within } = checked(toolSchemas.namespace, tool, path);
    return within.map((one, index) => {
      const inside = [...path, "tools", index];
      if (one.type !== "function" && one.type !== "custom") refuseKind(one.type, inside, ["function", "custom"]);
      return { tool: innerTool(one, inside, names, namespace), path: inside };
    });
  });
}

function innerTool(tool: { type: string }, path: readonly PathPart[], names: ToolNames, namespace?: string): Tool {
  if (tool.type === "function") return functionTool(checked(toolSchemas.function, tool, path), names, namespace);
  const custom = checked(toolSchemas.custom, tool, path);
  const name = names.innerName(custom.name, namespace);
  return { type: "function", function: customAsFunction({ ...custom, name }) };
}

/**
 * Left out, `strict` means yes to the makers of this format, who then rewrite the schema; elsewhere a schema that is not made
 * for it is refused.
 */
function functionTool(
  { name, description, parameters, strict }: FunctionTool,
  names: ToolNames,
  namespace?: string,
): Tool {
  return {
    type: "function",
    function: {
      name: names.innerName(name, namespace),
      ...(description != null && { description }),
      parameters: parameters ?? { type: "object", properties: {} },
      ...(strict != null && { strict }),
    },
  };
}

/** A custom tool's free text as the arguments of its function. */
export const freeTextArguments = (input: string) => JSON.stringify({ input });

/** @param written arguments, as a model gave them @returns the free text in them; all of it where there is none */
export function freeTextIn(written: string): string {
  const said = parseJson(written);
  return (isObject(said) ? textOf(said["input"]) : textOf(said)) ?? written;
}

/** @throws ApiError */
export function innerChoice(choice: RequestFields["tool_choice"], names: ToolNames): ToolChoice | undefined {
  if (choice == null) return undefined;
  if (typeof choice === "string") return choice as ToolChoice;
  const path = ["tool_choice"];
  switch (choice.type) {
    case "function":
    case "custom": {
      const { name, ...rest } = checked(choiceSchemas[choice.type], choice, path);
      const inner = names.innerName(name, textOf((rest as JsonObject)["namespace"]));
      return { type: "function", function: { name: inner } };
    }
    case "allowed_tools": {
      const { mode, tools } = checked(choiceSchemas.allowed_tools, choice, path);
      const allowed = tools.map((tool, at) => allowedTool(tool, [...path, "tools", at], names));
      return { type: "allowed_tools", allowed_tools: { mode, tools: allowed } };
    }
    default:
      // The choice of a tool that is hosted elsewhere.
      return undefined;
  }
}

function allowedTool(tool: JsonObject, path: readonly PathPart[], names: ToolNames): JsonObject {
  if (tool["type"] !== "function" && tool["type"] !== "custom") return tool;
  const name = textOf(tool["name"]);
  if (name === undefined) throw ApiError.missingField(formatPath([...path, "name"]));
  return { type: "function", function: { name: names.innerName(name, textOf(tool["namespace"])) } };
}
