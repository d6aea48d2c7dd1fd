/** Google's Dotprompt, so far as a persona's template can say it. Source: https://google.github.io/dotprompt/reference/frontmatter */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import { type Draft, descriptionOf, type Imported, Omissions, samplingOf, stopsOf, withoutEmpty } from "./draft.ts";
import { type Frontmatter, frontmatterKeys, frontmatterOf } from "./frontmatter.ts";
import type { Importer } from "./importer.ts";
import { modelReference, unknownMaker } from "./models.ts";
import { jsonSchemaOf } from "./picoschema.ts";
import type { Piece } from "./pieces.ts";
import { functionTool, responseFormatOf, variablesOfSchema } from "./schema-fields.ts";
import { ImportError, type ImportedFile } from "./source.ts";
import { handlebarsPieces } from "./templates/handlebars.ts";
import { fromTurns, type TemplateTurn, usedVariables } from "./turns.ts";

const helpers = /\{\{[~#/>]?\s*(?:role\s|history\b|media\s|section\s|json\s|if\b|each\b|unless\b|ifEquals\b|>)/;
const known = ["name", "description", "model", "config", "input", "output", "toolDefs"];
const samplingNames = {
  temperature: "temperature",
  topP: "top_p",
  maxOutputTokens: "max_tokens",
  seed: "seed",
} as const;

export const dotprompt: Importer = {
  format: "dotprompt",
  title: "Dotprompt (.prompt)",
  claims: (source) => /\.prompt$/i.test(source.name) && !source.looksLikeJson,
  detects(source) {
    const found = frontmatterKeys(source);
    if (found === undefined) return false;
    const own = ["input", "output", "config", "toolDefs", "ext"];
    return helpers.test(found.body) || found.keys.some((key) => own.includes(key));
  },
  read(source) {
    const file = frontmatterOf(source, { hasComments: true }) ?? {
      fields: {},
      body: source.text.replaceAll("\r\n", "\n"),
      bodyLine: 1,
    };
    refuseOthers(file);
    const { fields } = file;
    const omissions = new Omissions();
    omissions.addRest(fields, known, []);
    const { system, examples, used } = fromTurns(turnsOf(file, source, omissions), omissions);
    const input = objectOf(fields["input"]) ?? {};
    omissions.addRest(input, ["schema", "default"], ["input"]);
    const schema = schemaOf(input["schema"], "input.schema", omissions);
    const declared = variablesOfSchema(schema, objectOf(input["default"]) ?? {}, "input", omissions);
    const config = objectOf(fields["config"]) ?? {};
    omissions.addRest(
      config,
      [...Object.keys(samplingNames), "stopSequences"],
      ["config"],
      "is no default of personas",
    );
    const name = textOf(fields["name"]) ?? source.name.replace(/\.prompt$/i, "").replace(/\.[^.]+$/, "");
    const model = modelReference(textOf(fields["model"]) ?? "");
    if (fields["model"] !== undefined && model === undefined) omissions.add("model", unknownMaker);
    const responseFormat = outputOf(fields["output"], name, omissions);
    const draft: Draft = withoutEmpty({
      description: descriptionOf(textOf(fields["description"]), omissions),
      model: model === undefined ? undefined : [model],
      system,
      variables: usedVariables(declared, used, "input", omissions),
      examples,
      defaults: samplingOf(config, samplingNames, ["config"], omissions),
      stop: stopsOf(config["stopSequences"], ["config", "stopSequences"], omissions),
      tools: toolsOf(fields["toolDefs"], omissions),
      response_format: responseFormat,
    });
    return [{ name, draft, omitted: omissions.list } satisfies Imported];
  },
};

/** Other programs have files of that ending too: settings above one line '---', or templates of Jinja. @throws ImportError */
function refuseOthers({ body, bodyLine }: Frontmatter): void {
  const line = (found: number) => `line ${bodyLine + body.slice(0, found).split("\n").length - 1}`;
  const [settings, above = ""] = /^([\s\S]*?)^---[ \t]*$/m.exec(body) ?? [];
  if (settings !== undefined && bodyLine === 1 && /^\s*[A-Za-z_]\w*:/.test(above))
    throw new ImportError(line(above.length), "'---' ends settings that no '---' begins: this is no Dotprompt");
  const statement = body.search(/\{%-?\s*(?:if|for|set|include|macro|raw|end\w+)\b/);
  if (statement >= 0) throw new ImportError(line(statement), "'{%' is a statement of Jinja: this is no Dotprompt");
}

type Special = { readonly place: string } & ({ readonly role: string } | { readonly history: true });

/** What is called as a helper, be it without what it needs. */
const helperNames = /^(?:json|role|media|section|ifEquals|unlessEquals)\b/;

function turnsOf({ body, bodyLine }: Frontmatter, source: ImportedFile, omissions: Omissions): TemplateTurn[] {
  const roles: Readonly<Record<string, TemplateTurn["role"]>> = { system: "system", user: "user", model: "assistant" };
  const turns: { role: TemplateTurn["role"]; pieces: Piece[]; place: string }[] = [];
  const begin = (role: TemplateTurn["role"], place: string) => turns.push({ role, pieces: [], place });
  const pieces = handlebarsPieces<Special>({
    text: body,
    firstLine: bodyLine,
    special(expression, place) {
      if (expression === "history") return { history: true, place };
      const [, role] = /^role\s+["'](\w+)["']$/.exec(expression) ?? [];
      if (role === undefined && helperNames.test(expression))
        throw new ImportError(place, `{{${expression.slice(0, 60)}}} can't be said by a persona's template`);
      return role === undefined ? undefined : { role, place };
    },
    partial: (name, place) => partialOf(name, place, source, omissions),
    note: (place, message) => omissions.add(place, message),
  });
  let isAfterHistory = false;
  begin("user", `line ${bodyLine}`);
  for (const piece of pieces) {
    if (typeof piece === "string" || "variable" in piece) turns.at(-1)!.pieces.push(piece);
    // What stands behind the conversation begins a turn of its own: by the format's rules the model's words end there.
    else if ("history" in piece.special) {
      isAfterHistory = true;
      begin("user", piece.special.place);
    } else {
      const { role, place } = piece.special;
      if (!Object.hasOwn(roles, role))
        throw new ImportError(place, `has the role '${role}', which examples can't have`);
      if (isAfterHistory && role === "model")
        throw new ImportError(place, "answers behind the conversation, which a persona can't");
      begin(roles[role]!, place);
    }
  }
  return turns;
}

/** The text of a file `_name.prompt` beside this one; where there is none it is left out. */
function partialOf(name: string, place: string, source: ImportedFile, omissions: Omissions): string {
  const path = name.replace(/[^/]+$/, "_$&.prompt");
  const text = source.textBeside(path);
  if (text === undefined) omissions.add(place, `{{>${name}}} is left out: there is no ${path} beside this file`);
  return text?.replaceAll("\r\n", "\n") ?? "";
}

/** @returns undefined where there is none, or where it is only named */
function schemaOf(given: unknown, place: string, omissions: Omissions): JsonObject | undefined {
  return given === undefined || given === null ? undefined : jsonSchemaOf(given, place, omissions);
}

function outputOf(output: unknown, name: string, omissions: Omissions): Draft["response_format"] | undefined {
  if (!isObject(output)) return undefined;
  omissions.addRest(output, ["format", "schema"], ["output"]);
  const schema = schemaOf(output["schema"], "output.schema", omissions);
  if (schema !== undefined) return responseFormatOf(schema, name);
  if (output["format"] === "json")
    omissions.add("output.format", "is json without a schema: write response_format where every model takes it");
  return undefined;
}

function toolsOf(defs: unknown, omissions: Omissions): Draft["tools"] | undefined {
  const tools = listOf(defs).flatMap((def, at) => {
    const { name, description, inputSchema }: JsonObject = isObject(def) ? def : {};
    const place = `toolDefs[${at}]`;
    const parameters = schemaOf(inputSchema, `${place}.inputSchema`, omissions);
    const tool = functionTool(name, description, parameters);
    if (tool === undefined)
      omissions.add(place, "can't be a tool here: its name must be of 1 to 64 letters, digits, '_' and '-'");
    if (isObject(def)) omissions.addRest(def, ["name", "description", "inputSchema"], ["toolDefs", at]);
    return tool ?? [];
  });
  return tools.length === 0 ? undefined : tools;
}
