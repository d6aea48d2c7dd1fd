/** `${NAME}` and `${NAME:-default}` in the strings of a config file; `$${` is a literal `${`. */
import type { TSchema } from "@sinclair/typebox";
import type { PathPart } from "../lib/json/schema-errors.ts";
import type { FaultReporter } from "./report.ts";
import type { Variables } from "./variables.ts";

const reference = /\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}|\$\{/g;

/**
 * Puts the variables' values in place. What only `null` or an empty reference stands for is left out, as if its key
 * were not there: the default applies.
 * @param schema says where a number or a truth value is wanted, so that `port: ${PORT}` works
 * @param standIn gives what stands for variables that are not set. Absent: each is reported
 */
export function resolveVariables(
  value: unknown,
  schema: TSchema | undefined,
  variables: Variables,
  report: FaultReporter,
  standIn?: (path: readonly PathPart[]) => string,
): unknown {
  const resolve = (inner: unknown, wanted: TSchema | undefined, path: readonly PathPart[]): unknown => {
    if (typeof inner === "string") return resolveText(inner, wanted, path);
    if (Array.isArray(inner)) return inner.map((item, at) => resolve(item, itemsOf(wanted), [...path, at]) ?? item);
    if (typeof inner !== "object" || inner === null) return inner;
    const entries = Object.entries(inner).flatMap(([key, one]): [string, unknown][] => {
      const child = propertyOf(wanted, key);
      const result = resolve(one, child, [...path, key]);
      return result === undefined || (result === null && child !== undefined) ? [] : [[key, result]];
    });
    return Object.fromEntries(entries);
  };

  const resolveText = (text: string, wanted: TSchema | undefined, path: readonly PathPart[]): unknown => {
    if (!text.includes("${")) return text;
    let literal = true;
    const resolved = text.replace(reference, (whole, name?: string, hasDefault?: string, byDefault = "") => {
      if (whole === "$${") return "${";
      literal = false;
      if (name === undefined) {
        report(
          path,
          "has a '${' that is no reference: write ${NAME} or ${NAME:-default}, or $${ for the two characters",
        );
        return "";
      }
      const found = variables.find(name)?.value;
      if (hasDefault !== undefined) return found === undefined || found === "" ? byDefault : found;
      if (found === undefined && standIn !== undefined) return text === whole ? standIn(path) : "unset";
      if (found === undefined) report(path, `refers to ${name}, which is not set; \${${name}:-…} would give a default`);
      return found ?? "";
    });
    if (literal) return resolved;
    return resolved === "" ? undefined : fromText(resolved, wanted);
  };

  return resolve(value, schema, []);
}

/**
 * A value as text gives it (a variable, a flag): a number or a truth value where the schema wants one, a list where it
 * wants that, separated by commas. What does not read so stays text, for the schema to reject.
 */
export function fromText(text: string, schema: TSchema | undefined): unknown {
  switch (schema?.["type"]) {
    case "integer":
    case "number":
      return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text;
    case "boolean":
      return text === "true" ? true : text === "false" ? false : text;
    case "array":
      return text
        .split(",")
        .map((item) => item.trim())
        .filter((item) => item !== "");
    default:
      return text;
  }
}

function propertyOf(schema: TSchema | undefined, key: string): TSchema | undefined {
  const object = variantOf(schema, "object");
  const properties = object?.["properties"] as Record<string, TSchema> | undefined;
  if (properties !== undefined) return Object.hasOwn(properties, key) ? properties[key] : undefined;
  return Object.values((object?.["patternProperties"] ?? {}) as Record<string, TSchema>)[0];
}

function itemsOf(schema: TSchema | undefined): TSchema | undefined {
  return variantOf(schema, "array")?.["items"];
}

function variantOf(schema: TSchema | undefined, type: string): TSchema | undefined {
  const variants = (schema?.["anyOf"] ?? [schema]) as (TSchema | undefined)[];
  return variants.find((variant) => variant?.["type"] === type);
}
