/** The body of a legacy completion. Source: https://platform.openai.com/docs/api-reference/completions/create */
import { type Static, Type } from "@sinclair/typebox";
import { Nullable, Open, titled } from "../../lib/json/schemas.ts";
import { ChatRequestBody } from "../chat/schema.ts";

const tokens = Type.Array(Type.Integer({ minimum: 0 }), { minItems: 1 });
const { model, temperature, top_p, presence_penalty, frequency_penalty, seed, n, stop, stream, user } =
  ChatRequestBody.properties;

export const CompletionsBody = Open({
  model,
  prompt: Type.Union(
    [Type.String(), Type.Array(Type.String(), { minItems: 1 }), tokens, Type.Array(tokens, { minItems: 1 })],
    { description: "Where the upstream has no such route, one text: it becomes the user's message." },
  ),
  temperature,
  top_p,
  max_tokens: Nullable(
    Type.Integer({
      minimum: 0,
      description:
        "Most tokens to generate. 0: none, as likelihoods of the prompt ask it with echo; only where the upstream has this route.",
    }),
  ),
  presence_penalty,
  frequency_penalty,
  seed,
  n,
  best_of: n,
  stop,
  stream,
  stream_options: Nullable(Open({ include_usage: Nullable(Type.Boolean()) })),
  logprobs: Nullable(Type.Integer({ minimum: 0, maximum: 5 })),
  echo: Nullable(Type.Boolean({ description: "true: the answer begins with the prompt." })),
  suffix: Nullable(Type.String({ description: "Only where the upstream has this route." })),
  user,
});

titled({ CompletionsRequest: CompletionsBody });
export type CompletionsBody = Static<typeof CompletionsBody>;
