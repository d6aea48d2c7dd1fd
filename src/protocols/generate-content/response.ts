/** Answers of this format: a plain one whole, and a stream's, which are partial ones of the same form. */
import type { JsonObject } from "../../lib/json/json.ts";
import { deltaOf } from "../chat/response.ts";
import type { ChunkBody, CompletionBody, Envelope } from "../chat/schema.ts";
import { Candidate, type Shown } from "./candidate.ts";
import { logprobsResult, usageMetadata } from "./ending.ts";

export function answerOf(
  candidates: readonly JsonObject[],
  { id, model }: Envelope,
  rest: JsonObject = {},
): JsonObject {
  return { ...(candidates.length > 0 && { candidates }), ...rest, modelVersion: model, responseId: id };
}

export function contentOf(parts: readonly JsonObject[]): JsonObject {
  return { parts, role: "model" };
}

/** The feedback to a prompt that was blocked: there is no candidate. */
export function promptFeedback(refusal: string): JsonObject {
  return { promptFeedback: { blockReason: "SAFETY", ...(refusal !== "" && { blockReasonMessage: refusal }) } };
}

export function generateContentBody(body: CompletionBody, envelope: Envelope, shown: Shown): object {
  const usage = usageMetadata(body.usage);
  const rest = usage === undefined ? {} : { usageMetadata: usage };
  const made = body.choices.map((choice) => madeOf(choice, shown, body.metadata));
  const [first] = made;
  if (made.length === 1 && first!.blocked !== undefined) {
    return answerOf([], envelope, { ...promptFeedback(first!.blocked), ...rest });
  }
  const candidates = made.map(({ candidate }) => candidate);
  return answerOf(candidates, envelope, rest);
}

function madeOf(
  { index, message, finish_reason, logprobs }: CompletionBody["choices"][number],
  shown: Shown,
  metadata: ChunkBody["metadata"],
): { readonly candidate: JsonObject; readonly blocked: string | undefined } {
  const candidate = new Candidate(index, shown);
  const parts = candidate.push(deltaOf(message), finish_reason);
  const blocked = candidate.isBlocked ? candidate.refusal : undefined;
  const result = logprobsResult(logprobs);
  const content = contentOf(joined([...parts, ...candidate.end()]));
  return {
    candidate: {
      content,
      ...candidate.ending(metadata),
      index,
      ...(result !== undefined && { logprobsResult: result }),
    },
    blocked,
  };
}

/** A whole answer has its signature on its last text, and nothing empty beside what it says. */
function joined(parts: readonly JsonObject[]): JsonObject[] {
  const whole: JsonObject[] = [];
  for (const part of parts) {
    const last = whole.at(-1);
    const isText = last?.["text"] !== undefined && last["thought"] !== true && last["thoughtSignature"] === undefined;
    if (part["text"] !== "" || last === undefined) whole.push(part);
    else if (part["thoughtSignature"] !== undefined) {
      if (isText) whole[whole.length - 1] = { ...last, ...part, text: last["text"] };
      else whole.push(part);
    }
  }
  return whole;
}
