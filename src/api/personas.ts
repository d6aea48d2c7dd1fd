/** Personas, as the API answers them. */
import { Type } from "@sinclair/typebox";
import { titled } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";

const summary = {
  object: Type.Literal("persona"),
  id: Type.String(),
  version: Type.String({ description: "The beginning of the hash of its content." }),
  description: Type.String(),
  tier: Type.String(),
  owned_by: Type.String(),
  created: Type.Integer(),
  tags: Type.Array(Type.String()),
  model: OrNull(Type.String(), { description: "The model it uses: the first whose provider is set up." }),
  models: Type.Array(Type.String()),
  variants: Type.Array(Type.String(), { description: "Names of its variants." }),
  stopped_variants: Type.Array(Type.String(), { description: "Those that have stopped themselves." }),
  last_test_run: OrNull(
    Type.Object({
      version: Type.String({ description: "That was tested." }),
      started_at: Type.String(),
      passed: Type.Integer(),
      failed: Type.Integer(),
      errors: Type.Integer({ description: "Tests that could not be judged." }),
    }),
    { description: "Of all its tests, through this API; null: there was none." },
  ),
};

export const PersonaSummary = Type.Object(summary);
export type PersonaSummary = Answer<typeof PersonaSummary>;

export const PersonaPush = Type.Object({
  label: Type.String(),
  version: Type.String({ description: "The persona's, in that branch." }),
  key_name: Type.String({ description: "Of the key that pushed it." }),
  pushed_at: Type.String(),
  ends_at: Type.String(),
});
export type PersonaPush = Answer<typeof PersonaPush>;

export const PersonaVariable = Type.Object({
  description: Type.Optional(Type.String()),
  enum: Type.Optional(Type.Array(Type.String())),
  default: Type.Optional(Type.String()),
  required: Type.Boolean(),
});
export type PersonaVariable = Answer<typeof PersonaVariable>;
const some = Type.Record(Type.String(), Type.Unknown());

export const Persona = Type.Object({
  ...summary,
  greeting: OrNull(Type.String()),
  variables: Type.Record(Type.String(), PersonaVariable),
  defaults: some,
  limits: some,
  options: some,
  stop: Type.Array(Type.String()),
  tools: Type.Array(Type.Object({ function: Type.Optional(Type.Object({ name: Type.String() })) })),
  examples: Type.Array(Type.Object({})),
  source: OrNull(Type.Object({ file: Type.String(), text: Type.String() }), {
    description: "The file that it was made of, as it was then.",
  }),
  since_stable: OrNull(
    Type.Object({
      version: Type.String(),
      must_see: Type.Array(Type.String()),
    }),
    { description: "What a reviewer must see of what changed since the label stable; null: nothing did." },
  ),
  previews: Type.Array(PersonaPush, { description: "Previews of branches that have it, by their labels." }),
  reports: Type.Array(PersonaPush, { description: "Reports on what branches change in it, the newest first." }),
});
export type Persona = Answer<typeof Persona>;

const Origin = Type.Object({
  kind: Type.String({
    description: "persona, model, variable, caller, default, limit, option, knowledge, lorebook or provider.",
  }),
  field: Type.Optional(Type.String({ description: "The path in the persona's file or in the request." })),
  source: Type.Optional(Type.String({ description: "Of a variable's value: caller or default." })),
  capped: Type.Optional(Type.Unknown({ description: "What was asked, and the limit lowered." })),
  file: Type.Optional(Type.String()),
  line: Type.Optional(Type.Integer()),
  column: Type.Optional(Type.Integer()),
});
const Segments = Type.Optional(Type.Array(Type.Object({ text: Type.String(), origin: Origin })));
/** What a call of a persona would send. */
export const RenderedPersona = Type.Object({
  object: Type.Literal("persona.render"),
  persona: Type.String(),
  variant: OrNull(Type.String()),
  composed: Type.Object(
    { messages: Type.Array(Type.Object({ role: Type.String(), content: Type.Optional(Type.Unknown()) })) },
    { description: "The request before a provider encodes it." },
  ),
  parts: Type.Array(
    Type.Object({
      path: Type.Array(Type.Union([Type.String(), Type.Integer()])),
      origin: Origin,
      segments: Segments,
    }),
  ),
  models: Type.Array(
    Type.Object({
      model: Type.String(),
      use: Type.String({
        description:
          "first: the call goes there. fallback: where those before fail. unavailable: its provider is not set up.",
      }),
      origin: Origin,
      request: OrNull(
        Type.Object({
          method: Type.String(),
          url: Type.String(),
          headers: Type.Record(Type.String(), Type.String(), { description: "With asterisks for each secret." }),
          body: Type.String({ description: "The very text." }),
        }),
        { description: "Null where this program answers itself, and where an error keeps it from being sent." },
      ),
      parts: Type.Array(
        Type.Object({
          path: Type.String(),
          value: Type.Unknown(),
          origins: Type.Array(Origin),
          segments: Segments,
        }),
      ),
      error: Type.Optional(Type.Object({ code: Type.String(), param: Type.String(), message: Type.String() })),
    }),
  ),
});
export type RenderedPersona = Answer<typeof RenderedPersona>;

titled({ TextOrigin: Origin, PersonaSummary, Persona, PersonaPush });
