/** The second asking of a call, where an upstream refuses what was chosen here: once, without it, before anything was answered. */
import { truncate } from "../../lib/text/truncate.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import type { Answer, EventSource, UpstreamError } from "../../upstream/answer.ts";
import { isUpstreamError } from "../../upstream/answer.ts";
import { type Again, type CallOptions, callUpstream } from "../../upstream/call.ts";
import { targetWithout } from "../../upstream/learned/learned.ts";
import { type Lesson, lessonOf } from "../../upstream/learned/lessons.ts";
import { refusalIn } from "../../upstream/learned/refusal.ts";
import type { Target } from "../../upstream/target.ts";
import type { Services } from "../services.ts";

/** What a second asking needs of the first one. Holds the request. */
type FirstAsking = {
  readonly services: Services;
  readonly requestId: string;
  /** As the caller wrote it, in the inner form. */
  readonly asked: ChatRequest;
  readonly target: Target;
  readonly isNative: boolean;
  /** Begins another attempt, which does not ask again. */
  readonly optionsFor: (target: Target) => CallOptions;
};

export class SecondAsking implements Again {
  #first: FirstAsking | undefined;

  constructor(first: FirstAsking) {
    this.#first = first;
  }

  over(): void {
    this.#first = undefined;
  }

  refused(failure: UpstreamError): Promise<Answer<EventSource>> | undefined {
    const first = this.#first;
    this.#first = undefined;
    if (first === undefined) return undefined;
    const { services, asked, target, isNative } = first;
    const refusal = refusalIn(failure);
    const lesson = refusal && lessonOf(refusal, asked, target, isNative);
    if (lesson === undefined || !services.learned.isNew(lesson, target)) return undefined;
    return askWithout(lesson, first, failure);
  }
}

async function askWithout(
  lesson: Lesson,
  { services, requestId, asked, target, optionsFor }: FirstAsking,
  failure: UpstreamError,
): Promise<Answer<EventSource>> {
  const { learned, log } = services;
  const next = targetWithout(target, [lesson], asked);
  const answer = await callUpstream(services, next, optionsFor(next));
  const isRefused =
    isUpstreamError(answer) && (answer.status === 400 || answer.status === 404 || answer.status === 422);
  // Of an upstream that is away nothing is learned.
  if (isUpstreamError(answer) && !isRefused) return answer;
  learned.note(lesson, target, isRefused);
  if (!isRefused)
    log.warn("a model refused what was chosen here; it was asked once more without it, as it will be for a day", {
      request_id: requestId,
      provider: target.account.name,
      upstream_model: truncate(target.call.model),
      fact: truncate(lesson.fact),
    });
  // By another road too: then the first one's words are about what the caller wrote.
  return isRefused && "rule" in lesson ? failure : answer;
}
