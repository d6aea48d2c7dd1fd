/** `labels.yaml` in the folder of personas: names for versions, which applications call in place of them. */
import { type Static, Type } from "@sinclair/typebox";
import { KeyedRecord } from "../../lib/json/keyed-record.ts";
import { type Diagnostic, YamlSource } from "../../lib/yaml/yaml.ts";

export const labelsFile = "labels.yaml";

export type Label = {
  /** The persona's id. */
  readonly persona: string;
  readonly label: string;
  readonly version: string;
  /** Reports an error at its place in the file. */
  readonly diagnostic: (message: string) => Diagnostic;
};

const part = "[a-z0-9][a-z0-9._-]{0,63}";
/** Not the form of a version, nor `current`, which names what is in service. */
export const labelName = {
  pattern: "^(?!(?:[0-9a-f]{12}|current)$)[a-z][a-z0-9._-]{0,31}$",
  message:
    "must be named by up to 32 lower-case letters, digits, '.', '_' and '-', beginning with a letter, and not like a version or 'current'",
};
const Version = Type.String({
  pattern: "^[0-9a-f]{12}$",
  patternErrorMessage: "must be a version of 12 hexadecimal digits, quoted where they are all digits",
  description: "A version of the persona, as `troupe personas log` shows them.",
});

const LabelsFile = KeyedRecord(
  { pattern: `^${part}/${part}$`, message: "must be a persona's <namespace>/<name>" },
  KeyedRecord(labelName, Version, { description: "Labels of a persona, such as stable and next." }),
  { title: "Labels of personas of Troupe" },
);

/** For editors: what `docs/persona-labels.schema.json` holds. */
export const labelsJsonSchema = (): Record<string, unknown> => ({
  $schema: "http://json-schema.org/draft-07/schema#",
  ...JSON.parse(JSON.stringify(LabelsFile)),
});

/** @param file names the text in errors */
export function parseLabels(
  text: string,
  file: string,
): { readonly labels: readonly Label[] } | { readonly errors: readonly Diagnostic[] } {
  const source = new YamlSource(text, file);
  const errors = source.errors.length > 0 ? source.errors : source.check(LabelsFile, source.value ?? {});
  if (errors.length > 0) return { errors };
  const personas = Object.entries((source.value ?? {}) as Static<typeof LabelsFile>);
  return {
    labels: personas.flatMap(([persona, labels]) =>
      Object.entries(labels).map(([label, version]) => ({
        persona,
        label,
        version,
        diagnostic: (message) => source.diagnosticAt([persona, label], message),
      })),
    ),
  };
}

const labelPattern = new RegExp(labelName.pattern);
export const isLabel = (text: string): boolean => labelPattern.test(text);
