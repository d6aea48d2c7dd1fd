/** LibreChat's presets. Source: https://github.com/danny-avila/LibreChat/blob/main/packages/data-provider/src/schemas.ts */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import type { PathPart } from "../../../lib/json/schema-errors.ts";
import { formatPath } from "../../../lib/json/schema-errors.ts";
import { words } from "../../../lib/text/words.ts";
import {
  type Draft,
  descriptionOf,
  type Examples,
  type Imported,
  joinTemplate,
  Omissions,
  type SamplingName,
  samplingOf,
  stopsOf,
  withoutEmpty,
} from "./draft.ts";
import type { Importer } from "./importer.ts";
import { modelReference, providerNamed, unknownMaker } from "./models.ts";
import { pictureOf } from "./picture.ts";
import { variablesOf } from "./pieces.ts";
import { readEach } from "./several.ts";
import { ImportError, recordsIn } from "./source.ts";
import { plainPieces } from "./templates/plain.ts";

const samplingNames: Readonly<Record<string, SamplingName>> = {
  ...{ temperature: "temperature", top_p: "top_p", topP: "top_p", frequency_penalty: "frequency_penalty" },
  ...{
    presence_penalty: "presence_penalty",
    max_tokens: "max_tokens",
    maxOutputTokens: "max_tokens",
    maxTokens: "max_tokens",
  },
  ...{ reasoning_effort: "reasoning_effort", verbosity: "verbosity" },
};
/** What it fills in itself. Source: https://www.librechat.ai/docs/features/agents */
const specialVariables = /^(?:current_date|current_datetime|iso_datetime|current_user)$/i;
const prompts = ["promptPrefix", "system", "instructions"];
const known = [
  ...words(`
    presetId conversationId title endpoint endpointType model modelLabel chatGptLabel user _id __v
    defaultPreset order createdAt updatedAt greeting iconURL examples stop thinkingBudget promptCache
  `),
  ...[
    "useResponsesApi",
    "name",
    "description",
    "provider",
    "model_parameters",
    ...prompts,
    ...Object.keys(samplingNames),
  ],
];

export const libreChat: Importer = {
  format: "librechat",
  title: "LibreChat presets (JSON)",
  detects(source) {
    if (!source.looksLikeJson) return false;
    const [first] = recordsIn(source.json);
    const isPreset = first !== undefined && typeof first["endpoint"] === "string";
    return (
      isPreset &&
      ["promptPrefix", "presetId", "modelLabel", "system", "instructions", "model"].some((key) =>
        Object.hasOwn(first, key),
      )
    );
  },
  read(source) {
    const isList = Array.isArray(source.json);
    return readEach(recordsIn(source.json), (preset, at) => [readPreset(preset, isList ? [at] : [])]);
  },
};

function readPreset(preset: JsonObject, path: readonly PathPart[]): Imported {
  const omissions = new Omissions();
  const field = prompts.find((name) => (textOf(preset[name]) ?? "").trim() !== "");
  if (field === undefined)
    throw new ImportError(formatPath([...path, "promptPrefix"]), "is empty: a persona is its system text");
  omissions.addRest(preset, known, path);
  const endpoint = textOf(preset["endpoint"]) ?? "";
  const wanted = textOf(preset["model"]) ?? "";
  const model = modelReference(wanted, providerNamed(endpoint) === undefined ? undefined : endpoint);
  if (model === undefined) {
    omissions.add([...path, "model"], `'${wanted.slice(0, 80)}' at '${endpoint.slice(0, 80)}' ${unknownMaker}`);
  }
  const { address, avatar } = pictureOf(textOf(preset["iconURL"]), formatPath([...path, "iconURL"]), omissions);
  const system = plainPieces(textOf(preset[field])!.trim(), (one) => specialVariables.test(one));
  const names = variablesOf(system);
  for (const one of names)
    omissions.add([...path, field], `{{${one}}} is filled in by LibreChat there, and by callers here`);
  const name = textOf(preset["title"]) || textOf(preset["modelLabel"]) || textOf(preset["chatGptLabel"]) || "";
  const greeting = textOf(preset["greeting"]);
  const draft: Draft = withoutEmpty({
    description: descriptionOf(textOf(preset["description"]) || name, omissions),
    model: model === undefined ? undefined : [model],
    avatar: address,
    greeting: greeting === "" ? undefined : greeting,
    system: joinTemplate(system),
    variables: Object.fromEntries(names.map((one) => [one, {}])),
    examples: examplesOf(preset["examples"], [...path, "examples"], omissions),
    defaults: samplingOf(preset, samplingNames, path, omissions),
    stop: stopsOf(preset["stop"], [...path, "stop"], omissions),
    options: optionsOf(preset),
  });
  return { name, draft, ...(avatar && { avatar }), omitted: omissions.list };
}

function optionsOf(preset: JsonObject): NonNullable<Draft["options"]> {
  const budget = preset["thinkingBudget"];
  return {
    ...(Number.isInteger(budget) && (budget as number) >= -1 && { thinking_budget: budget }),
    ...(preset["promptCache"] === true && { system_cache_control: { type: "ephemeral" } }),
    ...(preset["useResponsesApi"] === true && { use_responses_api: true }),
  } as NonNullable<Draft["options"]>;
}

/** Pairs `{input: {content}, output: {content}}`; one that lacks either is an empty row of a form. */
function examplesOf(value: unknown, path: readonly PathPart[], omissions: Omissions): Examples {
  return listOf(value).flatMap((pair, at): Examples => {
    const [input = "", output = ""] = ["input", "output"].map((side) =>
      textOf(objectOf(isObject(pair) ? pair[side] : undefined)?.["content"]),
    );
    if (input !== "" && output !== "") {
      return [
        { role: "user", content: input },
        { role: "assistant", content: output },
      ];
    }
    if (input !== output) omissions.add([...path, at], "has a question or an answer alone");
    return [];
  });
}
