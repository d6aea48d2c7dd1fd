/**
 * The assertions of test files, by promptfoo's names and with its meaning.
 * Sources: https://www.promptfoo.dev/docs/configuration/expected-outputs/deterministic/,
 * https://www.promptfoo.dev/docs/configuration/expected-outputs/model-graded/llm-rubric/
 */
import { type Static, type TProperties, Type } from "@sinclair/typebox";
import { exampleModels, exampleNames } from "../../facts/examples.ts";
import { Closed, Open, Words } from "../../lib/json/schemas.ts";
import { words } from "../../lib/text/words.ts";

const score = { minimum: 0, maximum: 1 };
const Text = Type.Union([Type.String({ minLength: 1 }), Type.Number()]);
const Texts = Type.Array(Text, { minItems: 1 });
const ToolNames = Type.Array(Type.String({ minLength: 1 }), { minItems: 1 });
const JsonSchema = Open({}, { description: "A JSON Schema. Without one any JSON will do." });
const tool = {
  name: Type.Optional(Type.String({ minLength: 1, description: "The tool's name." })),
  pattern: Type.Optional(Type.String({ minLength: 1, description: "A glob over tools' names, in place of `name`." })),
};

/** A model that grades: promptfoo's `openai:chat:<model>`, or `<provider>/<model>`, or a persona. */
export const Grader = Type.Union(
  [
    Type.String({ minLength: 1 }),
    Open(
      { id: Type.String({ minLength: 1 }), config: Type.Optional(Open({})) },
      { description: "As promptfoo has it." },
    ),
  ],
  {
    description: `The model that grades: \`openai:chat:${exampleModels.openaiSmall}\`, \`${exampleNames.openaiSmall}\`, or a persona.`,
  },
);

const weighed = {
  weight: Type.Optional(
    Type.Number({ minimum: 0, description: "Its part in the test's score. Default 1; 0: for information." }),
  ),
  metric: Type.Optional(Type.String({ description: "A label for reports." })),
};

/** The kinds of assertions that share their members. Each name may have `not-` before it. */
const kinds = {
  any: {
    names: ["equals"],
    members: { value: Type.Unknown({ description: "The whole answer: text, or what its JSON holds." }) },
  },
  text: {
    names: ["contains", "icontains", "starts-with"],
    members: { value: Text },
  },
  regex: {
    names: ["regex"],
    members: { value: Type.String({ minLength: 1, description: "A JavaScript regular expression." }) },
  },
  texts: {
    names: ["contains-all", "contains-any", "icontains-all", "icontains-any"],
    members: { value: Type.Union([Texts, Type.String({ minLength: 1, description: "The texts, parted by commas." })]) },
  },
  json: {
    names: ["is-json", "contains-json"],
    members: {
      value: Type.Optional(
        Type.Union([JsonSchema, Type.String({ minLength: 1, description: "A JSON Schema as text, in YAML or JSON." })]),
      ),
    },
  },
  calls: {
    names: ["is-valid-openai-tools-call"],
    members: {},
  },
  toolNames: {
    names: ["tool-call-f1"],
    members: {
      value: Type.Union([ToolNames, Type.String({ minLength: 1, description: "The names, parted by commas." })]),
      threshold: Type.Optional(Type.Number({ ...score, description: "Default 1." })),
    },
  },
  toolUsed: {
    names: ["trajectory:tool-used"],
    members: {
      value: Type.Union([
        Type.String({ minLength: 1 }),
        ToolNames,
        Closed({
          ...tool,
          min: Type.Optional(Type.Integer({ minimum: 0, description: "Default 1." })),
          max: Type.Optional(Type.Integer({ minimum: 0 })),
        }),
      ]),
    },
  },
  toolArguments: {
    names: ["trajectory:tool-args-match"],
    members: {
      value: Closed({
        ...tool,
        args: Open({}, { description: "The arguments that a call of it has." }),
        mode: Type.Optional(
          Words(["partial", "exact"], { description: "partial, the default: others may stand beside them." }),
        ),
      }),
    },
  },
  bound: {
    names: ["cost", "latency"],
    members: { threshold: Type.Number({ minimum: 0, description: "cost: dollars; latency: milliseconds." }) },
  },
  ending: {
    names: ["finish-reason"],
    members: { value: Type.String({ minLength: 1, description: "stop, length, tool_calls or content_filter." }) },
  },
  rubric: {
    names: ["llm-rubric"],
    members: {
      value: Type.String({ minLength: 1, description: "What the answer has to be, in a sentence." }),
      threshold: Type.Optional(Type.Number({ ...score, description: "The least score." })),
      provider: Type.Optional(Grader),
    },
  },
} as const satisfies Record<string, { names: readonly string[]; members: TProperties }>;

export const assertionNames: readonly string[] = Object.values(kinds).flatMap(({ names }) => names);
const setName = "assert-set";
/** All types that a file may name. */
export const assertionTypes: readonly string[] = [...assertionNames.flatMap((name) => [name, `not-${name}`]), setName];

/** Types of promptfoo that are not evaluated here: they run code, need embeddings, or compare several outputs. */
export const foreignTypes: ReadonlySet<string> = new Set([
  ...words(`
    agent-rubric answer-relevance bleu classifier contains-html contains-sql contains-xml context-faithfulness
    context-recall context-relevance conversation-relevance factuality g-eval gleu guardrails human is-html
    is-refusal is-sql is-valid-function-call is-valid-openai-function-call is-xml javascript levenshtein
    max-score meteor model-graded-closedqa model-graded-factuality moderation perplexity perplexity-score pi
    python rouge-n ruby search-rubric select-best similar skill-used trajectory:goal-success
    trajectory:step-count trajectory:tool-sequence webhook word-count
  `),
  // Of 0.123: https://www.promptfoo.dev/docs/configuration/expected-outputs/
  ...["similar:cosine", "similar:dot", "similar:euclidean"],
  ...["trace-error-spans", "trace-span-count", "trace-span-duration"],
]);

const schemaOf = ({ names, members }: { readonly names: readonly string[]; readonly members: TProperties }) =>
  Closed({ type: Words(names.flatMap((name) => [name, `not-${name}`])), ...members, ...weighed });

const single = Object.values(kinds).map(schemaOf);

export const AssertionFile = Type.Union([
  ...single,
  Closed({
    type: Type.Literal(setName),
    assert: Type.Array(Type.Union(single), { minItems: 1 }),
    threshold: Type.Optional(Type.Number({ ...score, description: "The least score. Default: all have to pass." })),
    ...weighed,
  }),
]);

export type GraderFile = Static<typeof Grader>;

/** One assertion as its file has it, checked. */
export type AssertionFile = {
  readonly type: string;
  readonly value?: unknown;
  readonly threshold?: number;
  readonly provider?: GraderFile;
  readonly weight?: number;
  readonly metric?: string;
  readonly assert?: readonly AssertionFile[];
};
