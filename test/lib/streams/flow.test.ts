import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  Buffered,
  type Flow,
  folded,
  IterableSource,
  Pulled,
  type Sink,
  type Source,
} from "../../../src/lib/streams/flow.ts";
import { IdleTimer } from "../../../src/lib/time/idle-timer.ts";
import { runs } from "../../helpers/long-form.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

const idle: Flow = { pause() {}, resume() {}, cancel() {} };

/** Writes down what it is given, and reacts to each piece as the test says. */
class Recorder implements Sink<number, unknown> {
  readonly told: (number | string)[] = [];
  isNested = false;
  #isInside = false;
  readonly #react: (piece: number) => void;

  constructor(react: (piece: number) => void = () => {}) {
    this.#react = react;
  }
  push(piece: number): void {
    this.isNested ||= this.#isInside;
    this.#isInside = true;
    this.told.push(piece);
    this.#react(piece);
    this.#isInside = false;
  }
  end(how: unknown): void {
    this.told.push(typeof how === "string" ? how : "end");
  }
  fail(error: unknown): void {
    this.told.push(`fail ${(error as Error).message}`);
  }
}

const doings = ["push", "pause", "resume", "flow", "end", "fail", "cancel"] as const;
type Doing = (typeof doings)[number];
const onPiece = fc.constantFrom<Doing | "go on" | "pause and resume">("go on", "pause", "pause and resume", "cancel");

test("whatever is done in whatever order: pieces come once and in order, none inside another, nothing behind the end", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom(...doings), { maxLength: 40 }),
      fc.infiniteStream(onPiece),
      fc.integer({ min: 1, max: 4 }),
      (script, reactions, max) => {
        let isHeldBack = false;
        const hold = (isHeld: boolean) => () => {
          isHeldBack = isHeld;
        };
        const source = { ...idle, pause: hold(true), resume: hold(false) };
        const stage = new Buffered<number, string>(source, max);
        let isCancelled = false;
        const act = (what: string) => {
          if (what.startsWith("pause")) stage.pause();
          if (what === "pause and resume") stage.resume();
          if (what === "cancel") stage.cancel();
          isCancelled ||= what === "cancel";
        };
        const sink = new Recorder((piece) => {
          expect(isCancelled).toBe(false);
          expect(piece).toBeGreaterThanOrEqual(0);
          act(reactions.next().value as string);
        });
        let [pushed, flows, ended] = [0, false, ""];
        for (const what of script) {
          if (isCancelled) break;
          if (what === "push" && ended === "") stage.push(pushed++);
          else if (what === "flow" && !flows) {
            flows = true;
            stage.flow(sink);
          } else if (what === "end" && ended === "") {
            ended = what;
            stage.end(what);
          } else if (what === "fail" && ended === "") {
            ended = "fail ouch";
            stage.fail(new Error("ouch"));
          } else if (what === "resume") stage.resume();
          else act(what);
          expect(ended !== "" || stage.held.length <= max || isHeldBack).toBe(true);
        }
        if (!flows && !isCancelled) stage.flow(sink);
        for (let turns = 0; turns <= pushed; turns += 1) stage.resume();
        const numbers = sink.told.filter((one) => typeof one === "number");
        expect(numbers).toEqual(numbers.map((_, at) => at));
        expect(sink.isNested).toBe(false);
        if (isCancelled) return;
        expect(numbers).toHaveLength(pushed);
        expect(sink.told.slice(numbers.length)).toEqual(ended === "" ? [] : [ended]);
      },
    ),
    { numRuns: runs(2000) },
  );
});

test("what is all there is given as it is wanted, and what can't be made is how it fails", () => {
  const source: Source<number, string> = new IterableSource([0, 1, 2], "end");
  const sink = new Recorder((piece) => piece === 1 && source.pause());
  source.flow(sink);
  expect(sink.told).toEqual([0, 1]);
  source.resume();
  expect(sink.told).toEqual([0, 1, 2, "end"]);
  const broken = new Recorder();
  const failing = (function* () {
    yield 0;
    throw new Error("ouch");
  })();
  new IterableSource(failing, "end").flow(broken);
  expect(broken.told).toEqual([0, "fail ouch"]);
});

test("who asks for one piece at a time gets all, and the end or the failure", async () => {
  const buffered = new Buffered<number, string>(idle, 1);
  const pulled = new Pulled(buffered);
  buffered.push(0);
  expect(await pulled.next()).toEqual({ value: 0, done: false });
  buffered.push(1);
  const second = pulled.next();
  const third = second.then(() => pulled.next());
  buffered.push(2);
  buffered.end("over");
  expect([await second, await third, await pulled.next()]).toEqual([
    { value: 1, done: false },
    { value: 2, done: false },
    { value: "over", done: true },
  ]);
  const failing = new Buffered<number>(idle, 1);
  const asked = new Pulled(failing).next();
  failing.fail(new Error("ouch"));
  await expect(asked).rejects.toThrow("ouch");
});

test("a flow is folded to what it amounts to; a fold that throws cancels it", async () => {
  let sum = 0;
  const push = (piece: number) => {
    sum += piece;
    if (sum > 5) throw new Error("too much");
  };
  const fold = { push, end: () => sum };
  expect(await folded(new IterableSource([1, 2], "end"), fold)).toBe(3);
  const endless = new IterableSource(
    (function* () {
      for (;;) yield 1;
    })(),
    "end",
  );
  await expect(folded(endless, fold)).rejects.toThrow("too much");
  const failing = new Buffered<number>(idle, 1);
  failing.fail(new Error("ouch"));
  expect(await folded(failing, { ...fold, fail: () => -1 })).toBe(-1);
});

test("silence is told of as often as it lasts for the time, and not once it is stopped", () => {
  const clock = new ManualClock();
  let silences = 0;
  const timer = new IdleTimer(clock, 1000, () => {
    silences += 1;
  });
  clock.advance(5000);
  timer.touch();
  timer.start();
  clock.advance(900);
  timer.touch();
  clock.advance(900);
  expect(silences).toBe(0);
  clock.advance(100);
  expect(silences).toBe(1);
  clock.advance(1000);
  expect(silences).toBe(2);
  timer.stop();
  clock.advance(10_000);
  expect(silences).toBe(2);
});
