/**
 * Prompts that applications named at OpenAI, which personas answer here.
 * Source: https://developers.openai.com/api/docs/guides/prompting/migrate-from-prompt-object
 */
import type { Caller } from "../../auth/keys.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { unnamed } from "../../personas/versions/references.ts";
import { ApiError } from "../../protocols/errors.ts";
import type { ParsedCall, Prompt } from "../../protocols/protocol.ts";
import type { Admitted } from "../scope.ts";
import type { Services } from "../services.ts";
import { findPersona, preparePersona } from "./personas.ts";

/** A call whose prompt names a persona, on whatever surface it came. */
type PromptedCall = ParsedCall<unknown> & { readonly answeredBy?: "persona" };

/** @returns the call to the persona; or to an upstream of its format, which alone may know the prompt. @throws ApiError, or rejects with it */
export async function withPrompt(
  { services, caller, surface }: Admitted,
  call: ParsedCall<unknown>,
  prompt: Prompt,
): Promise<PromptedCall> {
  const { model } = call.request;
  const name = nameOf(services, caller, prompt);
  const mayAsk = caller.surfaces.has("orchestrator");
  if (name !== undefined && mayAsk && (await mayUse(services, caller, name))) {
    if (prompt.id.includes("/") && model !== prompt.id) throw namesTwo(prompt, model);
    return { ...call, request: { ...call.request, model: name }, answeredBy: "persona" };
  }
  if (surface.name === "orchestrator") {
    if (!prompt.id.includes("/")) throw notFound(prompt.id);
    if (model !== prompt.id) throw namesTwo(prompt, model);
    if (findPersona(services, caller, prompt.id) !== undefined)
      throw versionNotFound(prompt.id, String(prompt.version));
    throw ApiError.modelNotFound(prompt.id);
  }
  // The parser takes it for the model's name where there is none.
  if (model === prompt.id) throw notFound(prompt.id);
  const message = "prompt: this model's provider keeps no templates. Name the prompt in prompt_ids of a persona.";
  return { ...call, nativeOnly: call.nativeOnly ?? ApiError.unsupported("prompt", message) };
}

/** @returns the model's name that a prompt stands for; undefined where no persona answers it. @throws ApiError for an unknown version of one */
function nameOf(services: Services, caller: Caller, { id, version }: Prompt): string | undefined {
  const asked = version == null || version === "" ? undefined : String(version);
  if (id.includes("/")) return asked === undefined ? id : `${id}@${asked}`;
  const entry = services.personas.prompt(id);
  const name = entry?.versions.get(asked ?? unnamed);
  if (entry === undefined || name !== undefined) return name;
  const known = [...entry.versions].filter(([, one]) => findPersona(services, caller, one) !== undefined);
  if (known.length === 0) return undefined;
  throw versionNotFound(
    id,
    asked!,
    known.flatMap(([one]) => (one === unnamed ? [] : one)),
  );
}

async function mayUse(services: Services, caller: Caller, name: string): Promise<boolean> {
  await preparePersona(services, name);
  return findPersona(services, caller, name) !== undefined;
}

/**
 * As OpenAI answers it, with the parameter named.
 * Source: https://github.com/miharekar/visualizer/issues/198
 */
const notFound = (id: string): ApiError =>
  ApiError.notFound(`Prompt with id '${truncate(id)}' not found.`, "prompt.id");

function versionNotFound(id: string, version: string, known: readonly string[] = []): ApiError {
  const others = known.length === 0 ? "" : ` Its versions here are ${known.join(", ")}.`;
  const message = `Prompt with id '${truncate(id)}' and version '${truncate(version)}' not found.${others}`;
  return ApiError.invalidValue("prompt.version", message);
}

function namesTwo({ id }: Prompt, model: string): ApiError {
  const names = `prompt.id names '${truncate(id)}', and model '${truncate(model)}'`;
  return ApiError.invalidValue("prompt.id", `${names}: one of them is enough, or both must be the same persona.`);
}
