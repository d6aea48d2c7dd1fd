/** OpenAPI operations of legacy completions. */
import { Type } from "@sinclair/typebox";
import type { SurfaceName } from "../../config/config.ts";
import { Open, titled } from "../../lib/json/schemas.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { CompletionsBody } from "../../protocols/completions/schema.ts";
import { describeCall, exampleModel, ruled } from "./calls.ts";

const TextCompletion = Open({
  id: Type.String(),
  object: Type.Literal("text_completion"),
  created: Type.Integer(),
  model: Type.String(),
  choices: Type.Array(
    Open({ text: Type.String(), index: Type.Integer(), finish_reason: Type.Union([Type.String(), Type.Null()]) }),
  ),
  usage: Type.Optional(Open({ prompt_tokens: Type.Integer(), completion_tokens: Type.Integer() })),
});

titled({ TextCompletion });

/** `stream_options` go with a stream alone. */
const streamRule = Type.Union([
  Type.Object({ stream: Type.Literal(true) }),
  Type.Object({ stream_options: Type.Optional(Type.Null()) }),
]);

export function describeTextCompletion(surface: SurfaceName): Record<string, unknown> {
  const value = { model: exampleModel[surface], prompt: "Hello!" };
  return describeCall(surface, {
    name: "CreateCompletion",
    summary: "A legacy completion, as one JSON or as a stream",
    description:
      "Passes as it is to an upstream that has this route; elsewhere, and for personas, the prompt becomes the user's message.",
    body: ruled(CompletionsBody, streamRule),
    examples: {
      plain: { summary: "One JSON", value },
      stream: { summary: "A stream", value: { ...value, stream: true } },
      echo: { summary: "Behind its prompt", value: { ...value, echo: true } },
    },
    responseDescription: "The answer: one JSON, or with stream: true one event for each chunk.",
    response: TextCompletion,
    streamed: `data: {"id":"cmpl-…","object":"text_completion","created":1,"model":"builtin/echo","choices":[{"text":"Hel","index":0,"logprobs":null,"finish_reason":null}]}\n\ndata: ${doneData}\n\n`,
  });
}
