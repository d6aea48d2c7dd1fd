/** `{{name}}` in prompts, messages and assertions of test files: promptfoo's templates without filters and statements. */
import { isObject } from "../../lib/json/json.ts";
import { findMarks } from "../compose/template.ts";
import { type Piece, variablesOf } from "../exchange/importers/pieces.ts";
import { ImportError } from "../exchange/importers/source.ts";
import { jinjaPieces } from "../exchange/importers/templates/jinja.ts";
import { valueText } from "./suite.ts";

export type Vars = Readonly<Record<string, unknown>>;

/** What keeps a text from being filled in, as a sentence without its subject. */
export class TemplateError extends Error {
  override readonly name = "TemplateError";
}

/** By Nunjucks' rules, which promptfoo has. @throws TemplateError */
function fillText(text: string, vars: Vars): string {
  return piecesOf(text)
    .map((piece) => {
      if (typeof piece === "string") return piece;
      const { variable: name } = piece;
      if (!Object.hasOwn(vars, name)) throw new TemplateError(`uses {{${name}}}, which vars does not have`);
      return valueText(vars[name]);
    })
    .join("");
}

function piecesOf(text: string): Piece[] {
  try {
    return jinjaPieces({ text });
  } catch (error) {
    if (!(error instanceof ImportError)) throw error;
    const isStatement = /^\{[%#]/.test(error.message);
    throw new TemplateError(
      isStatement
        ? "holds a statement ({% or {#); only {{name}} is filled in here"
        : "has '{{' without a plain name; filters are not known here",
    );
  }
}

/** Rounds in which values lead to others, as there. */
const maxRounds = 5;

/** Fills in values of `vars` that name others of them; what they have beside is text. */
export function resolved(vars: Vars): Vars {
  const values: Record<string, unknown> = { ...vars };
  for (let round = 0; round < maxRounds; round += 1) {
    let isSame = true;
    for (const [name, value] of Object.entries(values)) {
      if (typeof value !== "string" || value.length > maxResolved) continue;
      const filled = value.replace(/\{\{\s*(\w+)\s*\}\}/, (mark, other: string) =>
        other !== name && Object.hasOwn(values, other) ? valueText(values[other]) : mark,
      );
      if (filled !== value) isSame = false;
      values[name] = filled;
    }
    if (isSame) break;
  }
  return values;
}

/** A value beyond it names no others. */
const maxResolved = 100_000;

/** Fills in every text of a value; keys stay as they are. @throws TemplateError */
export function fillAll<T>(value: T, vars: Vars): T {
  if (typeof value === "string") return fillText(value, vars) as T;
  if (Array.isArray(value)) return value.map((one) => fillAll(one, vars)) as T;
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fillAll(one, vars)])) as T;
}

/** The names in all templates of a value. */
export function variableNamesIn(value: unknown, names = new Set<string>()): Set<string> {
  if (typeof value === "string") {
    for (const name of namesInText(value)) names.add(name);
  } else if (typeof value === "object" && value !== null)
    for (const one of Object.values(value)) variableNamesIn(one, names);
  return names;
}

function namesInText(text: string): string[] {
  try {
    return variablesOf(piecesOf(text));
  } catch {
    return findMarks(text).flatMap(({ kind, name }) => (kind === "variable" ? name : []));
  }
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
