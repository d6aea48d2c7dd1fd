/** Sampling fields: defaults for those a caller leaves out, limits for those set too high. */
import { type ChatRequest, knownEfforts, SamplingFields } from "../../protocols/chat/schema.ts";

type SamplingField = keyof typeof SamplingFields;
export type Sampling = Partial<Pick<ChatRequest, SamplingField>>;

export const samplingFields = Object.keys(SamplingFields) as SamplingField[];

const tokenFields: readonly SamplingField[] = ["max_tokens", "max_completion_tokens"];

/** The names of one field: the maximum of tokens has two. */
export const spellingsOf = (field: SamplingField): readonly SamplingField[] =>
  tokenFields.includes(field) ? tokenFields : [field];

/** The ranks of the fields that hold words, the lowest first. */
const ranks: { readonly [field in SamplingField]?: readonly string[] } = {
  reasoning_effort: knownEfforts,
  verbosity: ["low", "medium", "high"],
};

/** The public format's defaults of absent fields: https://platform.openai.com/docs/api-reference/chat/create */
const publicDefaults: Sampling = {
  temperature: 1,
  top_p: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
  reasoning_effort: "medium",
  verbosity: "medium",
};

type Value = string | number;

/** A word that nobody here knows may mean anything: it is above every limit. */
export function exceeds(field: SamplingField, value: Value, limit: Value): boolean {
  return heightOf(field, value) > heightOf(field, limit);
}

function heightOf(field: SamplingField, value: Value): number {
  // -1 tokens are as many as the model likes.
  if (typeof value === "number") return value < 0 && tokenFields.includes(field) ? Number.POSITIVE_INFINITY : value;
  const rank = ranks[field]?.indexOf(value) ?? -1;
  return rank < 0 ? Number.POSITIVE_INFINITY : rank;
}

export function entriesOf(sampling: Sampling): [SamplingField, Value][] {
  const given = samplingFields.filter((field) => sampling[field] !== undefined);
  return given.map((field) => [field, sampling[field]!]);
}

/**
 * A default stands in for a field the caller left out, under either name; a limit lowers what is above it. A limit is sent
 * by itself too, where what an upstream would do without the field lies above it.
 * @returns the sampling fields to send in place of those that the caller gave
 */
export function applySampling(asked: Sampling, defaults: Sampling, limits: Sampling): Sampling {
  const result: Partial<Record<SamplingField, Value>> = {};
  const sentValue = (field: SamplingField) => (result[field] === undefined ? asked[field] : result[field]);
  const given = (field: SamplingField) => spellingsOf(field).filter((name) => sentValue(name) !== undefined);
  for (const [field, value] of entriesOf(defaults)) {
    if (given(field).length === 0) result[field] = value;
  }
  for (const [field, limit] of entriesOf(limits)) {
    const names = given(field);
    if (names.length === 0 && exceeds(field, publicDefaults[field] ?? Number.POSITIVE_INFINITY, limit)) {
      result[field] = limit;
    }
    for (const name of names) {
      if (exceeds(name, sentValue(name)!, limit)) result[name] = limit;
    }
  }
  return result as Sampling;
}
