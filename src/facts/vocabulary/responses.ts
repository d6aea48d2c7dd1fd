/** The facts of a model by which a call goes by the Responses API. */
import { type Static, Type } from "@sinclair/typebox";
import { Words } from "../../lib/json/schemas.ts";

export const ResponsesRules = Type.Object({
  responses_only: Type.Optional(
    Type.Boolean({ description: "The model is called in the responses mode unless use_responses_api is false." }),
  ),
  tools_road: Type.Optional(
    Words(["chat", "responses_beside_effort", "responses"], {
      description:
        "How calls with tools are asked unless use_responses_api says so: by chat completions; in the responses mode where they name an effort; in the responses mode but for the effort none.",
    }),
  ),
  reasoning_items: Type.Optional(
    Type.Boolean({ description: "The model gives encrypted reasoning and summaries of its thoughts." }),
  ),
});
export type ResponsesRules = Static<typeof ResponsesRules>;
