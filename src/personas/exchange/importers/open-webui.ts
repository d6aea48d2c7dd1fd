/** Open WebUI's exported models: those that have a base model are personas. Source: https://github.com/open-webui/open-webui/blob/main/backend/open_webui/models/models.py */
import { isObject, type JsonObject, listOf, objectOf, textOf } from "../../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../../lib/json/schema-errors.ts";
import {
  type Draft,
  descriptionOf,
  type Imported,
  joinTemplate,
  Omissions,
  type SamplingName,
  samplingOf,
  stopsOf,
  withoutEmpty,
} from "./draft.ts";
import type { Importer } from "./importer.ts";
import { modelReference, unknownMaker } from "./models.ts";
import { pictureOf } from "./picture.ts";
import { variablesOf } from "./pieces.ts";
import { readEach } from "./several.ts";
import { ImportError, recordsIn } from "./source.ts";
import { plainPieces } from "./templates/plain.ts";

const samplingNames: Readonly<Record<string, SamplingName>> = {
  ...{ temperature: "temperature", top_p: "top_p", max_tokens: "max_tokens", num_predict: "max_tokens", seed: "seed" },
  ...{
    frequency_penalty: "frequency_penalty",
    presence_penalty: "presence_penalty",
    reasoning_effort: "reasoning_effort",
  },
};
/** Fields of the row that say who has it and when, and its ids. */
const ofTheRow = ["id", "name", "base_model_id", "params", "meta", "user_id", "created_at", "updated_at", "is_active"];
const ofTheMeta = ["description", "tags", "profile_image_url"];

export const openWebUi: Importer = {
  format: "open-webui",
  title: "Open WebUI models (JSON)",
  detects(source) {
    if (!source.looksLikeJson) return false;
    const [first] = recordsIn(source.json);
    return (
      first !== undefined &&
      Object.hasOwn(first, "base_model_id") &&
      (Object.hasOwn(first, "params") || Object.hasOwn(first, "meta"))
    );
  },
  read(source) {
    const rows = recordsIn(source.json);
    const omissions = new Omissions();
    const personas = readEach(rows, (row, at) => {
      const path = Array.isArray(source.json) ? [at] : [];
      if (textOf(row["base_model_id"]) !== undefined) return [readRow(row, path)];
      omissions.add([...path, "base_model_id"], "is null: a model itself, and no persona");
      return [];
    });
    const [first, ...others] = personas;
    if (first === undefined) throw new ImportError("", "has no model with a base_model_id: there is no persona in it");
    return [{ ...first, omitted: [...omissions.list, ...first.omitted] }, ...others];
  },
};

function readRow(row: JsonObject, path: readonly PathPart[]): Imported {
  const omissions = new Omissions();
  const params = objectOf(row["params"]) ?? {};
  const meta = objectOf(row["meta"]) ?? {};
  const system = textOf(params["system"]) ?? "";
  if (system.trim() === "")
    throw new ImportError(formatPath([...path, "params", "system"]), "is empty: a persona is its system text");
  omissions.addRest(row, ofTheRow, path);
  omissions.addRest(
    params,
    ["system", "stop", ...Object.keys(samplingNames)],
    [...path, "params"],
    "is no default of personas",
  );
  omissions.addRest(meta, ofTheMeta, [...path, "meta"]);
  const { text, names } = promptOf(system);
  for (const name of names)
    omissions.add([...path, "params", "system"], `{{${name}}} is filled in by Open WebUI there, and by callers here`);
  const base = textOf(row["base_model_id"])!;
  const model = modelReference(base);
  if (model === undefined) omissions.add([...path, "base_model_id"], `'${base.slice(0, 80)}' ${unknownMaker}`);
  const tags = listOf(meta["tags"]).flatMap((tag) => textOf(isObject(tag) ? tag["name"] : tag) || []);
  const { address, avatar } = pictureOf(
    textOf(meta["profile_image_url"]),
    formatPath([...path, "meta", "profile_image_url"]),
    omissions,
  );
  const draft: Draft = withoutEmpty({
    description: descriptionOf(textOf(meta["description"]) || textOf(row["name"]), omissions),
    tags: tags.filter((tag) => tag.length <= 128).slice(0, 64),
    model: model === undefined ? undefined : [model],
    avatar: address,
    system: text,
    variables: Object.fromEntries(names.map((name) => [name, {}])),
    defaults: samplingOf(params, samplingNames, [...path, "params"], omissions),
    stop: stopsOf(params["stop"], [...path, "params", "stop"], omissions),
  });
  return {
    name: textOf(row["name"]) ?? textOf(row["id"]) ?? "",
    draft,
    ...(avatar && { avatar }),
    omitted: omissions.list,
  };
}

/** What it fills in itself, such as `{{CURRENT_DATE}}`, becomes a variable; other braces stay text, as they do there. */
function promptOf(system: string): { readonly text: string; readonly names: string[] } {
  const pieces = plainPieces(system.trim(), (name) => /^[A-Z][A-Z0-9_]*$/.test(name));
  return { text: joinTemplate(pieces), names: variablesOf(pieces) };
}
