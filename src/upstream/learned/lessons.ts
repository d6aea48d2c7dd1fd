/** What was chosen here of a call, and what a refusal of it teaches. What the caller wrote is none of it. */
import type { ModelRule } from "../../facts/rules.ts";
import { withoutFields } from "../../lib/json/without-fields.ts";
import { snakeCase } from "../../lib/text/snake-case.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import type { Call, RemoteProvider } from "../../providers/provider.ts";
import type { Target } from "../target.ts";
import type { Refusal } from "./refusal.ts";

/** A thing that a model refuses, in the words of the facts. */
export type Lesson = {
  /** `tools_road: responses`, `without temperature`. */
  readonly fact: string;
} & (
  | {
      /** A row of facts that is of the model from now on. */
      readonly rule: Omit<ModelRule, "match">;
      readonly isOurs: Own;
    }
  | {
      /** A field that a persona brings and the model does not take. */
      readonly field: string;
      /** JSON of the one value that is refused; absent: whatever it holds. */
      readonly value?: string;
    }
);

/** Where the caller's request, in the inner form, and the call that was made of it are compared. */
type Own = (asked: ChatRequest, call: Call) => boolean;
type Choice = {
  /** The upstream's names for the place. */
  readonly places: readonly string[];
  /** The format in which it is chosen. */
  readonly format: "chat" | "responses";
  readonly fact: string;
  readonly rule: Omit<ModelRule, "match">;
  readonly isOurs: Own;
  /** A code is a caller's mistake. */
  readonly isUncoded?: true;
};

const hasTools: Own = (_asked, { request, extras }) =>
  (request.tools?.length ?? 0) > 0 && extras["use_responses_api"] === undefined;
/** A limit of tokens goes up under a name that the caller did not write. */
const isRenamed =
  (name: "max_tokens" | "max_completion_tokens"): Own =>
  (asked, { clientFormat }) =>
    clientFormat !== undefined || asked[name] === undefined;

/**
 * What is chosen here, beside what personas bring, as rows of the facts' vocabulary. Sources, in their order:
 * https://github.com/GoogleChromeLabs/webmcp-tools/issues/417 ("reasoning_effort", code null, also where none is named),
 * https://platform.openai.com/docs/guides/error-codes, https://github.com/pydantic/pydantic-ai/issues/2865 (encrypted content)
 */
const choices: readonly Choice[] = [
  {
    places: ["reasoning_effort", "tools"],
    format: "chat",
    fact: "tools_road: responses",
    rule: { tools_road: "responses" },
    isOurs: hasTools,
    isUncoded: true,
  },
  {
    places: ["model", "tools"],
    format: "responses",
    fact: "tools_road: chat",
    rule: { tools_road: "chat", responses_only: false },
    isOurs: hasTools,
    isUncoded: true,
  },
  {
    places: ["stream_options", "stream_options.include_usage"],
    format: "chat",
    fact: "stream_usage: false",
    rule: { stream_usage: false },
    isOurs: ({ stream_options }) => stream_options === undefined,
  },
  {
    places: ["max_completion_tokens"],
    format: "chat",
    fact: "max_tokens_field: max_tokens",
    rule: { max_tokens_field: "max_tokens" },
    isOurs: isRenamed("max_completion_tokens"),
  },
  {
    places: ["max_tokens"],
    format: "chat",
    fact: "max_tokens_field: max_completion_tokens",
    rule: { max_tokens_field: "max_completion_tokens" },
    isOurs: isRenamed("max_tokens"),
  },
  {
    places: ["include", "include[0]", "reasoning.summary"],
    format: "responses",
    fact: "reasoning_items: false",
    rule: { reasoning_items: false },
    isOurs: (_asked, { extras }) => extras["include"] === undefined && extras["reasoning_summary"] === undefined,
  },
];

/** Other names of a persona's fields, in upstreams' own formats. */
const fieldsByPlace: Readonly<Record<string, string>> = {
  reasoning: "reasoning_effort",
  "reasoning.effort": "reasoning_effort",
  "output_config.effort": "reasoning_effort",
  "text.verbosity": "verbosity",
};
/** What a call is about: nobody leaves it out for the caller. Limits of tokens hold. */
const kept = new Set([
  ...["model", "messages", "tools", "functions", "tool_choice", "function_call", "response_format", "stream"],
  ...["max_tokens", "max_completion_tokens", "stop", "metadata", "store"],
]);
const maxValue = 128;

/** @param isNative the caller's own body was sent, but for what a persona changed @returns undefined where the caller wrote it */
export function lessonOf(refusal: Refusal, asked: ChatRequest, target: Target, isNative: boolean): Lesson | undefined {
  const { provider } = target;
  if (provider.kind !== "remote") return undefined;
  const chosen = isNative ? undefined : choiceOf(refusal, asked, target, provider);
  return chosen ?? fieldOf(refusal, asked, target.call);
}

function choiceOf({ place, code }: Refusal, asked: ChatRequest, { call }: Target, provider: RemoteProvider) {
  const format = provider.formatOf?.(call) ?? provider.format;
  return choices.find(
    (one) =>
      one.format === format &&
      one.places.includes(place) &&
      (one.isUncoded !== true || code === undefined) &&
      one.isOurs(asked, call) &&
      changesRoad(one, call, provider, format),
  );
}

/** False where the upstream has no other road. */
function changesRoad({ rule }: Choice, call: Call, provider: RemoteProvider, format: string): boolean {
  if (!Object.hasOwn(rule, "tools_road")) return true;
  return provider.formatOf !== undefined && provider.formatOf(withRules(call, [rule])) !== format;
}

function fieldOf({ place, isOfAnyValue }: Refusal, asked: ChatRequest, call: Call): Lesson | undefined {
  const short = place.replace(/^(?:generationConfig|generation_config|inferenceConfig)\./, "");
  const field = Object.hasOwn(fieldsByPlace, short) ? fieldsByPlace[short]! : snakeCase(short);
  if (!isPersonasOwn(field, asked, call)) return undefined;
  if (isOfAnyValue) return { fact: `without ${field}`, field };
  const value = JSON.stringify(fieldIn(call.request, field));
  return value.length > maxValue ? undefined : { fact: `without ${field}: ${value}`, field, value };
}

const fieldIn = (request: ChatRequest, field: string): unknown => (request as Readonly<Record<string, unknown>>)[field];

const isPersonasOwn = (field: string, asked: ChatRequest, { isPersonas, request }: Call): boolean =>
  isPersonas === true &&
  !kept.has(field) &&
  Object.hasOwn(request, field) &&
  fieldIn(request, field) !== undefined &&
  fieldIn(asked, field) === undefined;

/** The call with these rules before those that the operator wrote. */
const withRules = (call: Call, rules: readonly Omit<ModelRule, "match">[]): Call => ({
  ...call,
  learned: [...rules.map((rule) => ({ ...rule, match: "*" })), ...(call.learned ?? call.account.modelRules)],
});

/** Does without what is known to be refused, as far as it was chosen here. @returns the call itself where there is nothing */
export function without(lessons: readonly Lesson[], asked: ChatRequest, call: Call): Call {
  const rules = lessons.flatMap((one) => ("rule" in one && one.isOurs(asked, call) ? [one.rule] : []));
  const fields = lessons.flatMap((one) => ("field" in one && isLeftOut(one, asked, call) ? [one.field] : []));
  const ruled = rules.length > 0 ? withRules(call, rules) : call;
  if (fields.length === 0) return ruled;
  return { ...ruled, request: withoutFields(ruled.request, fields), leftOut: [...(call.leftOut ?? []), ...fields] };
}

const isLeftOut = ({ field, value }: { field: string; value?: string }, asked: ChatRequest, call: Call): boolean =>
  isPersonasOwn(field, asked, call) && (value === undefined || value === JSON.stringify(fieldIn(call.request, field)));
