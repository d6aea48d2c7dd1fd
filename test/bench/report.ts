/** Results as rows: the median of the rounds, their spread, and what that is beside the bare proxy. */
import type { Measure } from "./measures.ts";
import type { CaseResults } from "./rounds.ts";
import { scaleOf } from "./rounds.ts";
import type { Scenario } from "./scenarios.ts";
import { median } from "./statistics.ts";

export type Row = {
  readonly scenario: string;
  readonly case: string;
  readonly measure: string;
  readonly unit: string;
  /** One per round. */
  readonly values: readonly number[];
  readonly median: number;
  readonly least: number;
  readonly most: number;
  /** Beside the first case of the same round: the median of the rounds' ratios or differences. */
  readonly comparison?: number;
  readonly against?: Measure["against"];
  readonly target?: { readonly most: number; readonly of: "comparison" | "value"; readonly met: boolean };
};

export function summarise(values: readonly number[]) {
  return { values, median: median(values), least: Math.min(...values), most: Math.max(...values) };
}

export function rowsOf(scenario: Scenario, all: readonly CaseResults[]): Row[] {
  const scale = scaleOf(scenario);
  const [reference] = all;
  return scenario.measures.flatMap((measure) => {
    const read = ({ results }: CaseResults) => results.map((result) => measure.read(result, scale));
    const referenceValues = read(reference!);
    return all.map((one): Row => {
      const values = read(one);
      const row = {
        scenario: scenario.name,
        case: one.case.label,
        measure: measure.label,
        unit: measure.unit,
        ...summarise(values),
      };
      if (one === reference) return row;
      const comparisons = values.map((value, round) =>
        measure.against === "ratio" ? value / referenceValues[round]! : value - referenceValues[round]!,
      );
      const compared = { ...row, comparison: median(comparisons), against: measure.against };
      const target = scenario.targets.find((known) => known.measure === measure && known.label === one.case.label);
      if (target === undefined) return compared;
      const reached = target.of === "comparison" ? compared.comparison : row.median;
      return { ...compared, target: { most: target.most, of: target.of, met: reached <= target.most } };
    });
  });
}

/** Every fault of every call, by case. */
export function faultsOf(scenario: Scenario, all: readonly CaseResults[]): string[] {
  return all.flatMap(({ case: one, results }) =>
    results.flatMap(({ faults, checkedCalls }) =>
      Object.entries(faults).map(
        ([fault, count]) => `${scenario.name}, ${one.label}: ${count} of ${checkedCalls} calls: ${fault}`,
      ),
    ),
  );
}

/** Three digits that matter. */
export const digits = (value: number) => {
  if (Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  return value.toFixed(size >= 1000 ? 0 : size >= 100 ? 0 : size >= 10 ? 1 : 2);
};

function comparisonText({ comparison, against, unit }: Row): string {
  if (comparison === undefined) return "";
  return against === "ratio"
    ? `${comparison.toFixed(2)}×`
    : `${comparison < 0 ? "−" : "+"}${digits(Math.abs(comparison))} ${unit}`;
}

function targetText({ target, against, unit }: Row): string {
  if (target === undefined) return "";
  const sign = target.of === "value" ? ` ${unit}` : against === "ratio" ? "×" : ` ${unit}`;
  return `≤ ${target.of === "comparison" && against === "difference" ? "+" : ""}${target.most}${sign} ${target.met ? "✓" : "✗"}`;
}

const heading = ["scenario", "measure", "case", "median", "min–max", "beside the first", "target"];

/** A Markdown table, its columns padded so that it reads in a terminal too. */
export function tableOf(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.scenario,
    `${row.measure}, ${row.unit}`,
    row.case,
    digits(row.median),
    `${digits(row.least)}–${digits(row.most)}`,
    comparisonText(row),
    targetText(row),
  ]);
  const widths = heading.map((title, at) => Math.max(title.length, ...cells.map((line) => line[at]!.length)));
  const line = (values: readonly string[]) => `| ${values.map((value, at) => value.padEnd(widths[at]!)).join(" | ")} |`;
  return [line(heading), line(widths.map((width) => "-".repeat(width))), ...cells.map(line)].join("\n");
}
