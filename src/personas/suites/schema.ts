/** The schema of a test file, `<name>.test.yaml` beside a persona: the part of promptfoo's configuration that is read here. */
import { Type } from "@sinclair/typebox";
import { Closed, Open } from "../../lib/json/schemas.ts";
import { Message } from "../../protocols/chat/schema.ts";
import { AssertionFile, Grader } from "./assertion-schema.ts";

/** Repetitions of one test. */
const maxRepeat = 100;

const Vars = Open(
  {},
  {
    description:
      "Values by name: for {{name}} in prompts, messages and assertions, and for the persona's own variables. A list of texts makes a test of each.",
  },
);

const Options = Closed(
  {
    provider: Type.Optional(Grader),
    repeat: Type.Optional(
      Type.Integer({ minimum: 1, maximum: maxRepeat, description: "How often it is asked. Default 1." }),
    ),
    threshold: Type.Optional(
      Type.Number({
        minimum: 0,
        maximum: 1,
        description: "The share of its repetitions that has to pass. Default 1. promptfoo does not read it.",
      }),
    ),
    passthrough: Type.Optional(
      Open({}, { description: "Fields of the request beside its messages: variables, temperature, tools." }),
    ),
    disableVarExpansion: Type.Optional(Type.Boolean({ description: "true: a list in vars is one value." })),
    disableDefaultAsserts: Type.Optional(Type.Boolean({ description: "true: without the assertions of defaultTest." })),
  },
  { description: "Settings of a test." },
);

const common = {
  vars: Type.Optional(Vars),
  assert: Type.Optional(Type.Array(AssertionFile)),
  threshold: Type.Optional(
    Type.Number({ minimum: 0, maximum: 1, description: "The least score. Default: every assertion has to pass." }),
  ),
  options: Type.Optional(Options),
  metadata: Type.Optional(Open({}, { description: "For reports." })),
};

const Prompt = Type.Union([
  Type.String({ minLength: 1 }),
  Closed({
    raw: Type.String({ minLength: 1 }),
    label: Type.Optional(Type.String()),
    id: Type.Optional(Type.String()),
  }),
]);

export const TestFile = Closed(
  {
    description: Type.Optional(Type.String()),
    prompts: Type.Optional(
      Type.Union([Prompt, Type.Array(Prompt, { minItems: 1 })], {
        description:
          "What is asked, with {{vars}}: a text, or messages as JSON. Several make a test of each. Default: {{prompt}}.",
      }),
    ),
    providers: Type.Optional(
      Type.Unknown({ description: "For promptfoo: whom it asks. Here the persona beside the file is asked." }),
    ),
    defaultTest: Type.Optional(Closed(common, { description: "What every test has." })),
    tests: Type.Array(
      Closed({
        description: Type.Optional(Type.String({ minLength: 1, description: "The test's name in reports." })),
        ...common,
        messages: Type.Optional(
          Type.Array(Message, {
            minItems: 1,
            description: "The conversation, in place of prompts. promptfoo does not read it.",
          }),
        ),
      }),
      { minItems: 1 },
    ),
    evaluateOptions: Type.Optional(
      Closed({
        repeat: Type.Optional(
          Type.Integer({ minimum: 1, maximum: maxRepeat, description: "How often each is asked." }),
        ),
        maxConcurrency: Type.Optional(
          Type.Integer({ minimum: 1, maximum: 1000, description: "How many are asked at once." }),
        ),
      }),
    ),
    sharing: Type.Optional(Type.Unknown({ description: "For promptfoo." })),
    outputPath: Type.Optional(Type.Unknown({ description: "For promptfoo." })),
  },
  { title: "Tests of a persona of Troupe" },
);

/** The parts that stand in it several times. */
const definitions = { assertion: AssertionFile, message: Message };

/** For editors: what `docs/persona-test.schema.json` holds. */
export function testJsonSchema(): Record<string, unknown> {
  const text = Object.entries(definitions).reduce(
    (schema, [name, part]) =>
      schema.replaceAll(JSON.stringify(part), JSON.stringify({ $ref: `#/definitions/${name}` })),
    JSON.stringify(TestFile),
  );
  const whole = JSON.parse(text) as Record<string, unknown>;
  const parts = JSON.parse(JSON.stringify(definitions)) as Record<string, unknown>;
  return { $schema: "http://json-schema.org/draft-07/schema#", definitions: parts, ...whole };
}
