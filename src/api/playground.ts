/** What the playground can ask, and what would be sent, as the API answers it. */
import { Type } from "@sinclair/typebox";
import { Words } from "../lib/json/schemas.ts";
import { type Answer, OrNull } from "./shape.ts";

export const PlaygroundModel = Type.Object({
  object: Type.Literal("playground.model"),
  id: Type.String({ description: "The model of a call." }),
  kind: Words(["persona", "version", "alias", "model"]),
  title: Type.String({ description: "A persona's description, what names a version, what an alias stands for." }),
  persona: OrNull(Type.String(), { description: "The persona that would answer; null: a model would." }),
  pricing: Type.Optional(
    Type.Object(
      { input: Type.Number(), output: Type.Number() },
      { description: "Of a model: dollars per million tokens." },
    ),
  ),
});
export type PlaygroundModel = Answer<typeof PlaygroundModel>;

export const PlaygroundPreview = Type.Object({
  object: Type.Literal("playground.preview"),
  model: Type.String(),
  surface: Words(["gateway", "orchestrator"]),
  persona: OrNull(Type.Object({ id: Type.String(), version: Type.String(), variant: OrNull(Type.String()) })),
  strategy: OrNull(Type.String(), { description: "How one of the models is chosen; null: they are tried in turn." }),
  requests: Type.Array(
    Type.Object({
      model: Type.String(),
      use: Words(["first", "fallback", "pooled"], {
        description: "first: the call goes there. fallback: where those before fail. pooled: one of several is chosen.",
      }),
      format: OrNull(Type.String(), { description: "The format it is translated to; null: this program answers." }),
      composed: OrNull(Type.Object({}), { description: "The chat completion before it is translated." }),
      request: OrNull(
        Type.Object({
          method: Type.String(),
          url: Type.String(),
          headers: Type.Record(Type.String(), Type.String(), { description: "With asterisks for each secret." }),
          body: Type.String({ description: "The very text, or the beginning of a very long one." }),
          is_cut: Type.Boolean(),
        }),
      ),
      fields: OrNull(
        Type.Array(
          Type.Object({
            name: Type.String(),
            fate: Words(["unchanged", "changed", "no_effect"], {
              description:
                "unchanged: it is in the body as it is. changed: it decides the places in to. no_effect: the same is sent without it.",
            }),
            to: Type.Array(Type.String(), { description: "Paths in the body, (url) and (header name)." }),
          }),
        ),
        { description: "Of the body that was asked with, but for model. Null: it is too large, or none is sent." },
      ),
      added: OrNull(Type.Array(Type.String()), { description: "Members of the body sent that none of them made." }),
      error: Type.Optional(Type.Object({ code: Type.String(), param: Type.String(), message: Type.String() })),
    }),
  ),
});
export type PlaygroundPreview = Answer<typeof PlaygroundPreview>;
