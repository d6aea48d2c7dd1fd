/**
 * Finds the models that a request's body names beside its own `model`, in the format of any provider: what falls back to others,
 * chooses among them, or has a tool ask another one. A key that may use some models may name no other in any of these places.
 */
import { type Caller, mayUseModel } from "../auth/keys.ts";
import type { KeySurface } from "../config/surfaces.ts";
import type { JsonObject } from "../lib/json/json.ts";
import { formatPath, type PathPart } from "../lib/schema-errors.ts";
import { refuseDoubledWithin } from "../protocols/doubled-names.ts";
import { ApiError } from "../protocols/errors.ts";
import type { Source } from "../protocols/source.ts";
import { inClientsPlace } from "./own-places.ts";

/** Whether a key may use every model of the provider, so that nothing needs to be looked at. */
export function isFree({ models }: Caller, account: string): boolean {
  for (const glob of models)
    if (glob.indexOf("*") === glob.length - 1 && `${account}/`.startsWith(glob.slice(0, -1))) return true;
  return false;
}

/**
 * @param permission what the key must have been given to name any
 * @param isRenamed the places that are named anew on their way up, beside the body's own `model`
 * @throws ApiError model_not_allowed, naming the place; invalid_value for what can be read in two ways
 */
export function checkNamedModels(
  caller: Caller,
  account: string,
  permission: KeySurface,
  source: Source,
  isRenamed: (path: readonly PathPart[]) => boolean = () => false,
): void {
  const isPermitted = caller.surfaces.has(permission);
  if (isPermitted && isFree(caller, account)) return;
  refuseDoubledWithin(source);
  findModels(source.parsed, [], (name, path) => {
    if ((path.length === 1 && path[0] === "model") || isRenamed(path)) return;
    const id = `${account}/${name.replace(/^models\//, "")}`;
    if (!isPermitted || !mayUseModel(caller, id))
      throw inClientsPlace(ApiError.modelNotAllowed(name).at(formatPath(path)));
  });
}

/** Servers differ in whether they heed a name's case, and its underscores. */
const plainName = (name: string) => name.toUpperCase().toLowerCase().replace(/[_-]/g, "");

/**
 * Sources: https://openrouter.ai/docs/features/model-routing, https://openrouter.ai/docs/guides/features/presets,
 * https://platform.openai.com/docs/guides/tools-image-generation, https://platform.claude.com/docs/en/agents-and-tools/tool-use/overview,
 * https://console.groq.com/docs/compound, https://learn.microsoft.com/azure/ai-foundry/openai/references/on-your-data,
 * https://docs.sglang.io/docs/advanced_features/lora
 */
const naming =
  /models?(?:id|name)?s?$|^fallbacks?$|^preset$|^engines?$|^deployment(?:id|name)?$|^(?:lora|adapter)s?(?:path|id|name)?s?$/;

/** What is said and what is declared, in which a name means something else. */
const content: ReadonlySet<string> = new Set([
  ...["messages", "input", "contents", "content", "system", "systeminstruction", "instructions", "prompt", "documents"],
  ...["metadata", "variables", "responseformat", "schema", "responseschema", "responsejsonschema", "function"],
  ...[
    "functions",
    "inputexamples",
    "inputschema",
    "parametersjsonschema",
    "functiondeclarations",
    "format",
    "grammar",
    "logitbias",
  ],
]);

type Visit = (name: string, path: readonly PathPart[]) => void;

function findModels(value: JsonObject, path: readonly PathPart[], visit: Visit): void {
  // The parameters of a function that is said flat, as Responses says it.
  const declares = value["type"] === "function" || value["type"] === "custom";
  for (const name of Object.keys(value)) {
    const plain = plainName(name);
    if (content.has(plain) || (declares && plain === "parameters")) continue;
    walk(value[name], [...path, name], naming.test(plain), visit);
  }
}

function walk(value: unknown, path: readonly PathPart[], isNaming: boolean, visit: Visit): void {
  if (typeof value === "string") {
    if (isNaming) visit(value, path);
  } else if (Array.isArray(value)) {
    for (const [at, one] of value.entries()) walk(one, [...path, at], isNaming, visit);
  } else if (typeof value === "object" && value !== null) {
    if (!isNaming) findModels(value as JsonObject, path, visit);
    else for (const [name, one] of Object.entries(value)) walk(one, [...path, name], true, visit);
  }
}
