/** The schemas of a persona's `knowledge` and `lorebook`, and what a file's fields come to. */
import { type Static, Type } from "@sinclair/typebox";
import { Closed, Words } from "../../lib/json/schemas.ts";
import { parseTemplate, type Template } from "../compose/template.ts";

const Globs = Type.Array(Type.String({ minLength: 1, maxLength: 512 }), {
  minItems: 1,
  maxItems: 64,
  description: "Globs of Markdown and text files, relative to the persona's file.",
});

export const KnowledgeField = Type.Union(
  [
    Globs,
    Closed({
      files: Globs,
      tokens: Type.Optional(
        Type.Integer({
          minimum: 50,
          maximum: 100_000,
          description: "Most tokens put before a question. Default 1500.",
        }),
      ),
      sections: Type.Optional(
        Type.Integer({ minimum: 1, maximum: 50, description: "Most sections put before a question. Default 5." }),
      ),
    }),
  ],
  { description: "Files whose best sections are put before the latest question." },
);

const ScanDepth = Type.Integer({
  minimum: 1,
  maximum: 1000,
  description: "The latest messages that keys are looked for in. Default 4; an entry's: the lorebook's.",
});
const Keys = Type.Array(Type.String({ minLength: 1, maxLength: 256 }), { maxItems: 64 });

/** An entry as Character Card V3 means it: https://github.com/kwaroran/character-card-spec-v3/blob/main/SPEC_V3.md#lorebook-fields */
const LorebookEntry = Closed({
  name: Type.Optional(Type.String({ maxLength: 256, description: "For authors, logs and render." })),
  keys: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 256 }), {
      maxItems: 64,
      description: "The entry is added where one of these stands in the latest messages.",
    }),
  ),
  secondary_keys: Type.Optional({ ...Keys, description: "Where given, one of these has to stand there as well." }),
  secondary_logic: Type.Optional(
    Words(["any", "all", "not_any", "not_all"], {
      description:
        "What has to hold of secondary_keys: one stands there (the default), all do, none does, or not all do.",
    }),
  ),
  content: Type.String({ minLength: 1, description: "The text that is added, with {{variables}}." }),
  constant: Type.Optional(Type.Boolean({ description: "true: it is always added. Default false." })),
  enabled: Type.Optional(Type.Boolean({ description: "false: it is never added. Default true." })),
  case_sensitive: Type.Optional(Type.Boolean({ description: "Whether keys are. Default false." })),
  whole_words: Type.Optional(
    Type.Boolean({ description: "true: a key of one word is no part of a longer word. Default false." }),
  ),
  scan_depth: Type.Optional(ScanDepth),
  exclude_recursion: Type.Optional(Type.Boolean({ description: "true: no other entry leads to it. Default false." })),
  prevent_recursion: Type.Optional(Type.Boolean({ description: "true: it leads to no other entry. Default false." })),
  delay_until_recursion: Type.Optional(
    Type.Boolean({ description: "true: it is added only where another entry leads to it. Default false." }),
  ),
  order: Type.Optional(Type.Number({ description: "The place among entries: lower ones stand earlier. Default 100." })),
  priority: Type.Optional(
    Type.Number({ description: "Beyond the token budget the lowest are left out first. Default: the order." }),
  ),
  position: Type.Optional(
    Type.Union([Type.Literal("before_system"), Type.Literal("after_system")], {
      description: "In the system message, before or after the persona's text: constant entries stand after it.",
    }),
  ),
  depth: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 1000,
      description: "Before the user's message so many messages from the end, or the one before that. Default 0.",
    }),
  ),
});

const Entries = Type.Array(LorebookEntry, { maxItems: 2000 });

export const LorebookField = Type.Union(
  [
    Entries,
    Closed({
      entries: Entries,
      scan_depth: Type.Optional(ScanDepth),
      token_budget: Type.Optional(
        Type.Integer({
          minimum: 1,
          maximum: 100_000,
          description: "Most tokens of all entries together. Default 2000.",
        }),
      ),
      recursive_scanning: Type.Optional(
        Type.Boolean({ description: "Whether keys are looked for in added entries too. Default false." }),
      ),
    }),
  ],
  { description: "Texts that are added where their keys are mentioned: a card's character_book." },
);

export type Knowledge = {
  readonly files: readonly string[];
  readonly tokens: number;
  readonly sections: number;
};

export type LorebookEntry = {
  readonly name?: string;
  /** In lower case, where case does not count. */
  readonly keys: readonly string[];
  readonly secondaryKeys: readonly string[];
  readonly secondaryLogic: "any" | "all" | "not_any" | "not_all";
  readonly content: Template;
  readonly constant: boolean;
  readonly caseSensitive: boolean;
  readonly wholeWords: boolean;
  readonly scanDepth?: number;
  /** Whether other entries lead to it, and it to others; and whether nothing else does. */
  readonly recursion: { readonly isExcluded: boolean; readonly isPrevented: boolean; readonly isAwaited: boolean };
  readonly order: number;
  readonly priority: number;
  /** In the system message, or so many messages from the end. */
  readonly place: "before_system" | "after_system" | number;
};

export type Lorebook = {
  /** Those that are enabled, in the order in which they are added. */
  readonly entries: readonly LorebookEntry[];
  readonly scanDepth: number;
  readonly tokenBudget: number;
  readonly recursive: boolean;
};

export function toKnowledge(field: Static<typeof KnowledgeField>): Knowledge {
  const { files, tokens = 1500, sections = 5 } = Array.isArray(field) ? { files: field } : field;
  return { files, tokens, sections };
}

/** @returns undefined where no entry is enabled */
export function toLorebook(field: Static<typeof LorebookField>): Lorebook | undefined {
  const {
    entries,
    scan_depth = 4,
    token_budget = 2000,
    recursive_scanning = false,
  } = Array.isArray(field) ? { entries: field } : field;
  const enabled = entries.filter((entry) => entry.enabled !== false).map(toEntry);
  if (enabled.length === 0) return undefined;
  return {
    entries: enabled.toSorted((one, other) => one.order - other.order),
    scanDepth: scan_depth,
    tokenBudget: token_budget,
    recursive: recursive_scanning,
  };
}

function toEntry(entry: Static<typeof LorebookEntry>): LorebookEntry {
  const { name, keys = [], secondary_keys = [], content, constant = false, case_sensitive = false } = entry;
  const { order = 100, priority = order, position, depth, secondary_logic = "any", whole_words = false } = entry;
  const { scan_depth, exclude_recursion, prevent_recursion, delay_until_recursion } = entry;
  const asScanned = (key: string) => (case_sensitive ? key : key.toLowerCase());
  return {
    ...(name !== undefined && { name }),
    keys: keys.map(asScanned),
    secondaryKeys: secondary_keys.map(asScanned),
    secondaryLogic: secondary_logic,
    content: parseTemplate(content.trim()),
    constant,
    caseSensitive: case_sensitive,
    wholeWords: whole_words,
    ...(scan_depth !== undefined && { scanDepth: scan_depth }),
    recursion: {
      isExcluded: exclude_recursion === true,
      isPrevented: prevent_recursion === true,
      isAwaited: delay_until_recursion === true,
    },
    order,
    priority,
    place: position ?? depth ?? (constant ? "after_system" : 0),
  };
}
