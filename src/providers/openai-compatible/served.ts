/** Which of the models that a call lists answered it: https://openrouter.ai/docs/guides/routing/model-fallbacks */
import { isObject, textOf } from "../../lib/json/json.ts";
import { billed, type CompletionBody, type Usage } from "../../protocols/chat/schema.ts";
import type { AnsweredCall } from "../provider.ts";

/** Names the model by an answer's own word; undefined where it is the one that was asked, or none of those that are listed. */
export type Served = (answered: unknown) => string | undefined;

/** @returns undefined where the call lists none */
export function servedAmong({ request, model }: AnsweredCall): Served | undefined {
  const { models } = request as { readonly models?: unknown };
  if (!Array.isArray(models)) return undefined;
  const names = [model, ...models].filter((one): one is string => typeof one === "string");
  // A name with a day is a version of the longer one of two names that fit.
  const byLength = names.sort((one, other) => other.length - one.length);
  return (answered) => {
    const name = textOf(answered) ?? "";
    const found = byLength.find((one) => isNamed(one, name));
    return found === undefined || found === model ? undefined : found.slice(0, 128);
  };
}

/** The answer may name a dated version of what was asked. */
const isNamed = (asked: string, answered: string): boolean =>
  answered === asked || answered.startsWith(`${asked}-`) || answered.startsWith(`${asked}:`);

export const withServed = (usage: Usage | undefined, servedBy: string | undefined): Usage | undefined =>
  servedBy === undefined ? usage : { ...(usage ?? nothing), [billed]: { ...usage?.[billed], servedBy } };

const nothing: Usage = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 };

export function servedAnswer(answer: CompletionBody, body: unknown, served: Served | undefined): CompletionBody {
  const servedBy = isObject(body) ? served?.(body["model"]) : undefined;
  if (servedBy === undefined) return answer;
  return { ...answer, usage: withServed(answer.usage, servedBy)! };
}
