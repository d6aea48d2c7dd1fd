/**
 * Prompt objects of OpenAI's Responses, one or several, with their versions. What the dashboard exports and what people kept differ in
 * form, so the fields are those of a request: https://platform.openai.com/docs/api-reference/responses/create
 */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
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
import type { Importer } from "./importer.ts";
import { contentText, roleOf } from "./message-content.ts";
import { modelReference } from "./models.ts";
import { functionTool, responseFormatIn, variablesOfSchema } from "./schema-fields.ts";
import { readEach } from "./several.ts";
import { ImportError, recordsIn } from "./source.ts";
import { plainPieces, unnamedMarks } from "./templates/plain.ts";
import { fromTurns, type TemplateTurn, usedVariables } from "./turns.ts";

const samplingNames: Readonly<Record<string, SamplingName>> = {
  temperature: "temperature",
  top_p: "top_p",
  max_output_tokens: "max_completion_tokens",
  max_tokens: "max_completion_tokens",
};
const idOf = (value: JsonObject): string | undefined => {
  const id = textOf(value["id"]) ?? textOf(value["prompt_id"]) ?? textOf(objectOf(value["prompt"])?.["id"]);
  return id !== undefined && /^pmpt_[A-Za-z0-9_-]{1,120}$/.test(id) ? id : undefined;
};
const messageFields = ["messages", "input", "prompt", "template"];
const known = [
  ...words("id prompt_id object version versions name title description created_at updated_at created is_default"),
  ...[
    "model",
    "instructions",
    "variables",
    "tools",
    "text",
    "response_format",
    "reasoning",
    "stop",
    ...messageFields,
    ...Object.keys(samplingNames),
  ],
];

export const openAiPrompt: Importer = {
  format: "openai-prompt",
  title: "OpenAI prompt objects (JSON)",
  detects(source) {
    return source.looksLikeJson && promptsIn(source.json).some((prompt) => idOf(prompt) !== undefined);
  },
  read(source) {
    const prompts = promptsIn(source.json);
    const placed = prompts.map((prompt, at) => ({ prompt, place: prompts.length === 1 ? "" : `[${at}]` }));
    const byId = Map.groupBy(placed, ({ prompt, place }) => idOf(prompt) ?? place);
    const imported = readEach([...byId], ([id, same]) =>
      readVersions(
        id,
        same.flatMap(({ prompt, place }) => versionsOf(prompt, place)),
      ),
    );
    if (imported.length === 0) throw new ImportError("", "has no prompt whose id begins with pmpt_");
    return imported;
  },
};

function promptsIn(value: unknown): JsonObject[] {
  const inner = isObject(value) ? (value["data"] ?? value["prompts"] ?? value) : value;
  return recordsIn(inner);
}

type Version = { readonly id: string; readonly version: string; readonly fields: JsonObject; readonly place: string };

/** A prompt may hold its versions, each with the fields that it changed. */
function versionsOf(prompt: JsonObject, place: string): Version[] {
  const id = idOf(prompt);
  if (id === undefined) throw new ImportError(place, "has no id that begins with pmpt_");
  const { versions, ...own } = prompt;
  const list = listOf(versions).filter(isObject);
  const versionOf = (fields: JsonObject, otherwise: string) =>
    String(fields["version"] ?? objectOf(fields["prompt"])?.["version"] ?? otherwise);
  if (list.length === 0) return [{ id, version: versionOf(prompt, "1"), fields: own, place }];
  const before = place === "" ? "" : `${place}.`;
  return list.map((version, at) => ({
    id,
    version: versionOf(version, String(at + 1)),
    fields: { ...own, ...version },
    place: `${before}versions[${at}]`,
  }));
}

/** The newest version is the persona that answers the prompt; older ones stand beside it, to be made versions of it. */
function readVersions(id: string, versions: readonly Version[]): Imported[] {
  const sorted = versions.toSorted((one, other) => other.version.localeCompare(one.version, "en", { numeric: true }));
  // Where the newest can't be read, an older one must not answer in its place.
  const newest = readVersion(sorted[0]!);
  return readEach(sorted, (version, at) => {
    if (at === 0) {
      const prompt_ids = { [id]: { default: "current", [version.version]: "current" } };
      return [{ ...newest, draft: { ...newest.draft, prompt_ids } }];
    }
    const imported = readVersion(version);
    const message = `is older than version ${sorted[0]!.version}: give its version or a label under prompt_ids of the newest to go on answering it`;
    const omitted = [{ place: `version ${version.version}`, message }, ...imported.omitted];
    return [{ ...imported, name: `${imported.name}-v${version.version}`, omitted }];
  });
}

function readVersion({ id, fields, place }: Version): Imported {
  const omissions = new Omissions();
  const at = (name: string) => (place === "" ? name : `${place}.${name}`);
  omissions.addRest(fields, known, place === "" ? [] : [place]);
  const { system, examples, used } = fromTurns(turnsOf(fields, at, omissions), omissions);
  const wanted = textOf(fields["model"]) ?? "";
  const reasoning = objectOf(fields["reasoning"]) ?? {};
  const text = objectOf(fields["text"]) ?? {};
  omissions.addRest(reasoning, ["effort"], [at("reasoning")]);
  const given = { ...fields, effort: reasoning["effort"], verbosity: text["verbosity"] };
  const names = { ...samplingNames, effort: "reasoning_effort", verbosity: "verbosity" } as const;
  const name = textOf(fields["name"]) ?? textOf(fields["title"]) ?? id;
  const draft: Draft = withoutEmpty({
    description: descriptionOf(textOf(fields["description"]) ?? name, omissions),
    model: wanted === "" ? undefined : [modelReference(wanted) ?? `openai/${wanted}`],
    system,
    variables: usedVariables(
      declaredVariables(fields["variables"], at("variables"), omissions),
      used,
      at("variables"),
      omissions,
    ),
    examples,
    defaults: samplingOf(given, names, place === "" ? [] : [place], omissions),
    stop: stopsOf(fields["stop"], place === "" ? ["stop"] : [place, "stop"], omissions),
    tools: toolsOf(fields["tools"], at("tools"), omissions),
    response_format: responseFormatIn(text["format"] ?? fields["response_format"], at("text.format"), omissions),
  });
  return { name, draft, omitted: omissions.list };
}

function turnsOf(fields: JsonObject, at: (name: string) => string, omissions: Omissions): TemplateTurn[] {
  const pieces = (text: string, place: string) => {
    const read = plainPieces(text);
    for (const mark of new Set(unnamedMarks(read)))
      omissions.add(place, `${mark} stays text: a variable's name is of letters, digits and '_'`);
    return read;
  };
  const turns: TemplateTurn[] = [];
  const instructions = fields["instructions"];
  if (typeof instructions === "string")
    turns.push({ role: "system", pieces: pieces(instructions, at("instructions")), place: at("instructions") });
  for (const name of ["instructions", ...messageFields]) {
    const value = fields[name];
    if (name !== "instructions" && typeof value === "string")
      turns.push({ role: "user", pieces: pieces(value, at(name)), place: at(name) });
    for (const [index, message] of listOf(value).entries()) {
      const place = `${at(name)}[${index}]`;
      if (!isObject(message)) throw new ImportError(place, "must be a message");
      const role = roleOf(message["role"], place);
      turns.push({ role, pieces: pieces(contentText(message["content"], `${place}.content`), place), place });
    }
  }
  return turns;
}

/** Variables are a list of names or of objects, or a mapping to defaults or to objects. */
function declaredVariables(value: unknown, place: string, omissions: Omissions) {
  const entries = Array.isArray(value)
    ? value.map((one): [string, unknown] =>
        isObject(one) ? [textOf(one["name"]) ?? "", one] : [String(one), undefined],
      )
    : Object.entries(objectOf(value) ?? {});
  const properties: JsonObject = {};
  const defaults: JsonObject = {};
  for (const [name, given] of entries) {
    const fields: JsonObject = isObject(given) ? given : {};
    properties[name] = { type: "string", description: fields["description"] };
    const fallback = isObject(given) ? (given["default"] ?? given["default_value"]) : given;
    if (fallback !== undefined && fallback !== null) defaults[name] = fallback;
  }
  return variablesOfSchema({ properties }, defaults, place, omissions);
}

function toolsOf(value: unknown, place: string, omissions: Omissions): Draft["tools"] | undefined {
  const tools = listOf(value).flatMap((tool, at) => {
    const fields: JsonObject = isObject(tool) ? { ...tool, ...objectOf(tool["function"]) } : {};
    const made =
      fields["type"] === "function"
        ? functionTool(fields["name"], fields["description"], fields["parameters"], fields["strict"])
        : undefined;
    if (made === undefined)
      omissions.add(
        `${place}[${at}]`,
        `is a tool that OpenAI runs (${String(fields["type"]).slice(0, 40)}): options.server_tools can name it`,
      );
    return made ?? [];
  });
  return tools.length === 0 ? undefined : tools;
}
