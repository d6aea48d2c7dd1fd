/**
 * Keeps the path of a plain call as short as it is: counts, which are the same on every machine, in place of times. `recorded` may be
 * lowered by whoever shortens the path; whoever raises it says in the commit what the call gets for it.
 */
import { expect, test } from "bun:test";
import { join } from "node:path";
import type { Counted } from "./counting.ts";

/** Of a warm, plain call of the gateway: files and functions that run, how often they do, how many of the runs are asynchronous, and what is made. */
const recorded = { files: 97, functions: 293, runs: 379, asyncRuns: 23, made: 94 };

const sum = (counted: readonly Counted[]) => counted.reduce((total, { times }) => total + times, 0);

const countsOf = (counted: readonly Counted[]): typeof recorded => {
  const functions = counted.filter(({ isFunction }) => isFunction);
  return {
    files: new Set(functions.map(({ file }) => file)).size,
    functions: functions.length,
    runs: sum(functions),
    asyncRuns: sum(functions.filter(({ isAsync }) => isAsync)),
    made: sum(counted) - sum(functions),
  };
};

async function count(): Promise<Counted[]> {
  const words = [
    process.execPath,
    "--preload",
    join(import.meta.dir, "counting.ts"),
    join(import.meta.dir, "plain-call.ts"),
  ];
  const child = Bun.spawn(words, { stdout: "pipe", stderr: "pipe" });
  const [out, error, status] = await Promise.all([child.stdout.text(), child.stderr.text(), child.exited]);
  if (status !== 0) throw new Error(`the call was not counted: ${error}`);
  return JSON.parse(out);
}

test("a plain call runs no more functions, and makes no more objects, than recorded", async () => {
  let counted = await count();
  const isWithin = () =>
    Object.entries(recorded).every(([name, most]) => countsOf(counted)[name as keyof typeof recorded] <= most);
  // A timer of something else may run within a call: what is too much is so each time.
  for (let again = 0; again < 4 && !isWithin(); again += 1) counted = await count();
  if (isWithin()) return;
  const counts = countsOf(counted);
  const rows = [...Map.groupBy(counted, ({ file }) => file)].map(([file, its]) => ({ file, ...countsOf(its) }));
  for (const { file, functions, runs, made } of rows.sort((a, b) => b.runs - a.runs))
    console.error(`${file}: ${functions} functions, ${runs} runs, ${made} made`);
  expect(counts).toEqual(recorded);
});
