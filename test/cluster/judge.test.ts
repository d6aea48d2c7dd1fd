/** A history that keeps every promise, and what is found when it is doctored. */
import { describe, expect, test } from "bun:test";
import type { Attempt, FaultWindow, UpstreamCall } from "./history.ts";
import { violationsOf } from "./judge.ts";
import { type Admission, overAdmissionsOf } from "./windows.ts";

const leaseMs = 100;

const attempt = (changes: Partial<Attempt>): Attempt => ({
  ...{ id: "a", kind: "plain", node: 0, startedAt: 0, endedAt: 10, status: 200, isComplete: true, hasLeft: false },
  ...{ text: "a#1.0;a#1.1;" },
  ...changes,
});
const call = (changes: Partial<UpstreamCall>): UpstreamCall => ({
  ...{ id: "a", number: 1, node: 0, fragments: 2, startedAt: 0, endedAt: 5, isWhole: true },
  ...changes,
});
const event = (run: string, number: number, text: string) => `id: ${run}-${number}\ndata: ${text}\n\n`;
const stream = (run: string, id: string, number: number, from: number, to: number) =>
  Array.from({ length: to - from }, (_, at) => event(run, from + at, `${id}#${number}.${from + at};`)).join("");

type History = { attempts: Attempt[]; calls: UpstreamCall[]; windows: FaultWindow[] };

/** All times are in milliseconds; a fault is long over for what comes after 10,000. */
const history = (): History => ({
  windows: [{ of: "node", node: 1, kind: "kill", from: 1_025, to: 1_050 }],
  attempts: [
    // Plain: one that called, one that joined, one that was given the stored answer.
    attempt({ startedAt: 20_000, endedAt: 20_100 }),
    attempt({ node: 1, startedAt: 20_050, endedAt: 20_110 }),
    attempt({ node: 2, startedAt: 20_200, endedAt: 20_210 }),
    // A stream, whose first node was killed.
    attempt({
      id: "s",
      kind: "stream",
      node: 1,
      startedAt: 1_000,
      endedAt: 1_030,
      isComplete: false,
      text: stream("r", "s", 1, 0, 2),
    }),
    attempt({
      id: "s",
      kind: "stream",
      node: 0,
      startedAt: 1_040,
      endedAt: 1_050,
      status: 503,
      isComplete: false,
      text: "{}",
    }),
    attempt({ id: "s", kind: "stream", node: 2, startedAt: 1_100, endedAt: 1_400, text: stream("q", "s", 2, 0, 3) }),
    attempt({
      id: "s",
      kind: "stream",
      node: 0,
      startedAt: 1_210,
      endedAt: 1_260,
      isComplete: false,
      hasLeft: true,
      text: stream("q", "s", 2, 0, 1),
    }),
    attempt({
      id: "s",
      kind: "stream",
      node: 2,
      startedAt: 1_300,
      endedAt: 1_410,
      text: stream("q", "s", 2, 1, 3),
      after: "q-0",
    }),
    // Of another run than it asks for: from the beginning.
    attempt({
      id: "s",
      kind: "stream",
      node: 0,
      startedAt: 1_500,
      endedAt: 1_510,
      text: stream("q", "s", 2, 0, 3),
      after: "r-1",
    }),
    // In the background, and by an official client.
    attempt({ id: "b-accepted", kind: "background", startedAt: 30_000, endedAt: 30_010, text: '{"id":"resp"}' }),
    attempt({
      id: "b",
      kind: "background",
      node: 2,
      startedAt: 30_200,
      askedAt: 30_000,
      endedAt: 30_210,
      text: '"b#1.0;b#1.1;"',
    }),
    attempt({ id: "o", kind: "sdk", node: -1, startedAt: 40_000, endedAt: 40_100, text: "o#1.0;o#1.1;" }),
  ],
  calls: [
    call({ startedAt: 20_010, endedAt: 20_090 }),
    call({ id: "s", node: 1, fragments: 3, startedAt: 1_005, endedAt: 1_031, isWhole: false }),
    call({ id: "s", number: 2, node: 2, fragments: 3, startedAt: 1_160, endedAt: 1_390 }),
    call({ id: "b", node: 1, startedAt: 30_020, endedAt: 30_150 }),
    call({ id: "o", node: 2, startedAt: 40_010, endedAt: 40_090 }),
  ],
});

const judged = ({ attempts, calls, windows }: History) => violationsOf(attempts, calls, windows, leaseMs);
const of = (h: History, id: string) => h.attempts.filter((one) => one.id === id);
/** Changes one attempt of an id. */
const set = (id: string, at: number, changes: Partial<Attempt>) => (h: History) =>
  void Object.assign(of(h, id)[at]!, changes);
const setCall = (id: string, number: number, changes: Partial<UpstreamCall>) => (h: History) =>
  void Object.assign(h.calls.find((one) => one.id === id && one.number === number)!, changes);
const add = (changes: Partial<Attempt>) => (h: History) => void h.attempts.push(attempt(changes));
const addCall = (changes: Partial<UpstreamCall>) => (h: History) => void h.calls.push(call(changes));

describe("what a history is judged by", () => {
  test("one that keeps all promises has no violation", () => {
    expect(judged(history())).toEqual([]);
  });

  const doctored: [string, (h: History) => void, RegExp][] = [
    ["a retry with another text", set("a", 2, { text: "a#1.0;a#1.1; " }), /a: 2 whole answers/],
    [
      "a retry with another call's text",
      set("a", 2, { text: "a#2.0;a#2.1;" }),
      /has the answer of call 2, which was not made/,
    ],
    ["two calls in one text", set("a", 1, { text: "a#1.0;a#2.1;" }), /has the text of calls 1 and 2/],
    ["a fragment left out of a text", set("b", 0, { text: "b#1.1;" }), /fragment 1 stands where 0 should/],
    ["a fragment that comes twice", set("o", 0, { text: "o#1.0;o#1.0;o#1.1;" }), /fragment 0 stands where 1 should/],
    ["another id's text", set("a", 1, { text: "o#1.0;o#1.1;" }), /a at node 1: has the text of o/],
    ["an answer that was cut short", set("o", 0, { text: "o#1.0;" }), /its whole answer ends at 0/],
    [
      "an answer before its call had ended",
      setCall("a", 1, { endedAt: 20_105 }),
      /has the whole answer of call 1 before it had ended/,
    ],
    [
      "an answer of a call that was given up",
      setCall("a", 1, { isWhole: false }),
      /has the whole answer of call 1 before it had ended/,
    ],
    [
      "a call after the answer",
      addCall({ number: 2, node: 2, startedAt: 20_150, endedAt: 20_160 }),
      /a: call 2 by node 2 came after/,
    ],
    [
      "a call after a background answer",
      addCall({ id: "b", number: 2, startedAt: 30_300 }),
      /b: call 2 by node 0 came after/,
    ],
    [
      "a second call without a cause",
      addCall({ number: 2, node: 2, startedAt: 20_095 }),
      /was made, though nothing befell node 0/,
    ],
    [
      "a second call for a cause that is none",
      (h) => {
        addCall({ number: 2, node: 2, startedAt: 20_095 })(h);
        for (const of of ["clock", "coordination"] as const)
          h.windows.push({ of, node: 0, kind: "x", from: 20_000, to: 21_000 });
      },
      /was made, though nothing befell node 0/,
    ],
    [
      "a second call for a fault of another node",
      (h) => {
        addCall({ number: 2, node: 2, startedAt: 20_095 })(h);
        h.windows.push({ of: "node", node: 2, kind: "x", from: 20_000, to: 21_000 });
      },
      /was made, though nothing befell node 0/,
    ],
    [
      "a second call at once, though the lease could not have lapsed",
      (h) => {
        addCall({ number: 2, node: 2, startedAt: 20_050 })(h);
        h.windows.push({ of: "node", node: 0, kind: "x", from: 20_030, to: 20_060 });
      },
      /ran at once, though the first one's node was well/,
    ],
    [
      "a holder that goes on without its lease",
      (h) => {
        setCall("s", 1, { endedAt: 4_000 })(h);
        h.windows[0]!.to = 1_200;
      },
      /the first one went on for 2800 ms/,
    ],
    [
      "an event with two texts",
      set("s", 4, { text: stream("q", "s", 2, 1, 2) + event("q", 2, "s#2.2;!") }),
      /event q-2 has two texts/,
    ],
    [
      "an event left out",
      set("s", 2, { text: event("q", 0, "s#2.0;") + event("q", 2, "s#2.1;") }),
      /events q-0 q-2 after undefined/,
    ],
    ["an event that comes again", set("s", 4, { text: stream("q", "s", 2, 0, 3) }), /events q-0 q-1 q-2 after q-0/],
    ["a resumed stream that leaves some out", set("s", 4, { text: stream("q", "s", 2, 2, 3) }), /events q-2 after q-0/],
    [
      "two runs in one stream",
      set("s", 2, { text: stream("q", "s", 2, 0, 2) + event("p", 2, "s#2.2;") }),
      /events q-0 q-1 p-2 after/,
    ],
    [
      "another run after the answer",
      add({
        id: "s",
        kind: "stream",
        node: 1,
        startedAt: 1_600,
        endedAt: 1_610,
        isComplete: false,
        text: event("r", 0, "s#1.0;"),
      }),
      /has call 1, though call 2 had been answered before/,
    ],
    [
      "a beginning of another run after the answer",
      add({
        id: "s",
        kind: "stream",
        startedAt: 1_600,
        endedAt: 1_610,
        isComplete: false,
        text: event("p", 0, "role"),
      }),
      /though call 2 had been answered before/,
    ],
    [
      "an error without a cause",
      set("o", 0, { status: 503, isComplete: false, text: "{}" }),
      /o at node -1: failed without a cause, 40000 to 40100: 503/,
    ],
    [
      "an answer that breaks off without a cause",
      set("a", 1, { isComplete: false, text: "a#1.0;" }),
      /a at node 1: failed without a cause, .*: 200/,
    ],
    [
      "an answer that never came, without a cause",
      set("a", 0, { status: 0, isComplete: false, text: "" }),
      /failed without a cause, .*: 0/,
    ],
    [
      "a background response that failed without a cause",
      set("b", 0, { text: '{"status":"failed"}' }),
      /failed without a cause/,
    ],
  ];
  test.each(doctored)("%s is found", (_, doctor, told) => {
    const changed = history();
    doctor(changed);
    expect(judged(changed).join("\n")).toMatch(told);
  });
});

describe("what a window is judged by", () => {
  const loss = (from: number, to: number): FaultWindow => ({ of: "coordination", node: 0, kind: "x", from, to });
  /** One a second from then on, each admitted within a tenth of a second. */
  const row = (count: number, from = 0) =>
    Array.from({ length: count }, (_, at) => ({ startedAt: from + at * 1000, arrivedAt: from + at * 1000 + 100 }));
  const judged = (admissions: Admission[], losses: FaultWindow[] = [], kills: FaultWindow[] = []) =>
    overAdmissionsOf("k", 60, admissions, losses, kills);

  test("as many as may be, in every window", () => {
    expect(judged(row(200))).toEqual([]);
    expect(judged([...row(60), ...row(60, 30_000)], [loss(20_000, 21_000)])).toEqual([]);
    const twice = [...row(60), ...row(60, 100), ...row(30, 200)];
    expect(judged(twice, [loss(20_000, 21_000)], [loss(30_000, 31_000)])).toEqual([]);
    // Which may have been admitted before they came.
    expect(judged([...row(60), { startedAt: -10_000, arrivedAt: 5_000 }])).toEqual([]);
  });

  const doctored: [string, Admission[], FaultWindow[], RegExp][] = [
    [
      "one more",
      [...row(200), { startedAt: 70_010, arrivedAt: 70_020 }],
      [],
      /61 admitted within 60 s.*where 60 may be$/,
    ],
    ["a burst", [...row(40), ...row(15, 40_500), ...row(15, 40_600)], [], /70 admitted/],
    [
      "one more long after a loss",
      [...row(60), ...row(2, 59_000)],
      [loss(-70_000, -61_000)],
      /61 admitted|62 admitted/,
    ],
    [
      "more than a limit and its shares",
      [...row(60), ...row(60, 100), ...row(1, 200)],
      [loss(5_000, 6_000)],
      /121 admitted.*where 120 may be, though shares apply/,
    ],
  ];
  test.each(doctored)("%s is found", (_, admissions, losses, told) => {
    expect(judged(admissions, losses).join("\n")).toMatch(told);
  });
});
