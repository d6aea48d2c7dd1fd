/** The body of a legacy completion. Source: https://platform.openai.com/docs/api-reference/completions/create */
import { type Static, type TSchema, Type } from "@sinclair/typebox";
import { SamplingFields } from "../chat/schema.ts";

const nullable = <T extends TSchema>(schema: T) => Type.Optional(Type.Union([schema, Type.Null()]));
const tokens = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });
const { temperature, top_p, max_tokens, presence_penalty, frequency_penalty, seed } = SamplingFields;

export const CompletionsBody = Type.Object(
  {
    model: Type.String({
      minLength: 1,
      maxLength: 256,
      description: "Gateway: <provider>/<model>. Orchestrator: <namespace>/<name>.",
    }),
    prompt: Type.Union(
      [Type.String(), Type.Array(Type.String(), { minItems: 1 }), tokens, Type.Array(tokens, { minItems: 1 })],
      { description: "Where the upstream has no such route, one text: it becomes the user's message." },
    ),
    temperature,
    top_p,
    max_tokens,
    presence_penalty,
    frequency_penalty,
    seed,
    n: nullable(Type.Integer({ minimum: 1, maximum: 128 })),
    best_of: nullable(Type.Integer({ minimum: 1, maximum: 128 })),
    stop: nullable(Type.Union([Type.String(), Type.Array(Type.String(), { minItems: 1, maxItems: 4 })])),
    stream: nullable(Type.Boolean({ description: "true: a Server-Sent Events stream. Default false." })),
    stream_options: nullable(Type.Object({ include_usage: nullable(Type.Boolean()) }, { additionalProperties: true })),
    logprobs: nullable(Type.Integer({ minimum: 0, maximum: 5 })),
    echo: nullable(Type.Boolean({ description: "true: the answer begins with the prompt." })),
    suffix: nullable(Type.String({ description: "Only where the upstream has this route." })),
    user: nullable(Type.String()),
  },
  { additionalProperties: true },
);
export type CompletionsBody = Static<typeof CompletionsBody>;
