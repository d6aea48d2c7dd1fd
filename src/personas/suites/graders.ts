/** Names of the models that grade. */
import type { GraderFile } from "./assertion-schema.ts";
import type { GraderModel } from "./suite.ts";

/** Fields of promptfoo's `config` that are part of a request; the others are about how promptfoo reaches the model. */
const samplingNames = ["temperature", "max_tokens", "max_completion_tokens", "top_p", "seed", "reasoning_effort"];

/** `openai:chat:<model>`. Source: https://www.promptfoo.dev/docs/providers/ */
const promptfooId = /^([a-z0-9._-]+):(?:(?:chat|completion|messages|responses):)?(.+)$/;

/** @returns undefined for a name that names no model */
export function graderFrom(given: GraderFile): GraderModel | undefined {
  const { id, config = {} }: { id: string; config?: Record<string, unknown> } =
    typeof given === "string" ? { id: given } : given;
  const fields = Object.fromEntries(
    samplingNames.filter((name) => Object.hasOwn(config, name)).map((name) => [name, config[name]]),
  );
  const match = promptfooId.exec(id);
  if (match === null) return /^[a-z0-9._-]+\/\S+$/.test(id) ? { model: id, fields } : undefined;
  const [, provider, name] = match;
  // With an address of its own, promptfoo asks a gateway such as this one, which names the provider in the model.
  const isThere = Object.hasOwn(config, "apiBaseUrl") && /^[a-z0-9._-]+\//.test(name!);
  return { model: isThere ? name! : `${provider}/${name}`, fields };
}
