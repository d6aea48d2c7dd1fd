/** What a call names beside its model: on the orchestrator a persona, on the gateway a template that an upstream keeps. */
import type { SurfaceName } from "../config/config.ts";
import { truncate } from "../lib/truncate.ts";
import { ApiError } from "../protocols/errors.ts";
import type { ParsedCall, Prompt } from "../protocols/protocol.ts";

/** @returns the call, which only an upstream of its format can answer where it names a template. @throws ApiError */
export function withPrompt<Options>(
  surface: SurfaceName,
  call: ParsedCall<Options>,
  prompt: Prompt | undefined,
): ParsedCall<Options> {
  if (prompt === undefined) return call;
  const { model } = call.request;
  if (surface === "gateway") {
    // The parser takes it for the model's name where there is none.
    if (model === prompt.id) throw ApiError.missingField("model");
    const message =
      "prompt: this model's provider keeps no templates. Call a persona on the orchestrator by prompt.id.";
    return { ...call, nativeOnly: call.nativeOnly ?? ApiError.unsupported("prompt", message) };
  }
  if (model !== prompt.id) {
    const names = `prompt.id names '${truncate(prompt.id)}', and model '${truncate(model)}'`;
    throw ApiError.invalidValue("prompt.id", `${names}: one of them is enough, or both must be the same persona.`);
  }
  if (prompt.version != null) {
    const message = `'${truncate(prompt.id)}' has no versions: leave prompt.version out.`;
    throw ApiError.invalidValue("prompt.version", message);
  }
  return call;
}
