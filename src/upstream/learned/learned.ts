/**
 * What upstreams' refusals taught, kept for a day for the provider and the model. Of one process: each learns by itself, by one refused
 * call, and a start forgets it.
 */

import type { SampledTable } from "../../lib/process/metrics.ts";
import type { Clock } from "../../lib/time/clock.ts";
import type { ChatRequest } from "../../protocols/chat/schema.ts";
import type { Target } from "../target.ts";
import { targetAt } from "../target.ts";
import { type Lesson, without } from "./lessons.ts";

const keptMs = 24 * 60 * 60 * 1000;
/** Callers choose model names freely: beyond so many the oldest are forgotten. */
const maxModels = 500;
const maxLessons = 8;
const maxName = 256;

/** A lesson, as it is shown. */
export type LearnedFact = {
  readonly provider: string;
  readonly model: string;
  /** In the words of the facts: `tools_road: responses`, `without temperature`. */
  readonly fact: string;
  /** Unix milliseconds. */
  readonly until: number;
};

type Kept = { readonly lesson: Lesson; readonly until: number; readonly isVain: boolean };
type OfModel = { readonly provider: string; readonly model: string; readonly lessons: Map<string, Kept> };

export class Learned {
  /** Models of which something was learned: where there are none, calls have nothing to do here. */
  size = 0;
  readonly #clock: Pick<Clock, "now">;
  readonly #models = new Map<string, OfModel>();
  readonly #counts = new Map<string, number>();

  constructor(clock: Pick<Clock, "now">) {
    this.#clock = clock;
  }

  /** @param asked as the caller wrote it @returns the target without what its model is known to refuse of what was chosen here */
  fit(target: Target, asked: ChatRequest): Target {
    const known = this.#models.get(keyOf(target));
    if (known === undefined) return target;
    this.#dropEnded(known);
    const lessons = [...known.lessons.values()].flatMap(({ lesson, isVain }) => (isVain ? [] : [lesson]));
    return targetWithout(target, lessons, asked);
  }

  /** @returns false where it was tried of late: then the upstream's error is the answer */
  isNew({ fact }: Lesson, target: Target): boolean {
    const kept = this.#models.get(keyOf(target))?.lessons.get(fact);
    return kept === undefined || kept.until <= this.#clock.now();
  }

  /** @param isVain the upstream refused the call without it too: nothing is left out for it, nor is it asked again */
  note(lesson: Lesson, target: Target, isVain: boolean): void {
    const provider = target.account.name;
    const { model } = target.call;
    if (model.length > maxName) return;
    const key = keyOf(target);
    const known = this.#models.get(key) ?? { provider, model, lessons: new Map<string, Kept>() };
    this.#models.delete(key);
    this.#models.set(key, known);
    known.lessons.delete(lesson.fact);
    known.lessons.set(lesson.fact, { lesson, isVain, until: this.#clock.now() + keptMs });
    dropOldest(known.lessons, maxLessons);
    dropOldest(this.#models, maxModels);
    this.size = this.#models.size;
    if (!isVain) this.#counts.set(provider, (this.#counts.get(provider) ?? 0) + 1);
  }

  list(): LearnedFact[] {
    for (const one of [...this.#models.values()]) this.#dropEnded(one);
    return [...this.#models.values()].flatMap(({ provider, model, lessons }) =>
      [...lessons.values()].flatMap(({ lesson: { fact }, until, isVain }) =>
        isVain ? [] : [{ provider, model, fact, until }],
      ),
    );
  }

  /** By the account's name. */
  counts(): ReadonlyMap<string, number> {
    return this.#counts;
  }

  #dropEnded({ provider, model, lessons }: OfModel): void {
    const now = this.#clock.now();
    for (const [fact, { until }] of lessons) if (until <= now) lessons.delete(fact);
    if (lessons.size === 0) this.#models.delete(`${provider}/${model}`);
    this.size = this.#models.size;
  }
}

/** The same for what was just refused. */
export function targetWithout(target: Target, lessons: readonly Lesson[], asked: ChatRequest): Target {
  const call = without(lessons, asked, target.call);
  return call === target.call ? target : targetAt(target, call, target.legacyFunctions);
}

const keyOf = ({ account, call: { model } }: Target): string => `${account.name}/${model}`;

function dropOldest(map: Map<string, unknown>, most: number): void {
  for (const key of map.keys()) {
    if (map.size <= most) return;
    map.delete(key);
  }
}

export const learnedMetrics: SampledTable<Pick<Learned, "list" | "counts">> = {
  troupe_facts_learned_total: {
    help: "Times that a call was asked once more without what was chosen here and its model refused, and answered.",
    labels: ["gen_ai_provider_name"],
    series: (learned) => [...learned.counts()].map(([provider, value]) => ({ labels: [provider], value })),
  },
  troupe_facts_learned: {
    help: "Facts that refusals taught and that hold now: for a day, for a provider and a model.",
    read: (learned) => learned.list().length,
  },
};
