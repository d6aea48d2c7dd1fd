/** Values by a JSON Schema, as far as the API's description uses it, and values that are nearly so. */
import fc from "fast-check";

export type Schema = { readonly [key: string]: unknown };

const anything = fc.jsonValue({ maxDepth: 2 }) as fc.Arbitrary<unknown>;

/** Values that fit, but for patterns of texts and rules in `allOf`, which are met now and then. */
export function fitting(schema: Schema): fc.Arbitrary<unknown> {
  if (schema["const"] !== undefined) return fc.constant(schema["const"]);
  if (Array.isArray(schema["enum"])) return fc.constantFrom(...(schema["enum"] as unknown[]));
  const variants = (schema["anyOf"] ?? schema["oneOf"]) as readonly Schema[] | undefined;
  if (variants !== undefined && schema["type"] === undefined) return fc.oneof(...variants.map(fitting));
  switch (schema["type"]) {
    case "string":
      return fc.string({ minLength: number(schema["minLength"], 0), maxLength: number(schema["maxLength"], 20, 20) });
    case "integer":
      return fc.integer({ min: number(schema["minimum"], -5), max: number(schema["maximum"], 1000) });
    case "number":
      return fc.double({
        min: number(schema["minimum"], -5),
        max: number(schema["maximum"], 1000),
        noNaN: true,
      });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(fitting((schema["items"] as Schema | undefined) ?? {}), {
        minLength: number(schema["minItems"], 0),
        maxLength: Math.max(2, number(schema["minItems"], 0)),
      });
    case "object":
      return objectOf(schema);
    default:
      return anything;
  }
}

const number = (value: unknown, byDefault: number, most = Number.POSITIVE_INFINITY) =>
  Math.min(most, typeof value === "number" ? value : byDefault);

function objectOf(schema: Schema): fc.Arbitrary<unknown> {
  const properties = Object.entries((schema["properties"] ?? {}) as Record<string, Schema>);
  const required = new Set((schema["required"] ?? []) as string[]);
  // Of many properties few are there at once: a request in which all are wrong somehow says little.
  const fields = properties.map(([name, inner]) => {
    const value = fitting(inner).map((one) => [[name, one]]);
    return required.has(name)
      ? value
      : fc.oneof({ weight: 5, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: value });
  });
  const [more] = Object.values((schema["patternProperties"] ?? {}) as Record<string, Schema>);
  const others =
    more === undefined ? fc.constant({}) : fc.dictionary(fc.string({ minLength: 1 }), fitting(more), { maxKeys: 2 });
  return fc
    .tuple(fc.tuple(...fields), others)
    .map(([entries, rest]) => ({ ...rest, ...Object.fromEntries(entries.flat() as [string, unknown][]) }));
}

/** The same with one place, wherever it is, holding something else. */
export function spoilt(value: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> {
  return fc.tuple(value, fc.nat(), anything).map(([whole, at, other]) => {
    const places = [...placesIn(whole)];
    return withAt(whole, places[at % places.length]!, other);
  });
}

type Path = readonly (string | number)[];

function* placesIn(value: unknown, path: Path = []): Generator<Path> {
  yield path;
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) yield* placesIn(inner, [...path, key]);
}

function withAt(value: unknown, [first, ...rest]: Path, other: unknown): unknown {
  if (first === undefined) return other;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string | number, unknown>;
  copy[first] = withAt(copy[first], rest, other);
  return copy;
}
