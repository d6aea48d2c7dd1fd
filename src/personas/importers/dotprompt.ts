/** Google's Dotprompt, so far as a persona's template can say it. Source: https://google.github.io/dotprompt/reference/frontmatter */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../lib/json/json.ts";
import { type Draft, descriptionOf, type Imported, Omissions, samplingOf, stopsOf, withoutEmpty } from "./draft.ts";
import { frontmatterKeys, frontmatterOf } from "./frontmatter.ts";
import type { Importer } from "./importer.ts";
import { modelReference, unknownMaker } from "./models.ts";
import { jsonSchemaOf } from "./picoschema.ts";
import { type Piece, templatePieces } from "./prompt-template.ts";
import { functionTool, responseFormatOf, variablesOfSchema } from "./schema-fields.ts";
import { ImportError } from "./source.ts";
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
  detects(source) {
    if (/\.prompt$/i.test(source.name) && !source.looksLikeJson) return true;
    const found = frontmatterKeys(source);
    if (found === undefined) return false;
    const own = ["input", "output", "config", "toolDefs", "ext"];
    return helpers.test(found.body) || found.keys.some((key) => own.includes(key));
  },
  read(source) {
    const file = frontmatterOf(source) ?? { fields: {}, body: source.text.replaceAll("\r\n", "\n"), bodyLine: 1 };
    const { fields, body, bodyLine } = file;
    const omissions = new Omissions();
    omissions.addRest(fields, known, []);
    const { system, examples, used } = fromTurns(turnsOf(body, bodyLine), omissions);
    const input = objectOf(fields["input"]) ?? {};
    omissions.addRest(input, ["schema", "default"], ["input"]);
    const schema = input["schema"] === undefined ? undefined : jsonSchemaOf(input["schema"], "input.schema");
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
      description: descriptionOf(textOf(fields["description"])),
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

type Special = { readonly role: string } | { readonly history: true };

function turnsOf(body: string, firstLine: number): TemplateTurn[] {
  const roles: Readonly<Record<string, TemplateTurn["role"]>> = { system: "system", user: "user", model: "assistant" };
  const turns: { role: TemplateTurn["role"]; pieces: Piece[]; place: string }[] = [];
  const begin = (role: TemplateTurn["role"], line: number) => turns.push({ role, pieces: [], place: `line ${line}` });
  const pieces = templatePieces<Special & { readonly line: number }>(body, {
    firstLine,
    special(expression, line) {
      if (expression === "history") return { history: true, line };
      const [, role] = /^role\s+["'](\w+)["']$/.exec(expression) ?? [];
      return role === undefined ? undefined : { role, line };
    },
  });
  let isAfterHistory = false;
  begin("user", firstLine);
  for (const piece of pieces) {
    if (typeof piece === "string" || "variable" in piece) turns.at(-1)!.pieces.push(piece);
    // What stands behind the conversation begins a turn of its own: by the format's rules the model's words end there.
    else if ("history" in piece.special) {
      isAfterHistory = true;
      begin("user", piece.special.line);
    } else {
      const { role, line } = piece.special;
      if (!Object.hasOwn(roles, role))
        throw new ImportError(`line ${line}`, `has the role '${role}', which examples can't have`);
      if (isAfterHistory && role === "model")
        throw new ImportError(`line ${line}`, "answers behind the conversation, which a persona can't");
      begin(roles[role]!, line);
    }
  }
  return turns;
}

function outputOf(output: unknown, name: string, omissions: Omissions): Draft["response_format"] | undefined {
  if (!isObject(output)) return undefined;
  omissions.addRest(output, ["format", "schema"], ["output"]);
  if (output["schema"] !== undefined) return responseFormatOf(jsonSchemaOf(output["schema"], "output.schema"), name);
  if (output["format"] === "json")
    omissions.add("output.format", "is json without a schema: write response_format where every model takes it");
  return undefined;
}

function toolsOf(defs: unknown, omissions: Omissions): Draft["tools"] | undefined {
  const tools = listOf(defs).flatMap((def, at) => {
    const { name, description, inputSchema }: JsonObject = isObject(def) ? def : {};
    const place = `toolDefs[${at}]`;
    const parameters = inputSchema === undefined ? undefined : jsonSchemaOf(inputSchema, `${place}.inputSchema`);
    const tool = functionTool(name, description, parameters);
    if (tool === undefined)
      omissions.add(place, "can't be a tool here: its name must be of 1 to 64 letters, digits, '_' and '-'");
    if (isObject(def)) omissions.addRest(def, ["name", "description", "inputSchema"], ["toolDefs", at]);
    return tool ?? [];
  });
  return tools.length === 0 ? undefined : tools;
}
