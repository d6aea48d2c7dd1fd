/** Validates persona files beyond their schema: the rules between fields. */
import { isObject } from "../../lib/json/json.ts";
import type { PathPart } from "../../lib/json/schema-errors.ts";
import { entriesOf, exceeds, type Sampling, spellingsOf } from "../compose/sampling.ts";
import { findMarks, parseTemplate } from "../compose/template.ts";
import { defaultMaxLength, validationError } from "../compose/variables.ts";
import { knowledgeErrors, lorebookErrors, variablesInLorebook } from "../knowledge/rules.ts";
import { charactersOf, maxCharacters, skillTool, tooManyCharacters } from "../skills/schema.ts";
import { variantErrors } from "../versions/variants.ts";
import { parseCreated } from "./created.ts";
import type { RuleErrors } from "./rule-error.ts";
import { misplacedOption, type PersonaContent } from "./schema.ts";

type File = PersonaContent;

/** @param namespace of the file */
export function* validationErrors(file: File, namespace: string): RuleErrors {
  if (file.owned_by !== undefined && file.owned_by !== namespace) {
    yield { path: ["owned_by"], message: `must be ${namespace}, the namespace the file stands in` };
  }
  if (file.created !== undefined && parseCreated(file.created) === undefined) {
    yield { path: ["created"], message: "must be a date such as 2026-11-21 or 2026-11-21T10:00:00Z, or Unix seconds" };
  }
  yield* requestErrors(file);
  yield* unusedErrors(file);
  yield* variantErrors(file, requestErrors);
}

/** The errors of what shapes a request, which a variant may have its own of. */
function* requestErrors(file: File): RuleErrors {
  yield* repeated(["model"], [file.model].flat());
  yield* weightErrors(file);
  yield* systemErrors(file);
  yield* variableErrors(file.variables ?? {});
  yield* exampleErrors(file);
  if (file.knowledge !== undefined) yield* knowledgeErrors(file.knowledge);
  if (file.lorebook !== undefined) yield* lorebookErrors(file.lorebook, file.variables ?? {});
  yield* samplingErrors((file.defaults ?? {}) as Sampling, (file.limits ?? {}) as Sampling);
  for (const key of Object.keys(file.options ?? {})) {
    const message = misplacedOption(key);
    if (message !== undefined) yield { path: ["options", key], at: "key", message };
  }
  yield* repeated(["tools"], toolNames(file), ["function", "name"]);
  if (file.mcp_limits !== undefined && file.mcp === undefined && file.skills === undefined)
    yield { path: ["mcp_limits"], at: "key", message: "belongs beside mcp or skills" };
  if (file.skills !== undefined) yield* skillErrors(file, file.skills);
  if (file.response_format?.type === "json_object" && !/json/i.test(file.system)) {
    // https://platform.openai.com/docs/guides/structured-outputs#json-mode
    yield {
      path: ["response_format"],
      message: "needs the word JSON in system: upstreams refuse json_object without it",
    };
  }
}

/** What holds of skills that stand in a content themselves, too. */
function* skillErrors(file: File, skills: NonNullable<File["skills"]>): RuleErrors {
  const taken = toolNames(file).indexOf(skillTool);
  if (taken >= 0) yield { path: ["tools", taken], message: `'${skillTool}' is the tool by which skills are read` };
  const own = skills.filter((one) => typeof one !== "string");
  yield* repeated(
    ["skills"],
    own.map(({ name }) => name),
    ["name"],
  );
  if (own.reduce((sum, skill) => sum + charactersOf(skill), 0) > maxCharacters)
    yield { path: ["skills"], message: tooManyCharacters };
}

function* weightErrors({ model, strategy, weights }: File): RuleErrors {
  if (weights === undefined) return;
  const { length } = [model].flat();
  if (strategy === undefined) yield { path: ["weights"], at: "key", message: "belongs beside a strategy" };
  if (weights.length !== length)
    yield { path: ["weights"], message: `must have one for each model: ${length}, not ${weights.length}` };
}

const toolNames = ({ tools }: File) => (tools ?? []).map((tool) => tool.function.name);

function* repeated(path: readonly PathPart[], values: readonly string[], within: readonly PathPart[] = []): RuleErrors {
  for (const [at, value] of values.entries()) {
    if (values.indexOf(value) < at) yield { path: [...path, at, ...within], message: `repeats ${value}` };
  }
}

function* systemErrors({ system, variables = {} }: File): RuleErrors {
  for (const [at, { kind, name }] of findMarks(system).entries()) {
    if (kind === "stray") {
      yield { path: ["system"], at, message: "has '{{' without a variable's name; literal braces are written '\\{{'" };
    }
    if (kind === "variable" && !Object.hasOwn(variables, name)) {
      yield { path: ["system"], at, message: `uses {{${name}}}, which variables does not declare` };
    }
  }
  if (!parseTemplate(system).some((part) => "text" in part && part.text.trim() !== "")) {
    yield { path: ["system"], message: "must say something beside its variables" };
  }
}

/** Variables that nothing uses: neither the system text, nor a variant's, nor the lorebook. */
function* unusedErrors({ system, variables = {}, lorebook = [], variants = [] }: File): RuleErrors {
  const texts = [system, ...variants.flatMap((variant) => variant.system ?? [])];
  const marks = texts.flatMap(findMarks);
  const inLorebook = variablesInLorebook(lorebook);
  for (const name of Object.keys(variables)) {
    if (!marks.some((mark) => mark.kind === "variable" && mark.name === name) && !inLorebook.has(name)) {
      yield { path: ["variables", name], at: "key", message: "is declared, but system does not use it" };
    }
  }
}

function* variableErrors(variables: NonNullable<File["variables"]>): RuleErrors {
  for (const [name, variable] of Object.entries(variables)) {
    const path = ["variables", name];
    if (variable.default === undefined) continue;
    if (variable.required) yield { path: [...path, "default"], message: "can't be used: the variable is required" };
    const error = validationError(
      { ...variable, maxLength: variable.max_length ?? defaultMaxLength },
      variable.default,
    );
    if (error !== undefined) yield { path: [...path, "default"], message: error };
  }
}

/** Checks the order that upstreams require: user, then assistant; after tool calls a result for each, then assistant again. */
function* exampleErrors(file: File): RuleErrors {
  const { examples = [] } = file;
  const declared = new Set(toolNames(file));
  let due = "user";
  let unanswered: string[] = [];
  for (const [at, turn] of examples.entries()) {
    const path = ["examples", at];
    if (turn.role !== due) {
      const why = due === "tool" ? `, to answer ${unanswered.join(" and ")}` : "";
      return yield { path: [...path, "role"], message: `must be ${due} here${why}` };
    }
    switch (turn.role) {
      case "user":
        due = "assistant";
        break;
      case "assistant":
        yield* assistantErrors(turn, path, declared);
        unanswered = [...new Set((turn.tool_calls ?? []).map((call) => call.id))];
        due = unanswered.length > 0 ? "tool" : "user";
        break;
      case "tool":
        if (!unanswered.includes(turn.tool_call_id)) {
          return yield { path: [...path, "tool_call_id"], message: `must be ${unanswered.join(" or ")}` };
        }
        unanswered = unanswered.filter((id) => id !== turn.tool_call_id);
        due = unanswered.length > 0 ? "tool" : "assistant";
        break;
    }
  }
  if (due !== "user")
    yield { path: ["examples", examples.length - 1], message: `must be followed by a turn of ${due}` };
}

type AssistantTurn = Extract<NonNullable<File["examples"]>[number], { role: "assistant" }>;

function* assistantErrors(turn: AssistantTurn, path: readonly PathPart[], declared: ReadonlySet<string>): RuleErrors {
  const calls = turn.tool_calls ?? [];
  if (turn.content === undefined && calls.length === 0) yield { path, message: "must have content or tool_calls" };
  const ids = calls.map((call) => call.id);
  yield* repeated([...path, "tool_calls"], ids, ["id"]);
  for (const [at, call] of calls.entries()) {
    const inside = [...path, "tool_calls", at, "function"];
    if (!declared.has(call.function.name))
      yield { path: [...inside, "name"], message: "must be one of this persona's tools" };
    if (!isJsonObject(call.function.arguments)) {
      yield { path: [...inside, "arguments"], message: "must be a mapping, or the JSON text of one" };
    }
  }
}

function isJsonObject(given: unknown): boolean {
  try {
    return isObject(typeof given === "string" ? JSON.parse(given) : given);
  } catch {
    return false;
  }
}

function* samplingErrors(defaults: Sampling, limits: Sampling): RuleErrors {
  for (const [section, sampling] of Object.entries({ defaults, limits })) {
    if (sampling.max_tokens !== undefined && sampling.max_completion_tokens !== undefined) {
      yield {
        path: [section, "max_completion_tokens"],
        message: "stands beside max_tokens, which means the same: give one",
      };
    }
  }
  for (const [field, value] of entriesOf(defaults)) {
    for (const [name, limit] of entriesOf(limits)) {
      if (spellingsOf(field).includes(name) && exceeds(field, value, limit)) {
        yield { path: ["defaults", field], message: `must not be above its limit, ${limit}` };
      }
    }
  }
}
