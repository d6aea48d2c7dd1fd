/** Numbers over time: drawn, read out exactly by pointer and by keyboard, each a way to its calls, and as a table behind the drawing. */
import { signal } from "@preact/signals";
import { useId, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import "./chart.css";
import { axisText, exact, labelled, stepOf, ticksUpTo, timeWords, type Unit, zoneOf } from "./chart-scale.ts";
import { zone } from "./numbers.ts";
import { Table } from "./table.tsx";

export type { Unit } from "./chart-scale.ts";

export type ChartSeries = {
  readonly label: string;
  /** One for each of `x`; null: there is none. */
  readonly values: readonly (number | null)[];
  /** Errors alone are `bad`; `quiet`: what others are compared with. */
  readonly tone?: "bad" | "quiet";
};

type ChartProps = {
  readonly title: string;
  readonly series: readonly ChartSeries[];
  /** Unix seconds, ascending. */
  readonly x: readonly number[];
  readonly unit: Unit;
  /** In pixels. */
  readonly height?: number;
  /** Bars for sums of buckets of time; stacked: each stands on the one before. */
  readonly kind?: "lines" | "bars" | "stacked";
  /** Whether the series are degrees of one thing, such as percentiles: they are of one hue. */
  readonly isOneHue?: boolean;
  /** @returns the address of what was counted in a bucket of time, RFC 3339; absent: it leads nowhere */
  readonly leadsTo?: (since: string, until: string) => string;
};

/** The time under the pointer, in Unix seconds: one cursor over all charts of a page. */
const cursor = signal<number | undefined>(undefined);

const hues = 6;
const classOf = ({ tone }: ChartSeries, at: number, isOneHue: boolean) =>
  tone ?? (isOneHue ? `degree${at % 3}` : `hue${at % hues}`);

const [left, right, top, bottom] = [56, 12, 8, 22];

type Marks = Required<Pick<ChartProps, "series" | "x" | "unit" | "kind" | "isOneHue" | "height">> & {
  readonly width: number;
};

/** What is drawn where, in pixels. */
function scaleOf({ series, x, unit, kind, height, width }: Marks) {
  const sums = x.map((_, at) => series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0));
  const highest =
    kind === "stacked"
      ? Math.max(0, ...sums)
      : Math.max(0, ...series.flatMap(({ values }) => values.map((one) => one ?? 0)));
  const ticks = ticksUpTo(highest, unit);
  const plot = { width: Math.max(1, width - left - right), height: height - top - bottom };
  const slot = plot.width / Math.max(1, x.length);
  return {
    ...{ ticks, plot, slot },
    /** The middle of a bucket. */
    middle: (at: number) => left + (at + 0.5) * slot,
    y: (value: number) => top + plot.height * (1 - value / ticks.at(-1)!),
    indexAt: (pixels: number) => Math.max(0, Math.min(x.length - 1, Math.floor((pixels - left) / slot))),
  };
}

function Bars({ marks, scale }: { readonly marks: Marks; readonly scale: ReturnType<typeof scaleOf> }) {
  const { series, x, isOneHue } = marks;
  const size = Math.max(1, Math.min(48, scale.slot * 0.75));
  const below = x.map(() => 0);
  return (
    <>
      {series.map((one, which) => (
        <g key={which} class={classOf(one, which, isOneHue)}>
          {x.map((_, at) => {
            const value = one.values[at] ?? 0;
            if (value <= 0) return null;
            const from = below[at]!;
            below[at] = from + value;
            const y = scale.y(from + value);
            const tall = Math.max(1, scale.y(from) - y);
            return <rect key={at} x={scale.middle(at) - size / 2} y={y} width={size} height={tall} />;
          })}
        </g>
      ))}
    </>
  );
}

function Lines({ marks, scale }: { readonly marks: Marks; readonly scale: ReturnType<typeof scaleOf> }) {
  return (
    <>
      {marks.series.map((one, which) => {
        const { values } = one;
        const path = values
          .map((value, at) => {
            if (value === null) return "";
            const isNew = at === 0 || values[at - 1] === null;
            return `${isNew ? "M" : "L"}${scale.middle(at).toFixed(1)} ${scale.y(value).toFixed(1)}`;
          })
          .join("");
        const isAlone = (at: number) =>
          values[at] !== null && (values[at - 1] ?? null) === null && (values[at + 1] ?? null) === null;
        return (
          <g key={which} class={`line ${classOf(one, which, marks.isOneHue)}`}>
            <path d={path} />
            {values.map((value, at) =>
              isAlone(at) ? <circle key={at} cx={scale.middle(at)} cy={scale.y(value!)} r={2} /> : null,
            )}
          </g>
        );
      })}
    </>
  );
}

function Axes({
  marks: { x, unit, width, height },
  scale,
}: {
  readonly marks: Marks;
  readonly scale: ReturnType<typeof scaleOf>;
}) {
  const words = timeWords(x).axis;
  return (
    <>
      {scale.ticks.map((value) => (
        <g key={value}>
          <line class="grid" x1={left} x2={width - right} y1={scale.y(value)} y2={scale.y(value)} />
          <text class="end" x={left - 6} y={scale.y(value) + 4}>
            {axisText(value, unit)}
          </text>
        </g>
      ))}
      {labelled(x, scale.plot.width / 60).map((at) => (
        <text key={at} class="middle" x={scale.middle(at)} y={height - 6}>
          {words(x[at]!)}
        </text>
      ))}
    </>
  );
}

/** The values of a bucket beside the pointer, the highest first. */
function Tooltip({
  marks,
  at,
  scale,
}: {
  readonly marks: Marks;
  readonly at: number;
  readonly scale: ReturnType<typeof scaleOf>;
}) {
  const { series, x, unit, kind, width, isOneHue } = marks;
  const values = series
    .map((one, which) => ({ label: one.label, value: one.values[at] ?? null, tone: classOf(one, which, isOneHue) }))
    .toSorted((a, b) => (b.value ?? -1) - (a.value ?? -1));
  const total = values.reduce((sum, { value }) => sum + (value ?? 0), 0);
  const x0 = scale.middle(at);
  const isRight = x0 > width / 2;
  return (
    <div
      class="tooltip"
      aria-hidden="true"
      style={isRight ? { right: `${width - x0 + 12}px` } : { left: `${x0 + 12}px` }}
    >
      <strong>{timeWords(x).full(x[at]!)}</strong>
      <dl>
        {values.map(({ label, value, tone }, place) => (
          <div key={place}>
            <dt>
              <i class={tone} />
              <span>{label}</span>
            </dt>
            <dd>{exact(value, unit)}</dd>
          </div>
        ))}
        {kind === "stacked" && series.length > 1 && (
          <div class="total">
            <dt>total</dt>
            <dd>{exact(total, unit)}</dd>
          </div>
        )}
      </dl>
    </div>
  );
}

const moves: Readonly<Record<string, number>> = {
  ...{ ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 },
  ...{ Home: Number.NEGATIVE_INFINITY, End: Number.POSITIVE_INFINITY },
};

/** The width of an element, followed. */
function useWidth() {
  const place = useRef<HTMLElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const read = () => setWidth(place.current!.clientWidth);
    read();
    const sizes = new ResizeObserver(read);
    sizes.observe(place.current!);
    return () => sizes.disconnect();
  }, []);
  return { place, width };
}

/** A finger reads at its first touch, and opens at the second. @returns whether a bucket was read before, as it is under the mouse */
function useTouched() {
  const touched = useRef<number>(undefined);
  return ({ pointerType }: PointerEvent, index: number): boolean => {
    const before = touched.current;
    touched.current = index;
    return pointerType !== "touch" || before === index;
  };
}

const shapeOf = (marks: Marks) => JSON.stringify(marks);

/** The seconds of the last bucket, which none follows; a month's are those of the longest. */
function bucketSeconds(x: readonly number[]): number {
  const step = stepOf(x) || 3_600;
  return step < 28 * 86_400 ? step : 31 * 86_400;
}

type DrawingProps = {
  readonly marks: Marks;
  readonly scale: ReturnType<typeof scaleOf>;
  readonly at: number | undefined;
  /** The first and the last bucket of those that are dragged over. */
  readonly chosen: readonly number[] | undefined;
  readonly isUnfinished: boolean;
};

/** Its values are said by the part around it, and stand in the table. */
function Drawing({ marks, scale, at, chosen, isUnfinished }: DrawingProps) {
  const { kind, width, height, x } = marks;
  const id = useId();
  const drawn = useMemo(() => {
    const Kind = kind === "lines" ? Lines : Bars;
    return (
      <>
        <Axes marks={marks} scale={scale} />
        <Kind marks={marks} scale={scale} />
      </>
    );
    // Made anew with what is drawn.
  }, [scale, zone.value]);
  const over = (a: number, b: number) => ({
    ...{ x: left + a * scale.slot, width: (b - a + 1) * scale.slot },
    ...{ y: top, height: scale.plot.height },
  });
  return (
    <svg width={width} height={height} aria-hidden="true">
      <pattern id={id} width={5} height={5} patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch" width={2.5} height={5} />
      </pattern>
      {drawn}
      {isUnfinished && <rect class="unfinished" fill={`url(#${id})`} {...over(x.length - 1, x.length - 1)} />}
      {chosen && <rect class="chosen" {...over(chosen[0]!, chosen[1]!)} />}
      {at !== undefined && (
        <line class="cursor" x1={scale.middle(at)} x2={scale.middle(at)} y1={top} y2={height - bottom} />
      )}
    </svg>
  );
}

function Plot({ title, leadsTo, ...given }: Omit<Marks, "width"> & Pick<ChartProps, "title" | "leadsTo">) {
  const { place, width } = useWidth();
  const [isHere, setHere] = useState(false);
  const [from, setFrom] = useState<number>();
  const [spoken, setSpoken] = useState("");
  const marks: Marks = { ...given, width };
  const { series, x, unit, kind } = marks;
  const scale = useMemo(() => scaleOf(marks), [shapeOf(marks)]);
  const step = bucketSeconds(x);
  const isUnfinished = kind !== "lines" && x.length > 0 && (x.at(-1)! + step) * 1_000 > Date.now();
  const found = cursor.value === undefined ? -1 : x.findLastIndex((one) => one <= cursor.value!);
  const at = found >= 0 && cursor.value! < x[found]! + step ? found : undefined;
  const open = (a: number, b: number) => {
    if (leadsTo === undefined || x.length === 0) return;
    const time = (index: number) => new Date((x[index] ?? x.at(-1)! + step) * 1_000).toISOString();
    location.hash = leadsTo(time(Math.min(a, b)), time(Math.max(a, b) + 1)).slice(1);
  };
  const indexOf = (event: PointerEvent) => scale.indexAt(event.clientX - place.current!.getBoundingClientRect().left);
  const move = (event: KeyboardEvent) => {
    if (event.key === "Escape") cursor.value = undefined;
    if (event.key === "Enter" && at !== undefined) open(at, at);
    const by = moves[event.key];
    if (by === undefined || x.length === 0) return;
    event.preventDefault();
    const to = Math.max(0, Math.min(x.length - 1, (at ?? (by < 0 ? x.length : -1)) + by));
    cursor.value = x[to]!;
    setHere(true);
    const values = series.map(({ label, values }) => `${label} ${exact(values[to], unit)}`).join(", ");
    setSpoken(`${timeWords(x).full(x[to]!)}: ${values}`);
  };
  const isRead = useTouched();
  const leave = () => {
    setHere(false);
    setFrom(undefined);
    cursor.value = undefined;
  };
  const chosen = from === undefined || at === undefined ? undefined : [Math.min(from, at), Math.max(from, at)];
  return (
    <>
      <section
        class={`plot ${leadsTo === undefined ? "" : "leads"}`}
        ref={place}
        // biome-ignore lint/a11y/noNoninteractiveTabindex: arrow keys move the cursor
        tabIndex={0}
        aria-label={`${title}: a chart. Arrow keys read its values${leadsTo === undefined ? "" : ", Enter opens their calls"}; a table follows.`}
        onKeyDown={move}
        onBlur={leave}
        onPointerMove={(event) => {
          setHere(true);
          cursor.value = x[indexOf(event)];
        }}
        onPointerLeave={(event) => event.pointerType !== "touch" && leave()}
        onPointerDown={(event) => event.button === 0 && setFrom(indexOf(event))}
        onPointerUp={(event) => {
          const to = indexOf(event);
          if (from !== undefined && (isRead(event, to) || from !== to)) open(from, to);
          setFrom(undefined);
        }}
      >
        <Drawing {...{ marks, scale, at, chosen }} isUnfinished={isUnfinished} />
        {isHere && at !== undefined && <Tooltip marks={marks} at={at} scale={scale} />}
      </section>
      <p class="unseen" aria-live="polite">
        {spoken}
      </p>
    </>
  );
}

export function Chart({ title, series, x, unit, height = 180, kind = "lines", isOneHue = false, leadsTo }: ChartProps) {
  const [isOpen, setOpen] = useState(false);
  const titleId = useId();
  const time = timeWords(x).full;
  const rows = x.map((at, row) => ({ at, row }));
  return (
    <figure class="chart" aria-labelledby={titleId}>
      <figcaption>
        <h3 id={titleId}>{title}</h3>
        <ul class="legend">
          {series.map((one, at) => (
            <li key={at} title={one.label}>
              <i class={classOf(one, at, isOneHue)} aria-hidden="true" />
              {one.label}
            </li>
          ))}
        </ul>
      </figcaption>
      <Plot {...{ title, series, x, unit, height, kind, isOneHue }} {...(leadsTo && { leadsTo })} />
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>Table</summary>
        {isOpen && (
          <Table
            caption={title}
            rows={rows}
            rowKey={({ at }) => String(at)}
            empty={<p class="muted">There is nothing in this time.</p>}
            columns={[
              { id: "time", title: `Time (${zoneOf(x)})`, cell: ({ at }) => time(at) },
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
