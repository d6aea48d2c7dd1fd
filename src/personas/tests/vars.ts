/** `{{name}}` in prompts, messages and assertions of test files: promptfoo's templates without filters and statements. */
import { isObject } from "../../lib/json/json.ts";
import { fillTemplate, findMarks, parseTemplate } from "../template.ts";
import { plainText } from "./suite.ts";

export type Vars = Readonly<Record<string, unknown>>;

/** What keeps a text from being filled in, as a sentence without its subject. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
}

/** @throws TemplateError */
function fillText(text: string, vars: Vars): string {
  if (/\{[%#]/.test(text)) throw new TemplateError("holds a statement ({% or {#); only {{name}} is filled in here");
  const values = new Map<string, string>();
  for (const { kind, name } of findMarks(text)) {
    if (kind === "stray") throw new TemplateError("has '{{' without a plain name; filters are not known here");
    if (kind !== "variable") continue;
    if (!Object.hasOwn(vars, name)) throw new TemplateError(`uses {{${name}}}, which vars does not have`);
    values.set(name, plainText(vars[name]));
  }
  return fillTemplate(parseTemplate(text), values);
}

/** Fills in every text of a value; keys stay as they are. @throws TemplateError */
export function fillAll<T>(value: T, vars: Vars): T {
  if (typeof value === "string") return fillText(value, vars) as T;
  if (Array.isArray(value)) return value.map((one) => fillAll(one, vars)) as T;
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fillAll(one, vars)])) as T;
}

/** The names in all templates of a value. */
export function namesIn(value: unknown, names = new Set<string>()): Set<string> {
  if (typeof value === "string") {
    for (const { kind, name } of findMarks(value)) if (kind === "variable") names.add(name);
  } else if (typeof value === "object" && value !== null) for (const one of Object.values(value)) namesIn(one, names);
  return names;
}

/** At most so many tests of one entry of a file. */
const maxCombinations = 1000;

/**
 * Makes a set of variables of each combination of the lists in `vars`, whose first value is text. A list of anything else is one value.
 * Source: https://www.promptfoo.dev/docs/configuration/test-cases/
 * @returns each with the names of those that were lists; undefined: there are too many
 */
export function combinationsOf(
  vars: Vars,
): { readonly vars: Vars; readonly expanded: readonly string[] }[] | undefined {
  const expanded = Object.keys(vars).filter((name) => Array.isArray(vars[name]) && typeof vars[name][0] === "string");
  let sets: Vars[] = [vars];
  for (const name of expanded) {
    const values = vars[name] as unknown[];
    if (sets.length * values.length > maxCombinations) return undefined;
    sets = sets.flatMap((set) => values.map((value) => ({ ...set, [name]: value })));
  }
  return sets.map((set) => ({ vars: set, expanded }));
}
