/**
 * How each provider handles each request field, as data: `test/fixtures/<provider>/fields.json`, and
 * `test/fixtures/<provider>-<mode>/fields.json` for another of its modes, which the `extras` in that file switch on.
 * `bun test/helpers/request-fields.ts` writes `docs/fields.md` from it; `test/providers/fields.test.ts` proves it.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { ChatRequestBody } from "../../src/protocols/chat/schema.ts";
import { providers } from "../../src/providers/registry.ts";
import { fieldFile, fixtureFamilies } from "./fixtures.ts";

export type FieldHandling = {
  /** A key of the request, `messages.<role>…` for what stands in messages, or `extras.<option>`. */
  readonly field: string;
  /**
   * passed: sent under the same name with the same value; mapped: sent in another form;
   * dropped: not sent; refused: answered with a 400 of ours that names the field.
   */
  readonly handling: "passed" | "mapped" | "dropped" | "refused";
  /** Where it goes in the upstream's body, `[]` for any element (`contents[].parts[].inlineData`), or `url`, or `headers.<name>`; "" for nowhere. */
  readonly to: string;
  /** The rule, in a sentence or less. */
  readonly note: string;
  /** The field's value; for `messages.…` the whole array of messages. */
  readonly example: unknown;
  /** Fields that this one needs beside it, e.g. `{"logprobs":true}`. */
  readonly with?: Record<string, unknown>;
  /** The same without the field, where leaving out the field is not enough: messages that give the same upstream body. */
  readonly without?: unknown;
  /** Where the rule depends on it; the provider's first known model otherwise. */
  readonly model?: string;
};

/** `like` takes over another provider's rows, but for the fields it names itself and options that are not its own. */
type FieldFile =
  | readonly FieldHandling[]
  | { readonly like: string; readonly except: readonly FieldHandling[] }
  | { readonly extras: Record<string, unknown>; readonly rows: readonly FieldHandling[] };

/** Turned into today's form, or answered, before any provider sees the request. */
export const handledBefore = ["functions", "function_call", "messages.function", "previous_response_id"] as const;

/** What must be said of every provider. */
export const fieldsToCover: readonly string[] = [
  ...Object.keys(ChatRequestBody.properties).filter((key) => key !== "messages" && !isHandledBefore(key)),
  "messages.system",
  "messages.developer",
  "messages.user",
  "messages.user.name",
  "messages.user.text",
  "messages.user.image_url",
  "messages.user.image_url.data",
  "messages.user.input_audio",
  "messages.user.file",
  "messages.user.file_id",
  "messages.assistant",
  "messages.assistant.refusal",
  "messages.assistant.tool_calls",
  "messages.assistant.custom_tool_calls",
  "messages.assistant.audio",
  "messages.assistant.reasoning_content",
  "messages.assistant.thinking_blocks",
  "messages.assistant.extra_content",
  "messages.tool",
  "messages.tool.image_url",
  "tools.custom",
  "tools.other",
  "tool_choice.function",
  "tool_choice.allowed_tools",
  "response_format.json_object",
  "response_format.json_schema",
];

function isHandledBefore(key: string): boolean {
  return (handledBefore as readonly string[]).includes(key);
}

export function readFieldHandling(provider: string): FieldHandling[] {
  const file = readFieldFile(provider);
  if ("rows" in file) return [...file.rows];
  if (!("like" in file)) return [...file];
  const own = new Set(file.except.map(({ field }) => field));
  const options = providers.find(({ name }) => name === provider)!.extras.properties;
  const shared = readFieldHandling(file.like).filter(
    ({ field }) => !own.has(field) && (!field.startsWith("extras.") || field.slice("extras.".length) in options),
  );
  return [...file.except, ...shared];
}

function readFieldFile(family: string): FieldFile {
  return JSON.parse(readFileSync(fieldFile(family), "utf8"));
}

export const fieldsDocPath = resolve(import.meta.dir, "../../docs/fields.md");

export function renderFieldsDoc(): string {
  const names = fixtureFamilies().map(({ folder }) => folder);
  const full = names.filter((name) => !("like" in readFieldFile(name)));
  const others = names.filter((name) => !full.includes(name));
  return `${[
    "# Request fields by provider",
    "",
    "Written by `bun test/helpers/request-fields.ts` from the `fields.json` of each provider; a test sends every example through",
    "its provider and checks this table, so it can't drift from the code.",
    "",
    "- **as is**: sent under the same name with the same value. If the model can't do it, the upstream's own error comes back unchanged.",
    "- **→ `field`**: sent in another form, to that place of the upstream's body.",
    "- **dropped**: not sent, because the upstream has no such thing and the answer keeps its form without it.",
    "- **400**: refused by Troupe with an error that names the field.",
    "",
    `Handled by Troupe itself, for every provider: ${handledBefore.map(code).join(", ")}. Fields that are not listed are sent as they are where the`,
    "upstream speaks this format, and are left out elsewhere.",
    "",
    `| field | ${full.join(" | ")} |`,
    `| --- |${" --- |".repeat(full.length)}`,
    ...fullRows(full),
    "",
    ...full.flatMap((name) => ["", `## ${name}`, "", ...notesOf(readFieldHandling(name))]),
    ...others.flatMap((name) => ["", `## ${name}`, "", ...exceptions(name)]),
  ]
    .join("\n")
    .replace(/\n{3,}/g, "\n\n")
    .trimEnd()}\n`;
}

function fullRows(names: readonly string[]): string[] {
  const byProvider = names.map((name) => readFieldHandling(name));
  const fields = [...new Set([...fieldsToCover, ...byProvider.flat().map(({ field }) => field)])];
  return fields.map((field) => {
    const cells = byProvider.map((rows) => {
      const found = rows.filter((row) => row.field === field);
      return found.length === 0 ? "" : [...new Set(found.map(cell))].join("; ");
    });
    return `| ${code(field)} | ${cells.join(" | ")} |`;
  });
}

function notesOf(rows: readonly FieldHandling[]): string[] {
  return rows.filter(({ note }) => note !== "").map((row) => `- ${label(row)}: ${row.note}`);
}

function exceptions(name: string): string[] {
  const file = readFieldFile(name);
  if (!("like" in file)) return [];
  return [
    `Like ${file.like}${file.except.length === 0 ? "." : ", but:"}`,
    "",
    ...file.except.map((row) => `- ${label(row)}: ${[cell(row), row.note].filter((part) => part !== "").join("; ")}`),
  ];
}

function label({ field, model }: FieldHandling): string {
  return model === undefined ? code(field) : `${code(field)} (${code(model)})`;
}

function cell({ handling, to, field }: FieldHandling): string {
  switch (handling) {
    case "passed":
      return to === "" || to === field.split(".")[0] ? "as is" : `→ ${code(to)}`;
    case "mapped":
      return `→ ${to === "url" ? "URL" : code(to)}`;
    case "dropped":
      return "dropped";
    case "refused":
      return "400";
  }
}

function code(text: string): string {
  return `\`${text}\``;
}

if (import.meta.main) writeFileSync(fieldsDocPath, renderFieldsDoc());
