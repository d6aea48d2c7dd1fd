/** Microsoft's Prompty, first and second version. Sources: https://www.prompty.ai/docs, https://github.com/microsoft/prompty */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import type { PathPart } from "../../../lib/json/schema-errors.ts";
import { words } from "../../../lib/text/words.ts";
import {
  type Draft,
  descriptionOf,
  type Imported,
  Omissions,
  type SamplingName,
  samplingOf,
  stopsOf,
  withoutEmpty,
} from "./draft.ts";
import { type Frontmatter, frontmatterKeys, frontmatterOf } from "./frontmatter.ts";
import type { Importer } from "./importer.ts";
import { modelReference, providerNamed, unknownMaker } from "./models.ts";
import { type Piece, placeAt, type TemplateText, variablesOf } from "./pieces.ts";
import { functionTool, responseFormatIn, responseFormatOf, variablesOfSchema } from "./schema-fields.ts";
import { ImportError, type ImportedFile, parseJsonText, parseYamlText } from "./source.ts";
import { jinjaPieces } from "./templates/jinja.ts";
import { mustachePieces } from "./templates/mustache.ts";
import { fromTurns, type TemplateTurn, usedVariables } from "./turns.ts";

/** A line that begins a message; a heading of Markdown is one too. In its second version `tool:` and `function:` are text. */
const roleLine = /^\s*#?\s*(system|developer|user|assistant|tool|function)[ \t]*(\[[^\]\n]*\])?\s*:\s*$/i;
const rolesOfFirst = ["tool", "function"];
const known = words("name displayName description model inputs inputSchema outputs outputSchema tools template");

/** Both versions' names; the later ones are those of model.options. */
const samplingNames: Readonly<Record<string, SamplingName>> = {
  ...{ temperature: "temperature", top_p: "top_p", max_tokens: "max_tokens", seed: "seed", topP: "top_p" },
  ...{ maxOutputTokens: "max_tokens", max_completion_tokens: "max_completion_tokens" },
  ...{ frequency_penalty: "frequency_penalty", presence_penalty: "presence_penalty" },
  ...{ frequencyPenalty: "frequency_penalty", presencePenalty: "presence_penalty" },
};
const stopNames = ["stop", "stopSequences"];

export const prompty: Importer = {
  format: "prompty",
  title: "Prompty (.prompty)",
  claims: (source) => /\.prompty$/i.test(source.name),
  detects(source) {
    const found = frontmatterKeys(source);
    if (found === undefined) return false;
    const own = ["inputs", "outputs", "sample", "template", "inputSchema", "outputSchema", "authors"];
    const hasRoles = found.body.split("\n").some((line) => roleLine.test(line));
    return hasRoles || found.keys.some((key) => own.includes(key));
  },
  read(source) {
    const omissions = new Omissions();
    const file = frontmatterOf(source) ?? bodyAlone(source);
    const fields = withReferences(file.fields, [], source, omissions) as JsonObject;
    omissions.addRest(fields, known, []);
    const { schema, threads } = inputsOf(fields);
    const turns = turnsOf({ ...file, fields }, threads, omissions);
    const { system, examples, used } = fromTurns(turns, omissions);
    const declared = variablesOfSchema(schema, {}, "inputs", omissions);
    const { model, defaults, stop, format } = modelOf(fields["model"], omissions);
    const name = textOf(fields["name"]) ?? source.name.replace(/\.prompty$/i, "");
    const draft: Draft = withoutEmpty({
      description: descriptionOf(textOf(fields["description"]) ?? textOf(fields["displayName"]), omissions),
      model: model === undefined ? undefined : [model],
      system,
      variables: usedVariables(declared, used, "inputs", omissions),
      examples,
      defaults,
      stop,
      tools: toolsOf(fields["tools"], omissions),
      response_format: outputOf(fields["outputs"] ?? fields["outputSchema"], name) ?? format,
    });
    return [{ name, draft, omitted: omissions.list } satisfies Imported];
  },
};

/** Text alone is the prompt; a front matter that has no end is none. @throws ImportError */
function bodyAlone(source: ImportedFile): Frontmatter {
  const body = source.text.replaceAll("\r\n", "\n");
  if (/^\s*---/.test(body)) throw new ImportError("line 1", "begins fields that no line '---' ends");
  if (body.trim() === "") throw new ImportError("", "is empty");
  return { fields: {}, body, bodyLine: 1 };
}

/** Without a line that names a role, all of it is the system's. */
function turnsOf(file: Frontmatter, threads: readonly string[], omissions: Omissions): TemplateTurn[] {
  const { fields, body, bodyLine } = file;
  const isFirst = isFirstVersion(fields);
  const parts: { role: string; lines: string[]; line: number }[] = [{ role: "system", lines: [], line: bodyLine }];
  for (const [at, line] of body.split("\n").entries()) {
    const [, name, attributes] = roleLine.exec(line) ?? [];
    const role = name?.toLowerCase();
    if (role === undefined || (rolesOfFirst.includes(role) && !isFirst)) parts.at(-1)!.lines.push(line);
    else {
      if (attributes !== undefined) omissions.add(`line ${bodyLine + at}`, `${attributes.slice(0, 60)} is left out`);
      parts.push({ role, lines: [], line: bodyLine + at + 1 });
    }
  }
  const pieces = templateOf(fields, omissions);
  return parts.flatMap(({ role, lines, line }): TemplateTurn[] => {
    const text = lines.join("\n");
    if (text.trim() === "") return [];
    if (rolesOfFirst.includes(role))
      throw new ImportError(`line ${line}`, "is a tool's result, which examples here can't take over");
    const found = pieces({ text, firstLine: line });
    const images = /!\[[^\]]*\]\([^)]+\)/.exec(text);
    if (images !== null) omissions.add(`line ${line}`, "names an image, which stays text here");
    for (const name of variablesOf(found).filter((one) => threads.includes(one))) {
      omissions.add(`inputs.${name}`, "is the conversation, which stands behind the system text and the examples");
    }
    const place = `line ${line}`;
    const own = found.filter((piece) => typeof piece === "string" || !threads.includes(piece.variable));
    return [{ role: role === "developer" ? "system" : (role as TemplateTurn["role"]), pieces: own, place }];
  });
}

const isFirstVersion = (fields: JsonObject): boolean => {
  const model = objectOf(fields["model"]) ?? {};
  return (
    ["configuration", "parameters", "api"].some((key) => model[key] !== undefined) || fields["sample"] !== undefined
  );
};

/** Jinja, if the file does not say otherwise. */
function templateOf({ template }: JsonObject, omissions: Omissions): (source: TemplateText) => Piece[] {
  const { format, type } = objectOf(template) ?? {};
  const kind = textOf(template) ?? textOf(objectOf(format)?.["kind"]) ?? textOf(format) ?? textOf(type) ?? "jinja2";
  if (["jinja", "jinja2", "nunjucks"].includes(kind)) return jinjaPieces;
  if (kind !== "mustache") throw new ImportError("template", `is of ${kind.slice(0, 40)}, which is not read here`);
  return (source) => {
    const { pieces, escaped } = mustachePieces(source);
    if (escaped.length > 0) {
      const names = escaped.map((name) => `{{${name}}}`).join(", ");
      omissions.add(placeAt(source, 0), `${names}: values are escaped for HTML there, and stand as they are here`);
    }
    return pieces;
  };
}

/**
 * Values `${file:path}` and `${env:NAME:default}` in a file's fields. Where nothing tells a value, it is left out; what says where
 * and by which key a model is reached is never looked at.
 */
function withReferences(
  value: unknown,
  path: readonly PathPart[],
  source: ImportedFile,
  omissions: Omissions,
): unknown {
  if (Array.isArray(value)) return value.map((one, at) => withReferences(one, [...path, at], source, omissions));
  if (isObject(value)) {
    const isAccess = (key: string) => path[0] === "model" && (key === "connection" || key === "configuration");
    const entries = Object.entries(value).map(([key, one]) => [
      key,
      isAccess(key) ? one : withReferences(one, [...path, key], source, omissions),
    ]);
    return Object.fromEntries(entries.filter(([, one]) => one !== undefined));
  }
  const [, kind, rest = ""] = typeof value === "string" ? (/^\$\{(env|file):([^}]*)\}$/i.exec(value) ?? []) : [];
  if (kind === undefined) return value;
  const isFile = kind.toLowerCase() === "file";
  const found = isFile ? fileValue(rest, source) : /^[^:]*:(.+)$/.exec(rest)?.[1];
  if (found === undefined)
    omissions.add(
      path,
      isFile ? `names ${rest.slice(0, 80)}, which is not beside it` : "is a variable of the environment",
    );
  return found;
}

function fileValue(path: string, source: ImportedFile): unknown {
  const text = source.textBeside(path);
  if (text === undefined) return undefined;
  if (/\.json$/i.test(path)) return parseJsonText(text, path);
  return /\.ya?ml$/i.test(path) ? parseYamlText(text) : text;
}

/** Inputs are a list, a mapping, or a mapping of values; the first version's `sample` are for trying the prompt, and no defaults. */
function inputsOf(fields: JsonObject): { readonly schema: JsonObject; readonly threads: readonly string[] } {
  const given = fields["inputs"] ?? objectOf(fields["inputSchema"])?.["properties"] ?? {};
  const entries: [string, unknown][] = Array.isArray(given)
    ? given.filter(isObject).map((input) => [textOf(input["name"]) ?? "", input])
    : Object.entries(objectOf(given) ?? {});
  const threads: string[] = [];
  const required: string[] = [];
  const properties: JsonObject = {};
  for (const [name, input] of entries) {
    if (!isObject(input)) properties[name] = { default: input };
    else {
      const kind = textOf(input["kind"]) ?? textOf(input["type"]);
      if (kind === "thread") threads.push(name);
      else {
        const { description, default: fallback, enum: values } = input;
        properties[name] = { type: kind, description, default: fallback, enum: values ?? input["enumValues"] };
        if (input["required"] === true) required.push(name);
      }
    }
  }
  return { schema: { properties, required }, threads };
}

function modelOf(given: unknown, omissions: Omissions) {
  if (typeof given === "string") {
    const model = modelReference(given);
    if (model === undefined) omissions.add("model", unknownMaker);
    return { model, defaults: {}, stop: [], format: undefined };
  }
  const model = objectOf(given) ?? {};
  const configuration = objectOf(model["configuration"]) ?? {};
  const options = objectOf(model["options"]) ?? objectOf(model["parameters"]) ?? {};
  const at = model["options"] === undefined ? "parameters" : "options";
  omissions.addRest(
    model,
    ["id", "provider", "apiType", "api", "configuration", "connection", "options", "parameters"],
    ["model"],
  );
  for (const place of ["connection", "configuration"]) {
    if (isObject(model[place]))
      omissions.add(
        `model.${place}`,
        "says where and by which key: that is in the configuration here, under providers",
      );
  }
  const kind = textOf(model["apiType"]) ?? textOf(model["api"]) ?? "chat";
  if (!["chat", "completion", "responses", "agent"].includes(kind))
    throw new ImportError("model.apiType", `is ${kind}: a persona answers in text`);
  const notSampling = [...stopNames, "response_format"];
  omissions.addRest(
    options,
    [...Object.keys(samplingNames), ...notSampling],
    ["model", at],
    "is no default of personas",
  );
  const name = textOf(model["id"]) ?? textOf(configuration["azure_deployment"]) ?? textOf(configuration["name"]) ?? "";
  const provider = textOf(model["provider"]) ?? textOf(configuration["type"]);
  const reference = modelReference(name.startsWith("${") ? "" : name, provider);
  if (name !== "" && reference === undefined) omissions.add("model", unknownMaker);
  if (provider !== undefined && providerNamed(provider) === undefined)
    omissions.add("model.provider", `'${provider}' is not known here`);
  return {
    model: reference,
    defaults: samplingOf(options, samplingNames, ["model", at], omissions),
    stop: stopsOf(options["stop"] ?? options["stopSequences"], ["model", at, "stop"], omissions),
    format: responseFormatIn(options["response_format"], `model.${at}.response_format`, omissions),
  };
}

function outputOf(outputs: unknown, name: string): Draft["response_format"] | undefined {
  const given = isObject(outputs) && isObject(outputs["properties"]) ? outputs["properties"] : outputs;
  const entries: [string, unknown][] = Array.isArray(given)
    ? given.filter(isObject).map((one) => [textOf(one["name"]) ?? "", one])
    : Object.entries(objectOf(given) ?? {});
  if (entries.length === 0) return undefined;
  return responseFormatOf(objectSchema(entries), name);
}

function objectSchema(entries: readonly (readonly [string, unknown])[]): JsonObject {
  const properties = Object.fromEntries(entries.map(([name, property]) => [name, schemaOf(property)]));
  const required = entries.flatMap(([name, property]) =>
    isObject(property) && property["required"] === false ? [] : name,
  );
  return { type: "object", properties, ...(required.length > 0 && { required }), additionalProperties: false };
}

const kinds: Readonly<Record<string, string>> = { float: "number" };

function schemaOf(property: unknown): JsonObject {
  if (!isObject(property))
    return { type: typeof property === "number" ? "number" : typeof property === "boolean" ? "boolean" : "string" };
  const kind = textOf(property["kind"]) ?? textOf(property["type"]) ?? "string";
  const description = textOf(property["description"]);
  const values = property["enum"] ?? property["enumValues"];
  const described = {
    ...(description !== undefined && { description }),
    ...(Array.isArray(values) && { enum: values }),
  };
  if (kind === "array")
    return {
      type: "array",
      ...(property["items"] !== undefined && { items: schemaOf(property["items"]) }),
      ...described,
    };
  if (kind === "object") {
    const inner = property["properties"];
    const entries = Array.isArray(inner)
      ? inner.filter(isObject).map((one) => [textOf(one["name"]) ?? "", one] as const)
      : Object.entries(objectOf(inner) ?? {});
    return { ...objectSchema(entries), ...described };
  }
  return { type: kinds[kind] ?? kind, ...described };
}

function toolsOf(given: unknown, omissions: Omissions): Draft["tools"] | undefined {
  const tools = listOf(given).flatMap((tool, at) => {
    const fields: JsonObject = isObject(tool) ? tool : {};
    const isFunction = (fields["kind"] ?? fields["type"] ?? "function") === "function";
    const inner = objectOf(fields["function"]) ?? fields;
    const parameters = Array.isArray(inner["parameters"])
      ? objectSchema(inner["parameters"].filter(isObject).map((one) => [textOf(one["name"]) ?? "", one]))
      : inner["parameters"];
    const made = isFunction ? functionTool(inner["name"], inner["description"], parameters) : undefined;
    if (made === undefined) omissions.add(`tools[${at}]`, "is no function with parameters of its own");
    return made ?? [];
  });
  return tools.length === 0 ? undefined : tools;
}
