/** The variables that a caller may fill into a persona's system text. */
import { isObject } from "../../lib/json/json.ts";
import { formatPath } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { ApiError } from "../../protocols/errors.ts";

export type Variable = {
  readonly description?: string;
  readonly required: boolean;
  /** The value for a caller who gives none. */
  readonly default: string;
  readonly enum?: readonly string[];
  /** The longest value, in characters. */
  readonly maxLength: number;
};

export const defaultMaxLength = 2000;

const nameOf = (variable: string) => formatPath(["variables", variable]);

/**
 * @param given what the request holds in `variables`
 * @returns a value for every declared variable
 * @throws ApiError invalid_value or missing_field, with param `variables.<name>`
 */
export function fillIn(declared: ReadonlyMap<string, Variable>, given: unknown): Map<string, string> {
  if (given !== undefined && (typeof given !== "object" || given === null || Array.isArray(given))) {
    throw ApiError.invalidValue("variables", "variables must be an object of strings.");
  }
  const values = new Map<string, unknown>(Object.entries(given ?? {}));
  for (const name of values.keys()) {
    if (declared.has(name)) continue;
    const known = declared.size === 0 ? "it takes none" : `it takes ${[...declared.keys()].join(", ")}`;
    throw ApiError.invalidValue(nameOf(name), `${nameOf(name)} is not a variable of this persona; ${known}.`);
  }
  return new Map([...declared].map(([name, variable]) => [name, checked(nameOf(name), variable, values.get(name))]));
}

function checked(param: string, variable: Variable, value: unknown): string {
  if (value === undefined || value === null) {
    if (variable.required) throw ApiError.missingField(param);
    return variable.default;
  }
  if (typeof value !== "string") {
    const type = isObject(value) && typeof value["type"] === "string" ? `, not ${truncate(value["type"])}` : "";
    throw ApiError.invalidValue(param, `${param} must be a string${type}.`);
  }
  const error = validationError(variable, value);
  if (error !== undefined) throw ApiError.invalidValue(param, `${param} ${error}.`);
  return value;
}

/** @returns what is wrong with a value, as a sentence without its subject */
export function validationError(variable: Pick<Variable, "enum" | "maxLength">, value: string): string | undefined {
  if (variable.enum !== undefined && !variable.enum.includes(value)) {
    return `must be one of ${variable.enum.map((allowed) => JSON.stringify(allowed)).join(", ")}`;
  }
  // Code points never outnumber code units: the exact count is needed only for what may be too long.
  const isLong = value.length > variable.maxLength && [...value].length > variable.maxLength;
  return isLong ? `must have at most ${variable.maxLength} characters` : undefined;
}
