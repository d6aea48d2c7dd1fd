/** The form of the file of facts (docs/facts.schema.json). */
import { type Static, type TObject, type TProperties, type TSchema, Type } from "@sinclair/typebox";
import { KeyedRecord, keyOfLength } from "../lib/json/keyed-record.ts";
import { Closed } from "../lib/json/schemas.ts";
import { BedrockRules } from "./vocabulary/bedrock.ts";
import { Quirks } from "./vocabulary/chat.ts";
import { AnthropicRules } from "./vocabulary/claude.ts";
import { GoogleRules } from "./vocabulary/gemini.ts";
import { ResponsesRules } from "./vocabulary/responses.ts";

const Day = (description: string) => Type.String({ pattern: "^20\\d\\d-[01]\\d-[0-3]\\d$", description });
const Tokens = (description: string) => Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000_000, description }));
const nameBounds = { minLength: 1, maxLength: 200 };
const Name = Type.String(nameBounds);
const OneOrMore = (description: string) =>
  Type.Union([Name, Type.Array(Name, { minItems: 1, maxItems: 1000 })], { description });
const Modalities = (description: string) =>
  Type.Optional(
    Type.Array(Type.Union(["text", "image", "audio", "video", "file"].map((word) => Type.Literal(word))), {
      minItems: 1,
      description,
    }),
  );

const Sourced = {
  source: OneOrMore("Where the row's values were read: public pages, or lists with their version."),
  note: Type.Optional(Type.String({ maxLength: 1000, description: "What is said there, or why, for people." })),
};

const versionForm = "^\\d{1,2}(?:[.-]\\d{1,2})?$";

const RuleKeys = {
  match: OneOrMore("Globs over names, as they are given and as their makers write them; * matches anything."),
  since: Type.Optional(
    Type.String({
      pattern: versionForm,
      description:
        "The first version that the row is of, in a name in place of the first *. Later ones, those that nobody knows yet among them, are of it too.",
    }),
  ),
};

/** @param behaviours the closed vocabulary of one upstream format */
const rulesOf = <P extends TProperties>(behaviours: TObject<P>) =>
  Type.Array(Closed({ ...RuleKeys, ...Type.Partial(behaviours).properties, ...Sourced }), {
    description: "The first row that fits a model and names a fact wins.",
  });

/** What is known of a provider beside its rules. */
const Provider = Closed({
  makers: Type.Optional(
    Type.Array(Name, { description: "Providers whose models are served here too: their limits and abilities hold." }),
  ),
  betas: Type.Optional(
    Type.Array(
      Closed({
        beta: OneOrMore("Values of anthropic-beta, as callers say them."),
        as: Type.Optional(
          Type.String({ ...nameBounds, description: "The name by which it is known there, if another." }),
        ),
        ...Sourced,
      }),
      { description: "What a cloud takes of Anthropic's betas; what does not stand here is not sent there." },
    ),
  ),
  versions: Type.Optional(
    Type.Array(
      Closed({
        version: Day("A version of Anthropic's API."),
        as: Type.String({ ...nameBounds, description: "The name that it has there." }),
        ...Sourced,
      }),
      { description: "Versions that have a name of their own." },
    ),
  ),
  listed: Type.Optional(Type.Array(Name, { description: "Well-known models, for where there is no list." })),
  models: Type.Optional(
    Type.Array(
      Closed({
        model: OneOrMore("Names."),
        counts_as: Type.Optional(
          Type.String({ pattern: versionForm, description: "Its version, where the number in its name misleads." }),
        ),
        context: Tokens("Tokens of a prompt and its answer together."),
        output: Tokens("Tokens of an answer."),
        input_modalities: Modalities("What it reads."),
        output_modalities: Modalities("What it answers with."),
        tools: Type.Optional(Type.Boolean({ description: "It calls functions." })),
        reasoning: Type.Optional(Type.Boolean({ description: "It can think." })),
        structured_output: Type.Optional(Type.Boolean({ description: "It answers by a JSON schema." })),
        ends: Type.Optional(Day("The first day on which it no longer answers, as announced.")),
        ...Sourced,
      }),
      { description: "Limits and abilities. The first row that names a model and a fact wins." },
    ),
  ),
});

/** By the format that upstreams speak: what may differ between models there. */
export const vocabulary = {
  chat: Type.Object({ ...Quirks.properties, ...ResponsesRules.properties }),
  messages: AnthropicRules,
  "generate-content": GoogleRules,
  converse: BedrockRules,
};
export type Vocabulary = { readonly [F in keyof typeof vocabulary]: Partial<Static<(typeof vocabulary)[F]>> };

const byProvider = <V extends TSchema>(value: V, description: string) =>
  KeyedRecord(keyOfLength(64), value, { description });

export const FactsFile = Closed({
  schema: Type.Literal(1, { description: "The number of this form." }),
  as_of: Day("The day on which the facts were read last."),
  rules: Closed(
    {
      chat: byProvider(rulesOf(vocabulary.chat), "Upstreams that speak chat completions, some Responses beside."),
      messages: byProvider(rulesOf(vocabulary.messages), "Anthropic's Messages."),
      "generate-content": byProvider(rulesOf(vocabulary["generate-content"]), "Gemini's own format."),
      converse: byProvider(rulesOf(vocabulary.converse), "Amazon Bedrock."),
    },
    { description: "What models take and refuse, by the upstream's format and the provider." },
  ),
  beta_members: Type.Optional(
    Type.Array(
      Closed({
        betas: Type.Array(Name, { minItems: 1, description: "With any of them the members are taken." }),
        members: Type.Array(Type.String({ pattern: "^(?:\\*\\*\\.)?[a-z_]+(?:\\[\\])?(?:\\.[a-z_]+)*$" }), {
          minItems: 1,
          description: "tools[] is each tool, ** any block that is cached.",
        }),
        ...Sourced,
      }),
      {
        description:
          "Members of Messages bodies that belong to a beta and go with it: the answer is the same without them.",
      },
    ),
  ),
  providers: byProvider(Provider, "Models of each provider, by its name."),
});
export type FactsFile = Static<typeof FactsFile>;
