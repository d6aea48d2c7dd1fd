/** Numbers over time: drawn, read out exactly by pointer and by keyboard, and as a table behind the drawing. */
import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import "./chart.css";
import { count, duration, exactMoney, short } from "./format.tsx";
import type { Tone } from "./layout.tsx";
import { Table } from "./table.tsx";

export type ChartSeries = {
  readonly label: string;
  /** One for each of `x`; null: there is none. */
  readonly values: readonly (number | null)[];
  readonly tone?: Tone;
};

/** `money`: micro-dollars. Another word stands behind whole numbers. */
export type Unit = "money" | "ms" | "percent" | (string & {});

type ChartProps = {
  readonly title: string;
  readonly series: readonly ChartSeries[];
  /** Unix seconds, ascending. */
  readonly x: readonly number[];
  readonly unit: Unit;
  /** In pixels. */
  readonly height?: number;
  /** Bars for sums of spans of time; stacked: each stands on the one before. */
  readonly kind?: "lines" | "bars" | "stacked";
};

/** @returns all that is known of the value, as people read it */
export function exact(value: number | null | undefined, unit: Unit): string {
  if (value === null || value === undefined) return "–";
  if (unit === "money") return exactMoney(value);
  if (unit === "ms") return duration(value);
  return unit === "percent" ? `${value.toFixed(2)} %` : `${count(value)} ${unit}`;
}

function axisText(value: number, unit: Unit): string {
  if (unit === "money") return `$${short(value / 1e6)}`;
  if (unit === "ms") return value === 0 ? "0" : value < 1_000 ? `${value} ms` : `${value / 1_000} s`;
  return unit === "percent" ? `${value} %` : short(value);
}

const daySeconds = 86_400;

type TimeWords = { readonly full: (at: number) => string; readonly axis: (at: number) => string };

/** Spans of time by their beginnings, in UTC like the ledger's: as exact as they are apart. */
function timeWords(x: readonly number[]): TimeWords {
  const step = x.slice(1).reduce((least, at, before) => Math.min(least, at - x[before]!), Number.POSITIVE_INFINITY);
  const isOfDays = step >= daySeconds && x.every((at) => at % daySeconds === 0);
  const isOfMonths = isOfDays && x.length > 1 && step >= 28 * daySeconds;
  const words = (at: number, from: number, to: number) => new Date(at * 1_000).toISOString().slice(from, to);
  if (isOfMonths) return { full: (at) => words(at, 0, 7), axis: (at) => words(at, 0, 7) };
  if (isOfDays) return { full: (at) => words(at, 0, 10), axis: (at) => words(at, 5, 10) };
  return {
    full: (at) => `${words(at, 0, 10)} ${words(at, 11, 16)} UTC`,
    axis: (at) => (at % daySeconds === 0 ? words(at, 5, 10) : words(at, 11, 16)),
  };
}

/** Between two times of the axis, in seconds; months and years begin where the calendar's do. */
const axisSteps = [60, 300, 900, ...[1, 3, 6, 12, 24, 48, 168, 336, 720, 1440, 2160, 4320, 8760].map((h) => h * 3_600)];

const hues = 6;
const tokenOf = ({ tone }: ChartSeries, at: number) =>
  tone === undefined ? `--chart-${(at % hues) + 1}` : tone === "quiet" ? "--muted" : `--${tone}`;
const colour = (token: string) => getComputedStyle(document.documentElement).getPropertyValue(token).trim();

type Drawing = Pick<ChartProps, "series" | "x" | "unit" | "kind"> & { readonly height: number };

/** What is drawn: of stacked series the highest first, so that the lower ones stand before it. */
function dataOf({ series, x, kind }: Drawing): uPlot.AlignedData {
  const values = series.map((one) => [...one.values]);
  if (kind !== "stacked") return [[...x], ...values];
  for (let at = 1; at < values.length; at += 1)
    values[at] = values[at]!.map((value, index) => (value ?? 0) + (values[at - 1]![index] ?? 0));
  return [[...x], ...values.toReversed()];
}

function optionsOf({ series, x, unit, kind, height }: Drawing, width: number, onIndex: (index?: number) => void) {
  const colours = series.map((one, at) => () => colour(tokenOf(one, at)));
  const bars = kind === "bars" || kind === "stacked" ? uPlot.paths.bars!({ size: [0.75, 48] }) : undefined;
  const lines = (kind === "stacked" ? colours.toReversed() : colours).map((stroke) => ({
    stroke,
    width: bars === undefined ? 1.5 : 0,
    ...(bars !== undefined && { paths: bars, fill: stroke, points: { show: false } }),
  }));
  const axis = {
    stroke: () => colour("--muted"),
    grid: { stroke: () => colour("--line"), width: 1 },
    ticks: { show: false },
    font: "11px system-ui, sans-serif",
  };
  const [first = 0, last = first] = [x[0], x.at(-1)];
  // A bar has room on both sides, and a single value has an axis.
  const step = x.length < 2 ? 3_600 : (last - first) / (x.length - 1);
  const margin = bars === undefined && x.length > 1 ? 0 : step / 2;
  return {
    width,
    height,
    tzDate: (at: number) => uPlot.tzDate(new Date(at * 1_000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: bars === undefined } },
    padding: [8, 20, 0, 0] as [number, number, number, number],
    scales: {
      x: { range: (): [number, number] => [first - margin, last + margin] },
      y: { range: (_: uPlot, __: number, max: number): [number, number] => [0, max > 0 ? max * 1.05 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        space: 64,
        incrs: axisSteps.filter((one) => one >= Math.min(step, 30 * daySeconds)),
        values: (_: uPlot, at: number[]) => at.map(timeWords(x).axis),
      },
      { ...axis, size: 58, space: 28, values: (_: uPlot, at: number[]) => at.map((value) => axisText(value, unit)) },
    ],
    series: [{}, ...lines],
    hooks: { setCursor: [({ cursor }: uPlot) => onIndex(cursor.idx ?? undefined)] },
  } satisfies uPlot.Options;
}

/** Draws anew where colours change: the theme that was chosen, or the system's. */
function onTheme(redraw: () => void): () => void {
  const chosen = new MutationObserver(redraw);
  chosen.observe(document.documentElement, { attributeFilter: ["data-theme"] });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", redraw);
  return () => {
    chosen.disconnect();
    system.removeEventListener("change", redraw);
  };
}

const moves: Readonly<Record<string, number>> = {
  ArrowLeft: -1,
  ArrowRight: 1,
  PageUp: -10,
  PageDown: 10,
  Home: Number.NEGATIVE_INFINITY,
  End: Number.POSITIVE_INFINITY,
};

const longestOf = (texts: readonly string[]) =>
  texts.reduce((long, one) => (one.length > long.length ? one : long), "");

/** Has the room of its longest text from the first on: what is read under the pointer moves nothing. */
const Held = ({ longest, children }: { readonly longest: string; readonly children: string }) => (
  <span class="held">
    <span aria-hidden="true">{longest}</span>
    <span>{children}</span>
  </span>
);

export function Chart({ title, series, x, unit, height = 180, kind = "lines" }: ChartProps) {
  const place = useRef<HTMLElement>(null);
  const plot = useRef<uPlot>(undefined);
  const [index, setIndex] = useState<number>();
  const [spoken, setSpoken] = useState("");
  const [isOpen, setOpen] = useState(false);
  const titleId = useId();
  const drawing = { series, x, unit, kind, height };
  const shape = JSON.stringify([series.map(({ tone }) => tone), unit, kind, height, x.length, x[0], x.at(-1)]);
  useEffect(() => {
    const element = place.current!;
    const made = new uPlot(optionsOf(drawing, element.clientWidth, setIndex), dataOf(drawing), element);
    plot.current = made;
    const sizes = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    sizes.observe(element);
    const leaveTheme = onTheme(() => made.redraw());
    return () => {
      leaveTheme();
      sizes.disconnect();
      made.destroy();
      setIndex(undefined);
    };
  }, [shape]);
  useEffect(() => plot.current?.setData(dataOf(drawing)), [JSON.stringify(series.map(({ values }) => values)), shape]);

  const time = timeWords(x).full;
  const textAt = (at: number) =>
    `${time(x[at]!)}: ${series.map(({ label, values }) => `${label} ${exact(values[at], unit)}`).join(", ")}`;
  const move = (event: KeyboardEvent) => {
    if (event.key === "Escape") plot.current?.setCursor({ left: -10, top: -10 });
    const by = moves[event.key];
    if (by === undefined || x.length === 0) return;
    event.preventDefault();
    const from = plot.current?.cursor.idx ?? (by < 0 ? x.length : -1);
    const to = Math.max(0, Math.min(x.length - 1, from + by));
    plot.current?.setCursor({ left: plot.current.valToPos(x[to]!, "x"), top: 0 });
    setSpoken(textAt(to));
  };
  const longest = useMemo(
    () => ({
      time: longestOf(x.map(time)),
      values: series.map(({ values }) => longestOf(values.map((value) => exact(value, unit)))),
    }),
    [shape, JSON.stringify(series.map(({ values }) => values))],
  );
  const rows = x.map((at, row) => ({ at, row }));
  return (
    <figure class="chart" aria-labelledby={titleId}>
      <figcaption>
        <h3 id={titleId}>{title}</h3>
        <small class="muted">
          <Held longest={longest.time}>{index === undefined || x[index] === undefined ? "" : time(x[index])}</Held>
        </small>
        <dl>
          {series.map(({ label, values, tone }, at) => (
            <div key={at}>
              <i class={tone ?? `t${at % hues}`} aria-hidden="true" />
              <dt title={label}>{label}</dt>
              <dd>
                <Held longest={longest.values[at]!}>{index === undefined ? "" : exact(values[index], unit)}</Held>
              </dd>
            </div>
          ))}
        </dl>
      </figcaption>
      <section
        class="plot"
        ref={place}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the cursor
        tabIndex={0}
        aria-label={`${title}: a chart. Arrow keys read its values; a table follows.`}
        onKeyDown={move}
      />
      <p class="unseen" aria-live="polite">
        {spoken}
      </p>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Table</summary>
        {isOpen && (
          <Table
            caption={title}
            rows={rows}
            rowKey={({ at }) => String(at)}
            empty={<p class="muted">There is nothing in this time.</p>}
            columns={[
              { id: "time", title: "Time (UTC)", cell: ({ at }) => time(at) },
              ...series.map(({ label, values }, at) => ({
                id: String(at),
                title: label,
                align: "end" as const,
                cell: ({ row }: { readonly row: number }) => exact(values[row], unit),
              })),
            ]}
          />
        )}
      </details>
    </figure>
  );
}
