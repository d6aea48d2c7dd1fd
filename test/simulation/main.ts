/** Simulates many nodes under faults; see CONTRIBUTING.md. Prints one line of JSON, and ends with code 1 where a promise was broken. */
import { parseArgs } from "node:util";
import type { FaultPlan } from "./cluster.ts";
import { simulate } from "./simulate.ts";

const text = (words: string) => ({ type: "string", default: words }) as const;
const { values } = parseArgs({
  options: {
    part: text("all"),
    nodes: text("1000"),
    seed: text("1"),
    seconds: text("60"),
    load: text("1"),
    faults: text("all"),
  },
});
const { violations, ...result } = await simulate({
  part: values.part,
  nodes: Number(values.nodes),
  seed: Number(values.seed),
  span: Number(values.seconds) * 1000,
  load: Number(values.load),
  faults: values.faults as FaultPlan,
});
console.log(JSON.stringify({ ...values, ...result, violations: violations.length }));
const { user, system } = process.cpuUsage();
console.error(`${((user + system) / 1e6).toFixed(1)} s of the processor`);
for (const violation of violations.slice(0, 3)) console.error(`\n${violation}`);
process.exit(violations.length === 0 ? 0 : 1);
