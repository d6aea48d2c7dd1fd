/** bun test/simulation/main.ts --nodes 1000 --ids 20000 --seed 1 --seconds 300 */
import { parseArgs } from "node:util";
import { simulateLeases } from "./leases.ts";

const { values } = parseArgs({
  options: {
    nodes: { type: "string", default: "1000" },
    ids: { type: "string", default: "20000" },
    seed: { type: "string", default: "1" },
    seconds: { type: "string", default: "300" },
  },
});
const startedAt = performance.now();
const { violations, ...numbers } = await simulateLeases({
  nodes: Number(values.nodes),
  ids: Number(values.ids),
  seed: Number(values.seed),
  span: Number(values.seconds) * 1000,
});
console.log(JSON.stringify({ ...values, ...numbers, violations: violations.length }));
console.log(`${((performance.now() - startedAt) / 1000).toFixed(1)} s`);
for (const violation of violations.slice(0, 3)) console.log(`\n${violation}`);
process.exit(violations.length === 0 ? 0 : 1);
