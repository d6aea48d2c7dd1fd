/** What a kind's outcomes are as a table in Markdown: medians of the rounds, and of the ratios to the bare proxy within each. */
import type { Kind } from "./compare-kinds.ts";
import type { Outcome, Slice } from "./compare-run.ts";
import { digits } from "./report.ts";
import { median } from "./statistics.ts";

const spread = (values: readonly number[]) =>
  `${digits(median(values))} (${digits(Math.min(...values))}–${digits(Math.max(...values))})`;

/** The median over the rounds, where there is a value for the bare proxy, too. */
function beside(values: readonly number[], bare: readonly number[], by: (one: number, other: number) => number) {
  return median(values.slice(0, bare.length).map((value, round) => by(value, bare[round]!)));
}

type Column = { readonly title: string; cell(outcome: Outcome, bare: Outcome | undefined): string };

const perWhat = ({ call, opening }: Kind) => (call.streamed && !opening ? "fragment" : "call");
const countOf = (kind: Kind, { calls, fragments }: Slice) => (perWhat(kind) === "fragment" ? fragments : calls);

/** @param read what is set against the bare proxy's */
const ratio = (read: (slice: Slice) => number): Column => ({
  title: "beside the bare proxy",
  cell: ({ slices, isDirect }, bare) => {
    const value = beside(slices.map(read), bare?.slices.map(read) ?? [], (one, other) => one / other);
    return isDirect || Number.isNaN(value) ? "–" : `${value.toFixed(2)}×`;
  },
});

const milliseconds = (title: string, read: (slice: Slice) => number): Column => ({
  title,
  cell: ({ slices, isBaseline }, bare) => {
    const added = beside(slices.map(read), bare?.slices.map(read) ?? [], (one, other) => one - other) * 1e3;
    const own = digits(median(slices.map(read)) * 1e3);
    if (isBaseline || Number.isNaN(added)) return own;
    return `${own} (${added < 0 ? "−" : "+"}${digits(Math.abs(added))})`;
  },
});

const orDash =
  (read: (outcome: Outcome) => string): Column["cell"] =>
  (outcome) =>
    outcome.isDirect ? "–" : read(outcome);

function columnsOf(kind: Kind): Column[] {
  const what = perWhat(kind);
  const cpu = (slice: Slice) => (slice.serverCpu * 1e6) / countOf(kind, slice);
  const average = (slices: readonly Slice[], read: (slice: Slice) => number) =>
    digits(median(slices.map((slice) => (read(slice) * 1e6) / countOf(kind, slice))));
  const resident: Column = {
    title: "resident, MB",
    cell: orDash(({ slices }) => (slices.at(-1)!.residentBytes / 1e6).toFixed(0)),
  };
  if (kind.load.by === "open streams") {
    const { streams } = kind.load;
    const held = (slice: Slice) => slice.heldBytes / 1e3 / streams;
    const title = "memory per open stream, KB";
    return [{ title, cell: orDash(({ slices }) => spread(slices.map(held))) }, ratio(held), resident];
  }
  const cold: Column = { title: "first calls, CPU, µs", cell: orDash((outcome) => cpu(outcome.cold!).toFixed(0)) };
  const times = [milliseconds("p50, ms", ({ p50 }) => p50), milliseconds("p99, ms", ({ p99 }) => p99)];
  return [
    ...(kind.cold ? [cold] : []),
    { title: `CPU per ${what}, µs`, cell: orDash(({ slices }) => spread(slices.map(cpu))) },
    ratio(cpu),
    ...(kind.load.by === "rate" || kind.opening ? times : []),
    {
      title: `${what}s/s`,
      cell: ({ slices }) => median(slices.map((slice) => countOf(kind, slice) / slice.seconds)).toFixed(0),
    },
    {
      title: `load + mock, CPU per ${what}, µs`,
      cell: ({ slices }) =>
        `${average(slices, (slice) => slice.cpuSeconds)} + ${average(slices, (slice) => slice.mockCpu)}`,
    },
    resident,
  ];
}

const wrongAnswers: Column = {
  title: "wrong answers",
  cell: ({ wrong, fault }) => (wrong === 0 ? "0" : `${wrong}: ${fault.replaceAll("|", "\\|")}`),
};

/** Those who failed have their reason instead of numbers. */
export function comparisonTable(kind: Kind, outcomes: readonly Outcome[]): string {
  const columns = [...columnsOf(kind), wrongAnswers];
  const bare = outcomes.find(({ isBaseline, slices }) => isBaseline && slices.length > 0);
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |`;
  const rows = outcomes.map((outcome) => {
    const { subject, failure } = outcome;
    if (failure === undefined) return line([subject.name, ...columns.map(({ cell }) => cell(outcome, bare))]);
    const reason = `failed: ${failure.replaceAll("|", "\\|")}`;
    return line([subject.name, reason, ...columns.slice(1).map(() => "")]);
  });
  const titles = ["server", ...columns.map(({ title }) => title)];
  return [line(titles), line(titles.map(() => "---")), ...rows].join("\n");
}
