/** A normalised plain answer as a response object. */
import type { JsonObject } from "../../lib/json/json.ts";
import { addedMetadata } from "../added-metadata.ts";
import { deltaOf } from "../chat/response.ts";
import type { CompletionBody, Envelope } from "../chat/schema.ts";
import { endOf } from "./ending.ts";
import { responseObject } from "./object.ts";
import type { ResponsesOptions } from "./options.ts";
import { Output } from "./output.ts";
import { ToolNames } from "./tools.ts";

export function responseOf(
  { choices, usage, service_tier, metadata }: CompletionBody,
  envelope: Envelope,
  options: ResponsesOptions,
): JsonObject {
  const output = new Output(envelope.id, new ToolNames(options.tools, options.added), () => {});
  const choice = choices.find(({ index }) => index === 0);
  if (choice !== undefined) {
    output.push(deltaOf(choice.message), choice.logprobs);
    output.finish(choice.finish_reason);
  }
  const { status, reason } = endOf(choice?.finish_reason ?? "stop", output.hasRefused);
  const state = { output: output.items, usage, reason, serviceTier: service_tier, metadata: addedMetadata(metadata) };
  return responseObject(state, envelope, options, status);
}
