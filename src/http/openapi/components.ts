/**
 * What a description says again and again, said once: schemas under the names that they have as their `title`, and headers, parameters and
 * answers that several operations share. Whoever makes a client of it gets a class for each name.
 */
import { STATUS_CODES } from "node:http";

type Json = Readonly<Record<string, unknown>>;
type Components = Record<"schemas" | "headers" | "parameters" | "responses", Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const refTo = (kind: keyof Components, name: string) => ({ $ref: `#/components/${kind}/${name}` });

/** @throws Error where two schemas have one name */
export function withComponents(document: Json): Json {
  const given = (document["components"] ?? {}) as Partial<Components>;
  const components: Components = { schemas: {}, headers: {}, parameters: {}, responses: {} };
  const shapes = new Shapes(components.schemas);
  const found = Object.entries(shapes.moved(document["paths"]) as Record<string, Record<string, Json>>);
  const operations = found.flatMap(([, methods]) => Object.values(methods));
  const shared = new Shared(components, operations);
  const paths = found.map(([path, methods]) => [
    path,
    Object.fromEntries(Object.entries(methods).map(([method, operation]) => [method, shared.moved(operation)])),
  ]);
  const schemas = { ...given.schemas, ...components.schemas };
  return { ...document, components: { ...given, ...components, schemas }, paths: Object.fromEntries(paths) };
}

/** Members whose values are no schemas, whatever they have. */
const examples = new Set(["example", "examples", "default", "const", "enum"]);

class Shapes {
  readonly #schemas: Record<string, unknown>;
  readonly #texts = new Map<string, string>();

  constructor(schemas: Record<string, unknown>) {
    this.#schemas = schemas;
  }

  /** @returns the same with references in place of schemas that have a name */
  moved(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.moved(one));
    if (!isObject(value)) return value;
    const inner = Object.fromEntries(
      Object.entries(value).map(([name, member]) => [
        name,
        examples.has(name) && !isObject((member as Json)?.["schema"]) ? member : this.moved(member),
      ]),
    );
    const { title } = inner;
    const plain = asPlain(inner);
    return typeof title === "string" ? this.#named(title, plain) : plain;
  }

  #named(name: string, schema: Json): Json {
    const text = JSON.stringify(schema);
    const known = this.#texts.get(name);
    if (known !== undefined && known !== text)
      throw new Error(`two schemas of the API's description are named ${name}`);
    this.#texts.set(name, text);
    this.#schemas[name] = schema;
    return refTo("schemas", name);
  }
}

/** Says in the words that generators know what TypeBox says in others: one of several words, and a map. */
function asPlain(schema: Json): Json {
  const { anyOf, patternProperties, ...rest } = schema;
  const words = Array.isArray(anyOf) ? (anyOf as Json[]).map((one) => one["const"]) : [];
  // Clients name the words of an enumeration in capitals.
  const names = new Set(words.map((word) => (typeof word === "string" ? word.toUpperCase() : undefined)));
  if (words.length > 1 && names.size === words.length && !names.has(undefined)) {
    return { ...rest, type: "string", enum: words };
  }
  const [pattern, ...others] = Object.entries(isObject(patternProperties) ? patternProperties : {});
  if (pattern?.[0] === "^(.*)$" && others.length === 0) return { ...rest, additionalProperties: pattern[1] };
  const { properties, ...open } = schema;
  const isOpen = schema["type"] === "object" && isObject(properties) && Object.keys(properties).length === 0;
  return isOpen ? open : schema;
}

/** No schema has such a name: some generators make types of both. */
const parameterName = ({ name }: Json): string =>
  `${String(name)
    .replaceAll(/(?:^|\W+|_)(\w)/g, (_, letter: string) => letter.toUpperCase())
    .replaceAll(/\W/g, "")}Parameter`;

class Shared {
  readonly #components: Components;
  /** How often each answer and each parameter is given, by its text. */
  readonly #times = new Map<string, number>();
  readonly #names = new Map<string, string>();

  constructor(components: Components, operations: readonly Json[]) {
    this.#components = components;
    for (const { responses, parameters = [] } of operations) {
      for (const one of [...Object.values(responses as Json), ...(parameters as Json[])]) this.#count(one);
    }
  }

  #count(value: unknown): void {
    const text = JSON.stringify(value);
    this.#times.set(text, (this.#times.get(text) ?? 0) + 1);
  }

  moved(operation: Json): Json {
    const { parameters, responses } = operation as { parameters?: Json[]; responses: Record<string, Json> };
    const answers = Object.entries(responses).map(([status, answer]) => {
      const whole = { ...answer, headers: this.#headers(answer["headers"] as Json) };
      const name = status === "default" ? "UpstreamError" : STATUS_CODES[status]!.replaceAll(/\W/g, "");
      return [status, this.#isRare(answer) ? whole : this.#put("responses", name, whole)];
    });
    const asked = parameters?.map((one) =>
      this.#isRare(one) ? one : this.#put("parameters", parameterName(one), one),
    );
    return {
      ...operation,
      ...(asked !== undefined && { parameters: asked }),
      responses: Object.fromEntries(answers),
    };
  }

  #isRare(value: unknown): boolean {
    return this.#times.get(JSON.stringify(value)) === 1;
  }

  #headers(headers: Json = {}): Json {
    return Object.fromEntries(Object.entries(headers).map(([name, one]) => [name, this.#put("headers", name, one)]));
  }

  /** Another one of the same name gets a number behind it. */
  #put(kind: "headers" | "parameters" | "responses", name: string, value: unknown): Json {
    const text = `${kind} ${name} ${JSON.stringify(value)}`;
    let found = this.#names.get(text);
    if (found === undefined) {
      const all = this.#components[kind];
      found = name;
      for (let number = 2; Object.hasOwn(all, found); number++) found = `${name}${number}`;
      all[found] = value;
      this.#names.set(text, found);
    }
    return refTo(kind, found);
  }
}
