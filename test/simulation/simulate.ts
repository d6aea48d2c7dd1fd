/** Runs one simulation. */
import { BudgetedCalls } from "./budgets.ts";
import { type CallOptions, Calls } from "./calls.ts";
import { Cluster, type ClusterOptions, type ClusterResult, type Part } from "./cluster.ts";
import { Windows } from "./windows.ts";

export type SimulationOptions = ClusterOptions & {
  /** One of `parts`, or `all`. */
  readonly part: string;
  /** How many callers come, in place of 1. */
  readonly load?: number;
};

const callsOf = (cluster: Cluster, load: number, options: Omit<CallOptions, "ids">) =>
  new Calls(cluster, { ...options, ids: Math.ceil(3 * load * cluster.options.nodes) });

type MakePart = (cluster: Cluster, load: number) => Part;

const parts: Readonly<Record<string, MakePart>> = {
  leases: (cluster, load) => callsOf(cluster, load, { name: "leases", streams: 0 }),
  streams: (cluster, load) => callsOf(cluster, load, { name: "streams", streams: 1_000 }),
  windows: (cluster, load) => new Windows(cluster, "coordination", load),
  budgets: (cluster, load) => new BudgetedCalls(cluster, Math.ceil(10 * load * cluster.options.nodes)),
};
/** What is run by its name alone. */
const apart: Readonly<Record<string, MakePart>> = {
  /** What a node holds is one list: so `all` has both kinds of answers in one part. */
  calls: (cluster, load) => callsOf(cluster, load, { name: "calls", streams: 500 }),
  // Nodes are counted in the same tables as those of `windows`.
  databaseWindows: (cluster, load) => new Windows(cluster, "database", load),
};

const all = ["calls", "windows", "budgets"];

/** @throws Error where there is no such part */
export async function simulate(options: SimulationOptions): Promise<ClusterResult> {
  const { stackTraceLimit } = Error;
  // Refusals are errors, and a stack of each takes a tenth of the time.
  Error.stackTraceLimit = 0;
  try {
    return await run(options);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

function run(options: SimulationOptions): Promise<ClusterResult> {
  const { part, load = 1, ...rest } = options;
  const names = part === "all" ? all : [part];
  const cluster = new Cluster(rest);
  const chosen = names.map((name) => {
    const known = { ...parts, ...apart };
    const make = known[name];
    if (make === undefined) throw new Error(`there is no part '${name}', but ${Object.keys(known).join(", ")}, all`);
    return make(cluster, load);
  });
  return cluster.run(chosen);
}
