/** Bounds of the tools that one request calls here: the configuration gives their defaults, and a persona its own. */

const seconds = { minimum: 0.1, maximum: 86_400 } as const;

export const toolBounds = {
  turns: {
    minimum: 1,
    maximum: 100,
    description: "Rounds of tool calls in one request; then the model has to answer with what it knows.",
  },
  parallel: { minimum: 1, maximum: 32, description: "Tool calls of one request that run at once." },
  calls: { minimum: 1, maximum: 1000, description: "Tool calls in one request." },
  seconds: { ...seconds, description: "How long tools may be called in one request." },
  result_bytes: {
    minimum: 256,
    maximum: 16 * 1024 ** 2,
    description: "Size of a tool's result; the rest is cut off.",
  },
  total_bytes: {
    minimum: 256,
    maximum: 64 * 1024 ** 2,
    description: "Size of all results in one request; the rest is cut off.",
  },
  dollars: {
    minimum: 0,
    maximum: 1_000_000,
    description: "Cost of a request's turns after which no more tools are called. Default: no limit but the budgets.",
  },
  find_above: {
    minimum: 1,
    maximum: 1000,
    description:
      "Number of tools above which a model is given `find_tools`, to search them, and those that it has found.",
  },
} as const;
