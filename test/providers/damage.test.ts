/**
 * Every example stream of every family, damaged in every place: what a reader makes of it is the whole answer or an error,
 * never less. Where a format gives no way to notice a damage, that is said here, and nowhere else.
 */
import { describe, expect, test } from "bun:test";
import { StreamFold } from "../../src/protocols/chat/fold.ts";
import type { CompletionBody } from "../../src/protocols/chat/schema.ts";
import { InvalidAnswer, UpstreamFault } from "../../src/protocols/errors.ts";
import type { AnsweredCall, RemoteProvider } from "../../src/providers/provider.ts";
import { decodeStream } from "../helpers/decode-stream.ts";
import { answeredCases, callOf, fixtureFamilies } from "../helpers/fixtures.ts";
import { runs, some } from "../helpers/long-form.ts";
import { Random } from "../helpers/random.ts";

type Json = Record<string, unknown>;
type Example = {
  readonly path: string;
  /** What the upstream speaks in this example. */
  readonly format: string;
  readonly provider: RemoteProvider;
  readonly call: AnsweredCall;
  readonly events: string[];
};
type Damage = "drop" | "repeat" | "swap" | "insert";

/** Events, each with its closing blank line. */
function eventsIn(text: string): string[] {
  return (text.replaceAll("\r\n", "\n").match(/[\s\S]*?\n\n+|[\s\S]+$/g) ?? []).filter((event) =>
    /^data:/m.test(event),
  );
}

const examples = fixtureFamilies().flatMap((family) =>
  answeredCases(family.folder, "sse").map(
    (one): Example => ({
      path: one.path,
      format: "use_responses_api" in family.extras ? "responses" : family.provider.format,
      provider: family.provider,
      call: callOf(one, family),
      events: eventsIn(one.upstream),
    }),
  ),
);

/** What a caller gets, as the relay makes it; undefined for an error. */
function answerOf({ provider, call }: Example, text: string): CompletionBody | undefined {
  const fold = new StreamFold();
  try {
    const pieces = [new TextEncoder().encode(text)];
    for (const bodies of decodeStream(provider.streamDecoder(call), pieces)) fold.push(bodies);
  } catch (error) {
    if (error instanceof InvalidAnswer || error instanceof UpstreamFault) return undefined;
    throw error;
  }
  return fold.complete ? JSON.parse(JSON.stringify(fold.result())) : undefined;
}

const whole = examples
  .map((example) => ({ ...example, answer: answerOf(example, example.events.join("")) }))
  .filter(({ answer }) => answer !== undefined);

const jsonOf = (event: string): Json => {
  try {
    return JSON.parse(/^data: ?(.*)$/m.exec(event)![1]!);
  } catch {
    return {};
  }
};

type Place = { readonly damage: Damage; readonly event: Json; readonly next: Json; readonly all: readonly Json[] };

/** The damages that no reader can notice, by what the formats say of their events; in other formats every one is noticed. */
const unnoticeable: Record<string, (place: Place) => boolean> = {
  // Blocks are numbered, the fragments of one are not; nor is it told how many blocks there are.
  messages({ damage, event, next, all }) {
    // Nor which message a fragment is of.
    if (damage === "insert") return event["type"] === "content_block_delta" || event["type"] === "content_block_start";
    const isOnly = all.filter(({ index }) => index === event["index"]).length === 1;
    if (event["type"] === "content_block_start") return damage === "drop" && isOnly;
    const isOfSame = next["type"] === "content_block_delta" && next["index"] === event["index"];
    return event["type"] === "content_block_delta" && (damage !== "swap" || isOfSame);
  },
  // Nothing is numbered: only an end that is missing, or behind which more comes, can be told.
  "generate-content": ({ damage, event, next }) =>
    damage === "insert" || (!hasEnd(event) && (damage !== "swap" || !hasEnd(next))),
  // The same, and `[DONE]` without a reason for the end is an end.
  chat: ({ damage, event, next }) =>
    damage === "drop" || damage === "insert" || (!hasReason(event) && (damage !== "swap" || !hasReason(next))),
  // Events are numbered, and texts, calls and items are repeated where they end.
  responses: () => false,
};

/** Counts come in events that need not come, in chat completions and with Gemini: there the choices alone can be vouched for. */
const withoutCounts = new Set(["chat", "generate-content"]);

function isSame(format: string, made: CompletionBody, answer: CompletionBody): boolean {
  return withoutCounts.has(format) ? Bun.deepEquals(made.choices, answer.choices) : Bun.deepEquals(made, answer);
}

/** What an answer says: citations and counts of another one may have slipped in. */
function wordsOf({ choices }: CompletionBody): string {
  return JSON.stringify(
    choices.map(({ message, finish_reason }) => [message.content, message.tool_calls, finish_reason]),
  );
}

function hasEnd({ candidates }: Json): boolean {
  return (candidates as Json[] | undefined)?.some(({ finishReason }) => finishReason !== undefined) ?? false;
}

function hasReason({ choices }: Json): boolean {
  return (choices as Json[] | undefined)?.some(({ finish_reason }) => finish_reason != null) ?? false;
}

function damaged(events: readonly string[], at: number, damage: Damage): string {
  const [event, next = ""] = [events[at]!, events[at + 1]];
  const instead = { drop: "", repeat: event + event, swap: next + event, insert: "" }[damage];
  return [...events.slice(0, at), instead, ...events.slice(at + (damage === "swap" ? 2 : 1))].join("");
}

test("there are many examples", () => expect(whole.length).toBeGreaterThan(90));

describe.each(whole.map((example) => [example.path, example] as const))("%s", (path, example) => {
  const { events, answer, format } = example;
  const all = events.map(jsonOf);
  const isUnnoticeable = unnoticeable[format] ?? (() => false);
  const isWrong = (text: string) => {
    const made = answerOf(example, text);
    return made !== undefined && !isSame(format, made, answer!);
  };

  test.each(["drop", "repeat", "swap"] as const)("%s any event: the whole answer, or an error", (damage) => {
    const wrong = events.filter((_, at) => {
      const [event, next] = [all[at]!, all[at + 1]];
      if (damage === "swap" && next === undefined) return false;
      return !isUnnoticeable({ damage, event, next: next ?? {}, all }) && isWrong(damaged(events, at, damage));
    });
    expect(wrong).toEqual([]);
  });

  test("an event of another answer in any place: the whole answer, or an error", () => {
    // Those of one family are often made from one recording, and have its ids.
    const isForeign = (one: Example) => one.format === format && one.path.split("/")[0] !== path.split("/")[0];
    const foreign = whole.filter(isForeign).flatMap((one) => one.events);
    const random = Random.fromEnvironment("TROUPE_TEST_SEED_FOREIGN");
    const wrong: string[] = [];
    for (let turn = 0; foreign.length > 0 && turn < runs(60); turn += 1) {
      const [at, other] = [1 + random.below(events.length), random.pick(foreign)];
      const place: Place = { damage: "insert", event: jsonOf(other), next: all[at]!, all };
      if (isUnnoticeable(place)) continue;
      const made = answerOf(example, events.toSpliced(at, 0, other).join(""));
      if (made !== undefined && wordsOf(made) !== wordsOf(answer!)) wrong.push(`${at}: ${other}`);
    }
    expect(wrong).toEqual([]);
  });

  test("the last event's name with nothing in it: no whole answer, unless all was said before", () => {
    const name = /^event: .*$/m.exec(events.at(-1)!)?.[0];
    if (name === undefined) return;
    const [told, empty] = [events.slice(0, -1), `${name}\ndata: {}\n\n`];
    expect(answerOf(example, [...told, empty].join(""))).toBeUndefined();
  });

  test("cut it anywhere: the whole answer, or an error", () => {
    const text = events.join("");
    const ends = some([...text.slice(0, -1)].keys().toArray(), 5);
    const wrong = ends.find((end) => isWrong(text.slice(0, end)));
    expect(text.slice(0, wrong ?? 0)).toBe("");
  });

  test("damage the JSON of any event: the whole answer, or an error", () => {
    const wrong: string[] = [];
    for (const [at, event] of events.entries()) {
      const data = /^data: ?(\{.*\})\s*$/m.exec(event)?.[1];
      if (data === undefined) continue;
      const half = data.length / 2;
      const instead = [
        data.slice(0, -1),
        data.slice(1),
        data.slice(0, half),
        data.slice(half),
        "<html>",
        "null",
        "[",
        "1",
      ];
      for (const part of instead) {
        const text = events
          .with(
            at,
            event.replace(data, () => part),
          )
          .join("");
        if (isWrong(text)) wrong.push(part);
      }
    }
    expect(wrong).toEqual([]);
  });
});

/** Values of kinds that nobody expects; each goes into every place of every example in turn. */
const deep = JSON.parse(`${"[".repeat(900)}${"]".repeat(900)}`);
const strange: unknown[] = [
  ...[null, 0, -1, 1e308, true, "", "x", [], {}, [null], [[]], [{}], { a: 1 }, { toString: 1, valueOf: 2 }],
  ...[{ __proto__: null, length: -1 }, ["x", 1], { type: "text" }, "stop", deep],
];

function* withOneChanged(value: unknown, change: (old: unknown) => unknown): Generator<unknown> {
  yield change(value);
  if (typeof value !== "object" || value === null) return;
  for (const [key, inner] of Object.entries(value)) {
    for (const changed of withOneChanged(inner, change)) {
      yield Array.isArray(value) ? value.with(Number(key), changed) : { ...value, [key]: changed };
    }
  }
}

/** Reading, folding and writing anew: nothing may be thrown but what says that the answer is none. */
function expectOnlyFaults(act: () => unknown): void {
  try {
    JSON.stringify(act());
  } catch (error) {
    if (error instanceof InvalidAnswer || error instanceof UpstreamFault) return;
    throw error;
  }
}

const families = [...new Set(examples.map(({ path }) => path.split("/")[0]!))];

describe.each(families)("%s, with any value in any place", (family) => {
  const own = examples.filter(({ path }) => path.startsWith(`${family}/`));
  let turn = 0;
  const next = () => strange[turn++ % strange.length];

  test("of a stream", () => {
    for (const example of own) {
      for (const [at, event] of example.events.entries()) {
        const data = /^data: ?(\{.*\})\s*$/m.exec(event)?.[1];
        if (data === undefined) continue;
        for (const changed of withOneChanged(jsonOf(event), next)) {
          const text = event.replace(data, () => JSON.stringify(changed));
          expectOnlyFaults(() => answerOf(example, example.events.with(at, text).join("")));
        }
      }
    }
  });

  test("of a plain answer", () => {
    const { provider } = own[0]!;
    const call = own[0]!.call;
    for (const { upstream } of answeredCases(family, "json")) {
      for (const _ of strange) {
        for (const changed of withOneChanged(JSON.parse(upstream), next)) {
          expectOnlyFaults(() => provider.decode(changed, "the text", call));
        }
        turn += 1;
      }
    }
  });
});
