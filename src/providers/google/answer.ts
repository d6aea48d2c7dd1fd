/**
 * Gemini's answers in the public format. A stream's events are partial answers of the same form as a whole one, so one
 * reader serves both.
 * Source: https://ai.google.dev/api/generate-content#v1beta.GenerateContentResponse
 */

import { keepNumbers } from "../../lib/json/exact.ts";
import { isObject, type JsonObject, numberOf, objectOf, saysNothing, textOf } from "../../lib/json/json.ts";
import { ownMember } from "../../lib/json/own-member.ts";
import { raised } from "../../lib/json/raised.ts";
import { type SseEvent, sseFraming } from "../../lib/streams/sse.ts";
import { StreamFold } from "../../protocols/chat/fold.ts";
import type { ChunkBody, CompletionBody, Usage } from "../../protocols/chat/schema.ts";
import { doneData } from "../../protocols/chat/stream.ts";
import { InvalidAnswer, UpstreamFault } from "../../protocols/errors.ts";
import { reasonOf, usageOf } from "../../protocols/generate-content/ending.ts";
import { googleStatuses } from "../../protocols/generate-content/errors.ts";
import type { AnsweredCall, StreamDecoder } from "../provider.ts";
import { isSignOfLife, jsonIn, objectsIn, plainWords } from "../reading.ts";
import { CandidateReader } from "./candidate.ts";

const selfEvident = new Set(["STOP", "MAX_TOKENS"]);

/**
 * @throws UpstreamFault when the answer is an error; InvalidAnswer when it holds neither candidates nor the reason why there
 * are none, or an unfinished stream
 */
export function decodeAnswer(body: unknown, text: string, call: AnsweredCall): CompletionBody {
  const reader = new AnswerReader(call, true);
  const fold = new StreamFold();
  fold.push(reader.read(body, text));
  const { choices, ...rest } = fold.result();
  if (choices.length === 0) throw new InvalidAnswer("something that is no answer");
  if (!fold.complete) throw new InvalidAnswer("an answer without its end");
  const usage = reader.takeUsage();
  return {
    ...rest,
    choices: choices.map(({ index, message, finish_reason, ...more }) => ({ ...more, index, message, finish_reason })),
    ...(usage !== undefined && { usage }),
  };
}

/** There is no terminal event: the end of the stream is the end of the connection, and it must come after a reason. */
export class GoogleStreamDecoder implements StreamDecoder {
  readonly framing = sseFraming;
  readonly finished = false;
  readonly #reader: AnswerReader;
  /** The event that told an end. */
  #ending = "";

  constructor(call: AnsweredCall) {
    this.#reader = new AnswerReader(call, false);
  }

  push({ data, event }: SseEvent): ChunkBody[] {
    // The format has no such word; some proxies add it, or a sign of life.
    if (data === doneData || (data === "" && isSignOfLife(event))) return [];
    const json = event === "error" ? reportedError(data) : jsonIn(data);
    keepNumbers(json, data);
    const bodies = this.#reader.read(json, data);
    if (this.#reader.hasEnded) {
      if (data === this.#ending) throw new InvalidAnswer("an event twice");
      this.#ending = data;
    }
    const usage = this.#reader.complete ? this.#reader.takeUsage() : undefined;
    if (usage !== undefined) bodies.at(-1)!.usage = usage;
    return bodies.filter((body) => body.choices.length > 0 || body.usage !== undefined);
  }

  get counted(): Usage | undefined {
    return this.#reader.counted;
  }

  end(): ChunkBody[] {
    const usage = this.#reader.takeUsage();
    return usage === undefined ? [] : [{ choices: [], usage }];
  }
}

/** Reads an event of that name as Google's own error: the format has no such name, but proxies in front of it have. */
function reportedError(data: string): unknown {
  if (!/^\s*[{[]/.test(data)) return { error: { message: plainWords(data) } };
  const json = jsonIn(data);
  const reported = objectOf(Array.isArray(json) ? json[0] : json);
  return reported?.["error"] == null ? { error: { message: textOf(reported?.["message"]) ?? data } } : json;
}

class AnswerReader {
  readonly #call: AnsweredCall;
  readonly #whole: boolean;
  readonly #candidates = new Map<number, CandidateReader>();
  #usage: JsonObject | undefined;
  #counted: JsonObject | undefined;
  #isBlocked = false;
  /** What was read last told the end of a candidate. */
  hasEnded = false;

  /** @param whole whether the body is a whole answer, which may lack a finish reason */
  constructor(call: AnsweredCall, whole: boolean) {
    this.#call = call;
    this.#whole = whole;
  }

  /**
   * @param body an answer, or a stream's answers in one list, as they come where `alt=sse` got lost on the way
   * @throws UpstreamFault when the body is an error; InvalidAnswer when it is no answer, or one out of order
   */
  read(body: unknown, text: string): ChunkBody[] {
    this.hasEnded = false;
    if (!Array.isArray(body)) return [this.#answer(body, text, this.#whole)];
    if (body.length === 0 || !body.every(isObject)) throw new InvalidAnswer("something that is no answer");
    // A list is a whole stream, which has a finish reason.
    return body.map((answer) => this.#answer(answer, text, false));
  }

  #answer(answer: unknown, text: string, isWhole: boolean): ChunkBody {
    if (!isObject(answer)) throw new InvalidAnswer("an event that is no JSON object");
    throwIfError(answer, text);
    this.#count(objectOf(answer["usageMetadata"]));
    const chunk: ChunkBody = { choices: [] };
    for (const [at, candidate] of objectsIn(answer, "candidates").entries()) {
      const index = indexOf(candidate["index"]) ?? at;
      const choice = this.#candidate(index).read(candidate, isWhole);
      if (choice !== undefined) chunk.choices.push(choice);
      if (choice?.finish_reason) this.hasEnded = true;
      const note = finishNote(candidate, index);
      if (note !== undefined) chunk.metadata = { ...chunk.metadata, ...note };
    }
    const refusal = blockOf(objectOf(answer["promptFeedback"]));
    if (this.#isBlocked && chunk.choices.length > 0) throw new InvalidAnswer("more of the answer behind its end");
    if (refusal !== undefined && this.#candidates.size === 0 && !this.#isBlocked) {
      this.#isBlocked = true;
      chunk.choices.push({ index: 0, delta: { refusal }, finish_reason: "content_filter" });
    }
    return chunk;
  }

  /** Running totals. */
  #count(totals: JsonObject | undefined): void {
    if (totals === undefined) return;
    this.#counted = this.#counted === undefined ? totals : raised(this.#counted, totals);
    this.#usage = this.#counted;
  }

  get complete(): boolean {
    return this.#candidates.size > 0 && this.#candidates.values().every(({ finished }) => finished);
  }

  get counted(): Usage | undefined {
    return this.#counted === undefined ? undefined : usageOf(this.#counted, this.#groundings);
  }

  /** The counts, once for each time that they changed. */
  takeUsage(): Usage | undefined {
    const usage = this.#usage === undefined ? undefined : usageOf(this.#usage, this.#groundings);
    this.#usage = undefined;
    return usage;
  }

  get #groundings(): JsonObject[] {
    return [...this.#candidates.values()].flatMap(({ grounding }) => (grounding === undefined ? [] : [grounding]));
  }

  #candidate(index: number): CandidateReader {
    let candidate = this.#candidates.get(index);
    if (candidate === undefined) {
      candidate = new CandidateReader(index, this.#call);
      this.#candidates.set(index, candidate);
    }
    return candidate;
  }
}

function throwIfError(body: JsonObject, text: string): void {
  if (saysNothing(body["error"])) return;
  const error = objectOf(body["error"]) ?? {};
  const code = numberOf(error["code"]);
  const known =
    code !== undefined && Number.isInteger(code) && code >= 400 && code <= 599
      ? code
      : ownMember(googleStatuses, textOf(error["status"]) ?? "");
  throw new UpstreamFault(text, known ?? 500);
}

/** The reason why no answer was made, in words; undefined when the prompt was not blocked. */
function blockOf(feedback: JsonObject | undefined): string | undefined {
  const reason = textOf(feedback?.["blockReason"]);
  if (reason === undefined) return undefined;
  const message = textOf(feedback?.["blockReasonMessage"]);
  return `The prompt was blocked: ${reason}${message === undefined ? "." : ` (${message})`}`;
}

/** The upstream's own words where the public format has none. Those of choice 0 are plain, of others numbered. */
function finishNote(candidate: JsonObject, index: number): Record<string, string> | undefined {
  const reason = reasonOf(candidate["finishReason"]);
  if (reason === undefined || selfEvident.has(reason)) return undefined;
  const message = textOf(candidate["finishMessage"]);
  const suffix = index === 0 ? "" : `.${index}`;
  return {
    [`finish_reason${suffix}`]: reason,
    ...(message !== undefined && { [`finish_message${suffix}`]: message }),
  };
}

function indexOf(value: unknown): number | undefined {
  return Number.isInteger(value) && (value as number) >= 0 ? (value as number) : undefined;
}
