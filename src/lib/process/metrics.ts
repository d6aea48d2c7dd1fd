/**
 * Counters, gauges and histograms that count in place and are read as a plain snapshot. Each part of the program declares its own as a
 * table; `src/server/metrics.ts` lists the tables. docs/decisions/metrics.md says why this is no library.
 */
import { truncate } from "../text/truncate.ts";

/** The function by which the values of several processes become one. */
export type Aggregate = "sum" | "min" | "max";

/** One metric with all its series; a snapshot of them survives JSON. */
export type Family = {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly aggregate: Aggregate;
  readonly labelNames: readonly string[];
  /** The upper bounds of a histogram's buckets, ascending. */
  readonly bounds?: readonly number[];
  readonly series: readonly Series[];
};

export type Series = {
  /** The label values, in the order of the names. */
  readonly labels: readonly string[];
  /** A histogram's: the sum of what was observed. */
  readonly value: number;
  /** A histogram's observations per bucket, not cumulative; the last bucket is above all bounds. */
  readonly counts?: readonly number[];
};

export type Snapshot = readonly Family[];

/**
 * Metrics with labels, which are counted as things happen, by the names that the code has for them. A name that ends in `_total` is a
 * counter, and what has `bounds` a histogram; else it is a gauge. Source of the rule: https://prometheus.io/docs/practices/naming/#metric-names
 */
export type MetricTable = Readonly<Record<string, MetricRow>>;
type MetricRow = {
  readonly name: string;
  readonly help: string;
  /** One to four. Their values come from bounded sets, as each combination is kept. */
  readonly labels: readonly string[];
  /** Ascending. */
  readonly bounds?: readonly number[];
  readonly aggregate?: Aggregate;
};
/** The metrics of a table, ready to count. */
export type Declared<Table extends MetricTable> = {
  readonly [Key in keyof Table]: Table[Key] extends { readonly bounds: readonly number[] } ? Histogram : Metric;
};

/** Metrics that are read when somebody scrapes, by their names. They are counters and gauges by the same rule. */
export type SampledTable<Of> = Readonly<Record<string, SampledRow<Of>>>;
type SampledRow<Of> = { readonly help: string; readonly aggregate?: Aggregate } & (
  | { readonly read: (of: Of) => number }
  | { readonly labels: readonly string[]; readonly bounds?: readonly number[]; readonly series: (of: Of) => Series[] }
);

/** One series of a counter or a gauge. */
export class Value {
  value = 0;
  readonly counts: undefined;

  add(amount = 1): void {
    this.value += amount;
  }
}

/** One series of a histogram. */
export class Buckets {
  value = 0;
  readonly counts: number[];
  readonly #bounds: readonly number[];

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.counts = new Array(bounds.length + 1).fill(0);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at += 1;
    this.counts[at]! += 1;
    this.value += value;
  }
}

type Level<S> = Map<string, Level<S> | S>;

/** The series of one metric: one level of maps for each label, so that a look-up builds neither a key nor a list. */
class Labelled<S extends Value | Buckets> {
  readonly #root: Level<S> = new Map();
  readonly #newSeries: () => S;

  constructor(newSeries: () => S) {
    this.#newSeries = newSeries;
  }

  /** Takes the values of the labels in their order. Who counts often keeps what this returns. */
  series(a: string, b?: string, c?: string, d?: string, e?: string): S {
    if (b === undefined) return entry(this.#root, a, this.#newSeries) as S;
    const second = entry(this.#root, a, newLevel<S>) as Level<S>;
    if (c === undefined) return entry(second, b, this.#newSeries) as S;
    const third = entry(second, b, newLevel<S>) as Level<S>;
    if (d === undefined) return entry(third, c, this.#newSeries) as S;
    const fourth = entry(third, c, newLevel<S>) as Level<S>;
    if (e === undefined) return entry(fourth, d, this.#newSeries) as S;
    return entry(entry(fourth, d, newLevel<S>) as Level<S>, e, this.#newSeries) as S;
  }

  snapshot(): Series[] {
    return seriesIn(this.#root, []);
  }
}

export type Metric = Labelled<Value>;
export type Histogram = Labelled<Buckets>;

export class Registry {
  readonly #families = new Map<string, () => Family>();

  /** Registers a table whose metrics are counted as things happen. */
  declare<const Table extends MetricTable>(table: Table): Declared<Table> {
    const declared: Record<string, Metric | Histogram> = {};
    for (const [key, { name, help, labels, bounds, aggregate = "sum" }] of Object.entries<MetricRow>(table)) {
      const labelled: Metric | Histogram =
        bounds === undefined ? new Labelled(() => new Value()) : new Labelled(() => new Buckets(bounds));
      this.#register({ name, help, aggregate, labelNames: labels, ...(bounds && { bounds }) }, () =>
        labelled.snapshot(),
      );
      declared[key] = labelled;
    }
    return declared as Declared<Table>;
  }

  /** Registers a table whose metrics are read when a snapshot is taken. @param of what they are read from */
  sample<Of>(table: SampledTable<Of>, of: Of): void {
    for (const [name, row] of Object.entries(table)) {
      const { help, aggregate = "sum" } = row;
      if ("read" in row) {
        this.#register({ name, help, aggregate, labelNames: [] }, () => [{ labels: [], value: row.read(of) }]);
      } else {
        const { labels, bounds, series } = row;
        this.#register({ name, help, aggregate, labelNames: labels, ...(bounds && { bounds }) }, () => series(of));
      }
    }
  }

  snapshot(): Snapshot {
    return Array.from(this.#families.values(), (read) => read());
  }

  #register(described: Omit<Family, "series" | "type">, series: () => Series[]): void {
    const { name, bounds } = described;
    if (this.#families.has(name)) throw new Error(`the metric ${name} is registered twice`);
    const type = name.endsWith("_total") ? "counter" : bounds === undefined ? "gauge" : "histogram";
    this.#families.set(name, () => ({ ...described, type, series: series() }));
  }
}

/** Label values of which only so many have series of their own, where callers choose them freely; the rest counts as "other". */
export class BoundedLabels {
  readonly #most: number;
  readonly #known = new Set<string>();

  constructor(most: number) {
    this.#most = most;
  }

  /** @param isListed whether the operator named it: then no caller's names take its place */
  of(name: string, isListed: boolean): string {
    const label = truncate(name);
    if (isListed || this.#known.has(label)) return label;
    if (this.#known.size >= this.#most) return "other";
    this.#known.add(label);
    return label;
  }
}

const newLevel = <S>(): Level<S> => new Map();

function entry<S>(level: Level<S>, value: string, make: () => Level<S> | S): Level<S> | S {
  let found = level.get(value);
  if (found === undefined) {
    found = make();
    level.set(value, found);
  }
  return found;
}

function seriesIn(level: Level<Value | Buckets>, outer: readonly string[]): Series[] {
  return [...level].flatMap(([label, next]) => {
    const labels = [...outer, label];
    if (next instanceof Map) return seriesIn(next, labels);
    const { value, counts } = next;
    return [counts === undefined ? { labels, value } : { labels, value, counts: [...counts] }];
  });
}
