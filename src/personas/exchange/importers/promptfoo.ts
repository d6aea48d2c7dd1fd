/**
 * promptfoo's configurations: prompts and providers as personas, tests as their test files. Evals that OpenAI's dashboard exports are of
 * this form. Source: https://www.promptfoo.dev/docs/configuration/reference/
 */
import { isObject, type JsonObject, listOf, objectOf, parseJson, textOf } from "../../../lib/json/json.ts";
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
import { contentText, roleOf } from "./message-content.ts";
import { modelReference, providerNamed, unknownMaker } from "./models.ts";
import { type Piece, variablesOf } from "./pieces.ts";
import { testsOf } from "./promptfoo-tests.ts";
import { functionTool, responseFormatIn } from "./schema-fields.ts";
import { readEach } from "./several.ts";
import { ImportError, type ImportedFile, parseYamlText } from "./source.ts";
import { jinjaPieces } from "./templates/jinja.ts";
import { fromTurns, type TemplateTurn } from "./turns.ts";

const samplingNames: Readonly<Record<string, SamplingName>> = {
  ...{
    temperature: "temperature",
    top_p: "top_p",
    max_tokens: "max_tokens",
    max_completion_tokens: "max_completion_tokens",
  },
  ...{
    max_output_tokens: "max_completion_tokens",
    frequency_penalty: "frequency_penalty",
    presence_penalty: "presence_penalty",
  },
  ...{ seed: "seed", reasoning_effort: "reasoning_effort", verbosity: "verbosity" },
};
const known = [
  "$schema",
  "description",
  "prompts",
  "providers",
  "targets",
  "tests",
  "defaultTest",
  "evaluateOptions",
  "sharing",
  "outputPath",
];

export const promptfoo: Importer = {
  format: "promptfoo",
  title: "promptfoo configuration (YAML, JSON)",
  detects(source) {
    if (source.looksLikeJson) {
      const config = objectOf(source.json);
      return (
        config !== undefined &&
        config["prompts"] !== undefined &&
        (config["tests"] ?? config["providers"]) !== undefined
      );
    }
    if (source.bytes.subarray(0, 8192).includes(0)) return false;
    return /^prompts:/m.test(source.text) && /^(?:providers|targets|tests|scenarios|defaultTest):/m.test(source.text);
  },
  read(source) {
    const config = objectOf(source.looksLikeJson ? source.json : parseYamlText(source.text));
    if (config === undefined) throw new ImportError("", "must be a mapping with prompts");
    const prompts = promptsOf(config["prompts"]);
    if (prompts.length === 0) throw new ImportError("prompts", "is empty");
    return readEach(prompts, (prompt) => {
      const texts = inFile(prompt, source);
      return readEach(texts, (one) => [readPrompt(one, config, source, prompts.length * texts.length > 1)]);
    });
  },
};

type Prompt = { readonly text: unknown; readonly label: string; readonly place: string };

function promptsOf(value: unknown): Prompt[] {
  return (Array.isArray(value) ? value : [value ?? []].flat()).map((prompt, at) => {
    const place = `prompts[${at}]`;
    if (!isObject(prompt)) return { text: prompt, label: "", place };
    return { text: prompt["raw"] ?? prompt["id"], label: textOf(prompt["label"]) ?? "", place };
  });
}

/** Files that are text, or messages. Others are programs and tables. */
const promptFile = /^(?:file:\/\/)?(?:\.\/)?([^:*?{}\n]+\.(?:txt|md|j2|json|jsonl|ya?ml))$/i;

/**
 * A prompt that names a file beside the configuration is what that holds: of a `.txt` the texts between lines `---`, of a `.jsonl` each line.
 * Source: https://www.promptfoo.dev/docs/configuration/prompts/
 * @throws ImportError
 */
function inFile(prompt: Prompt, source: ImportedFile): Prompt[] {
  const { text, place } = prompt;
  const [, path] = (typeof text === "string" && promptFile.exec(text)) || [];
  if (path === undefined) return [prompt];
  const found = source.textBeside(path);
  if (found === undefined) {
    // A text may end as a file's name does.
    if (!(text as string).startsWith("file://")) return [prompt];
    throw new ImportError(place, `names file://${path.slice(0, 80)}, which is not beside the file`);
  }
  const label = prompt.label || path.replace(/^.*\//, "").replace(/\.[^.]*$/, "");
  const texts = textsIn(path, found.replaceAll("\r\n", "\n"), place);
  return texts.map((one, at) => ({
    text: one,
    label: texts.length === 1 ? label : `${label} ${at + 1}`,
    place: `${place} (${path})`,
  }));
}

function textsIn(path: string, text: string, place: string): unknown[] {
  const ending = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  if (/^ya?ml$/.test(ending)) return [parseYamlText(text)];
  const parts = ending === "txt" ? text.split(/^---$/m) : ending === "jsonl" ? text.split("\n") : [text];
  const texts = parts.map((one) => one.trim()).filter((one) => one !== "");
  if (texts.length === 0) throw new ImportError(place, `names ${path.slice(0, 80)}, which is empty`);
  return texts;
}

function readPrompt(prompt: Prompt, config: JsonObject, source: ImportedFile, isOneOfSeveral: boolean): Imported {
  const omissions = new Omissions();
  omissions.addRest(config, known, []);
  const { system, examples, used, question } = fromTurns(turnsOf(prompt), omissions);
  const { model, settings } = modelOf(config["providers"] ?? config["targets"], omissions);
  const description = textOf(config["description"]);
  const name = prompt.label || description || source.name.replace(/\.(?:ya?ml|json)$/i, "");
  if (isOneOfSeveral) omissions.add(prompt.place, "is one of several prompts: each is a persona of its own");
  const tests = testsOf(
    config,
    { variables: used, question: question && joinTemplate(question), asked: variablesOf(question ?? []) },
    omissions,
  );
  const draft: Draft = withoutEmpty({
    description: descriptionOf(description ?? name, omissions),
    model: model === undefined ? undefined : [model],
    system,
    variables: Object.fromEntries(used.map((variable) => [variable, {}])),
    examples,
    ...settings,
  });
  return { name: fileNameOf(name), draft, ...(tests !== undefined && { tests }), omitted: omissions.list };
}

/** A sentence is a long name for a file: its first words do. */
const fileNameOf = (name: string) => name.trim().split(/\s+/).slice(0, 5).join(" ");

function turnsOf({ text, place }: Prompt): TemplateTurn[] {
  if (typeof text === "string" && /^(?:file|https?|exec|package):\/\//.test(text)) {
    throw new ImportError(place, `names ${text.slice(0, 80)}: put the text that it comes to in its place`);
  }
  const chat = typeof text === "string" && /^\s*\[/.test(text) ? parseJson(text) : text;
  if (Array.isArray(chat)) {
    return chat.map((message, at) => {
      const inside = `${place}[${at}]`;
      if (!isObject(message)) throw new ImportError(inside, "must be a message");
      const role = roleOf(message["role"], inside);
      return { role, pieces: piecesOf(contentText(message["content"], `${inside}.content`), inside), place: inside };
    });
  }
  if (typeof text !== "string") throw new ImportError(place, "must be text, or a list of messages");
  return [{ role: "user", pieces: piecesOf(text, place), place }];
}

/** Where a mark has no end on its line, promptfoo takes all of the text as it is. */
const piecesOf = (text: string, place: string): Piece[] =>
  /\{%[^%]*$|\{\{[^}]*$|\{#[^#]*$/m.test(text) && !/\{%\s*raw\s*%\}/.test(text) ? [text] : jinjaPieces({ text, place });

function modelOf(value: unknown, omissions: Omissions) {
  const providers = [value ?? []].flat().map((one) => {
    if (!isObject(one)) return { id: String(one), config: {} };
    const [key, inner] = Object.entries(one)[0] ?? [];
    // Either {id, config}, or the id as the only key.
    return typeof one["id"] === "string"
      ? { id: one["id"], config: objectOf(one["config"]) ?? {} }
      : { id: key ?? "", config: objectOf(objectOf(inner)?.["config"]) ?? {} };
  });
  for (const [at, { id }] of providers.slice(1).entries()) {
    omissions.add(
      `providers[${at + 1}]`,
      `'${id.slice(0, 80)}' is compared with the first: 'troupe personas test --model' does that`,
    );
  }
  const [first] = providers;
  const model = first && providerReference(first.id);
  if (first !== undefined && model === undefined)
    omissions.add("providers[0]", `'${first.id.slice(0, 80)}' ${unknownMaker}`);
  const config = first?.config ?? {};
  const path = ["providers", 0, "config"];
  const others = ["stop", "tools", "response_format"];
  omissions.addRest(config, [...Object.keys(samplingNames), ...others], path, "is no default of personas");
  return {
    model,
    settings: {
      defaults: samplingOf(config, samplingNames, path, omissions),
      stop: stopsOf(config["stop"], [...path, "stop"], omissions),
      tools: toolsOf(config["tools"], omissions),
      response_format: responseFormatIn(config["response_format"], "providers[0].config.response_format", omissions),
    },
  };
}

/** `openai:chat:<model>`, `anthropic:messages:<model>`, `ollama:chat:<model>:<size>`, `openai:<model>` */
function providerReference(id: string): string | undefined {
  const [provider = "", ...rest] = id.split(":");
  if (providerNamed(provider) === undefined) return undefined;
  const kinds = ["chat", "responses", "messages", "completion"];
  const model = (kinds.includes(rest[0] ?? "") ? rest.slice(1) : rest).join(":");
  return modelReference(model, provider);
}

function toolsOf(value: unknown, omissions: Omissions): Draft["tools"] | undefined {
  if (typeof value === "string") omissions.add("providers[0].config.tools", "names a file");
  const tools = listOf(value).flatMap((tool, at) => {
    const inner = objectOf(isObject(tool) ? tool["function"] : undefined);
    const made = functionTool(inner?.["name"], inner?.["description"], inner?.["parameters"], inner?.["strict"]);
    if (made === undefined) omissions.add(`providers[0].config.tools[${at}]`, "is no function");
    return made ?? [];
  });
  return tools.length === 0 ? undefined : tools;
}
