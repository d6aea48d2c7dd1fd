/** What personas know: keeps the index equal to their files, and looks up what belongs to a call's question. */
import { join } from "node:path";
import { isSameList } from "../../lib/json/same-list.ts";
import type { Logger } from "../../lib/process/log.ts";
import type { Declared, MetricTable, Registry, SampledTable } from "../../lib/process/metrics.ts";
import type { FoundSection } from "../../lib/text/sections.ts";
import type { Clock } from "../../lib/time/clock.ts";
import { OnceAMinute } from "../../lib/time/once-a-minute.ts";
import { valuesIn } from "../../personas/compose/compose.ts";
import { type Additions, additionsOf } from "../../personas/knowledge/additions.ts";
import { candidatesOf } from "../../personas/knowledge/sections.ts";
import { questionIn } from "../../personas/knowledge/texts.ts";
import type { Persona } from "../../personas/persona.ts";
import { previewTexts } from "../../personas/review/previews.ts";
import { sourcesMember } from "../../protocols/added-metadata.ts";
import { restoreLarge, type Source } from "../../protocols/body/source.ts";
import type { ChatRequest, Metadata } from "../../protocols/chat/schema.ts";
import { parseModelId } from "../../protocols/model-id.ts";
import {
  type Collection,
  collectionOf,
  type KnowledgeIndex,
  type KnowledgeReport,
  textCollectionOf,
} from "../../store/contract/knowledge.ts";
import type { RequestLogFields } from "../log-fields.ts";

/** Waits of a call: for files that were never indexed, and for an answer. Then it goes without. */
const firstIndexMs = 5_000;
const searchMs = 2_000;
/** After a change that failed calls do not ask for another one for so long. */
const retryMs = 10_000;
/** Collections that are kept up to date though no persona in service has them. */
const maxOthers = 100;
/** Of the texts that those of previews bring along: others are indexed anew when they are asked. */
const maxOtherBytes = 32 * 1024 * 1024;
/** Questions whose sections are kept, some 2 MB of them, and the longest question, in characters. */
const maxKept = 64;
const maxKeptQuestion = 4_000;

const knowledgeMetrics = {
  lookups: {
    name: "troupe_knowledge_lookups_total",
    help: "Questions that personas' files were searched for, by result: found, nothing, failed.",
    labels: ["result"],
  },
} satisfies MetricTable;

export const knowledgeSizes: SampledTable<Pick<PersonaKnowledge, "report">> = {
  troupe_knowledge_sections: {
    help: "Sections in the index of personas' files.",
    aggregate: "max",
    read: ({ report }) => report.sections,
  },
};

/** The files of a persona. @param folder of personas */
export function knowledgeCollection(folder: string, persona: Persona): Collection {
  const { id, knowledge } = persona;
  const texts = previewTexts(persona);
  if (texts !== undefined) return textCollectionOf(texts);
  return collectionOf(folder, join(folder, parseModelId(id)!.namespace), knowledge?.files ?? []);
}

type KnowledgeOptions = {
  readonly index: KnowledgeIndex;
  /** The folder of personas. */
  readonly folder: string;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics: Registry;
};

/** A persona never changes. */
const collections = new WeakMap<Persona, Collection>();

export class PersonaKnowledge {
  readonly #options: KnowledgeOptions;
  readonly #metrics: Declared<typeof knowledgeMetrics>;
  readonly #warnings: OnceAMinute;
  /** Of the personas in service. */
  #served: readonly Collection[] = [];
  /** The collections that are in the index. */
  #indexed: ReadonlySet<string> = new Set();
  #running: Promise<unknown> = Promise.resolve();
  #queued: Promise<void> | undefined;
  #problems: readonly string[] = [];
  #retryAt = Number.NEGATIVE_INFINITY;
  /** Collections of calls that no persona in service has, as a pinned version's. */
  readonly #others = new Map<string, Collection>();
  /** What was found for the latest questions, as each step of an agent's turn asks the same. Another map after each change of the index. */
  #kept = new Map<string, readonly FoundSection[]>();
  report: Pick<KnowledgeReport, "files" | "sections"> = { files: 0, sections: 0 };

  constructor(options: KnowledgeOptions) {
    this.#options = options;
    this.#metrics = options.metrics.declare(knowledgeMetrics);
    this.#warnings = new OnceAMinute(options.clock);
  }

  /** Brings the index up to date, if there is anything to know. Never rejects. @param personas in service */
  update(personas: readonly Persona[]): Promise<void> {
    const found = personas.flatMap((persona) => this.#collectionOf(persona) ?? []);
    this.#served = [...new Map(found.map((collection) => [collection.id, collection])).values()];
    if (this.#served.length === 0 && this.#indexed.size === 0) return Promise.resolve();
    return this.#sync();
  }

  /** @returns the best sections for the latest question of the messages; none where they can't be looked up in time */
  async find(persona: Persona, messages: ChatRequest["messages"]): Promise<readonly FoundSection[]> {
    const collection = this.#collectionOf(persona);
    const question = questionIn(messages);
    if (collection === undefined || question.trim() === "") return [];
    const name = `${collection.id} ${candidatesOf(persona.knowledge!)} ${question}`;
    const known = this.#kept.get(name);
    if (known === undefined) return await this.#search(persona, collection, question, name);
    this.#count(known);
    return known;
  }

  /** Never rejects. @param name by which the sections are kept */
  async #search(
    persona: Persona,
    collection: Collection,
    question: string,
    name: string,
  ): Promise<readonly FoundSection[]> {
    try {
      if (!this.#indexed.has(collection.id)) await this.#inTime(firstIndexMs, this.#add(collection));
      const kept = this.#kept;
      const searching = this.#options.index.search(collection.id, question, candidatesOf(persona.knowledge!));
      const found = await this.#inTime(searchMs, searching);
      if (question.length <= maxKeptQuestion) {
        kept.set(name, found);
        if (kept.size > maxKept) kept.delete(kept.keys().next().value!);
      }
      this.#count(found);
      return found;
    } catch (error) {
      this.#metrics.lookups.series("failed").add();
      if (this.#warnings.takes()) {
        this.#options.log.warn("a persona's files can't be searched; it answers without them", {
          persona: persona.id,
          error,
        });
      }
      return [];
    }
  }

  #count(found: readonly FoundSection[]): void {
    this.#metrics.lookups.series(found.length > 0 ? "found" : "nothing").add();
  }

  #collectionOf(persona: Persona): Collection | undefined {
    if (persona.knowledge === undefined) return undefined;
    let found = collections.get(persona);
    if (found === undefined) {
      found = knowledgeCollection(this.#options.folder, persona);
      collections.set(persona, found);
    }
    return found;
  }

  async #add(collection: Collection): Promise<void> {
    if (this.#options.clock.monotonic() < this.#retryAt) throw new Error("the index could not be made a moment ago");
    if (!this.#served.some(({ id }) => id === collection.id)) this.#others.set(collection.id, collection);
    this.#forgetOldest();
    // The one under way may not know of it.
    await this.#sync();
    if (!this.#indexed.has(collection.id)) throw new Error("the index is not made");
  }

  #forgetOldest(): void {
    let bytes = 0;
    for (const [at, { id, texts = [] }] of [...this.#others.values()].toReversed().entries()) {
      bytes += texts.reduce((sum, { text }) => sum + text.length, 0);
      if (at > 0 && (at >= maxOthers || bytes > maxOtherBytes)) this.#others.delete(id);
    }
  }

  /** One change runs at a time; calls during it share the next one. */
  #sync(): Promise<void> {
    this.#queued ??= this.#running.then(() => {
      this.#queued = undefined;
      const change = this.#change();
      this.#running = change;
      return change;
    });
    return this.#queued;
  }

  async #change(): Promise<void> {
    const { index, log, clock } = this.#options;
    const wanted = [...new Map([...this.#others, ...this.#served.map((one) => [one.id, one] as const)]).values()];
    try {
      const { problems, ...report } = await index.sync(wanted);
      this.#indexed = new Set(wanted.map(({ id }) => id));
      this.report = report;
      if (!isSameList(problems, this.#problems)) {
        for (const reason of problems) log.error("a file of a persona's knowledge is left out", { reason });
      }
      this.#problems = problems;
      if (report.indexed + report.removed > 0) log.info("knowledge", report);
    } catch (error) {
      this.#retryAt = clock.monotonic() + retryMs;
      if (this.#warnings.takes()) log.warn("the index of personas' files can't be brought up to date", { error });
    } finally {
      // A search that is under way keeps what it finds in the map from before.
      this.#kept = new Map();
    }
  }

  #inTime<T>(ms: number, work: Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const cancel = this.#options.clock.setTimer(ms, () => reject(new Error(`no answer within ${ms} ms`)));
    work.then(resolve, reject);
    return promise.finally(cancel);
  }
}

/**
 * Finds what knowledge and lorebook add to a call.
 * @param source the request as it was sent: its large texts are restored, as they are read here
 * @throws ApiError for values of variables that are refused
 */
export async function findAdditions(
  knowledge: PersonaKnowledge,
  persona: Persona,
  request: ChatRequest,
  source: Pick<Source, "large" | "parsed">,
): Promise<Additions | undefined> {
  const values = valuesIn(persona, request);
  await restoreLarge(source, [source.parsed, request]);
  const found = persona.knowledge === undefined ? [] : await knowledge.find(persona, request.messages);
  return additionsOf(persona, request.messages, values, found);
}

/** The fields of a call's log line that say what was added. */
export function loggedAdditions({ sections, entries, tokens }: Additions): RequestLogFields {
  return {
    ...(sections.length > 0 && { knowledge_sections: sections.length }),
    ...(entries.length > 0 && { lorebook_entries: entries.length }),
    knowledge_tokens: tokens,
  };
}

/** The sections behind an answer, as its `metadata` shows them: a JSON list, as values there are strings. */
export function sourcesOf({ sections }: Additions): Metadata | undefined {
  if (sections.length === 0) return undefined;
  const sources = sections.map(({ file, heading, firstLine, lastLine, score }) => ({
    file,
    ...(heading !== "" && { heading }),
    lines: [firstLine, lastLine],
    score: Math.round(score * 1000) / 1000,
  }));
  return { [sourcesMember]: JSON.stringify(sources) };
}
