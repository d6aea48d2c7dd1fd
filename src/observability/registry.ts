/**
 * Counters, gauges and histograms that count in place and are read as a plain snapshot.
 * docs/decisions/metrics.md says why this is no library.
 */

/** How the values of several processes become one. */
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

/** One series of a counter or a gauge. */
class Value {
  value = 0;
  readonly counts: undefined;

  add(amount = 1): void {
    this.value += amount;
  }
}

/** One series of a histogram. */
class Buckets {
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

type Asked<S> = { readonly values: readonly string[]; readonly series: S };

/** The series of one metric: one level of maps for each label, so that a look-up builds no key. */
class Labelled<S extends Value | Buckets> {
  readonly #root: Level<S> = new Map();
  readonly #newSeries: () => S;
  /** What was asked for last: often it is the same again, or two in turns, and names that come new with each request have to be hashed. */
  #last: Asked<S> | undefined;
  #before: Asked<S> | undefined;

  constructor(newSeries: () => S) {
    this.#newSeries = newSeries;
  }

  /** @param values of the labels in their order, one or more; their combinations must be few, as each is kept */
  series(...values: readonly string[]): S {
    const last = this.#last;
    if (last !== undefined && isSame(last.values, values)) return last.series;
    const before = this.#before;
    const found =
      before !== undefined && isSame(before.values, values) ? before : { values, series: this.#find(values) };
    this.#before = last;
    this.#last = found;
    return found.series;
  }

  #find(values: readonly string[]): S {
    let level = this.#root;
    const last = values.length - 1;
    for (let at = 0; at < last; at += 1) level = entry(level, values[at]!, newLevel<S>) as Level<S>;
    return entry(level, values[last]!, this.#newSeries) as S;
  }

  snapshot(): Series[] {
    return seriesIn(this.#root, []);
  }
}

export type Metric = Labelled<Value>;
export type Histogram = Labelled<Buckets>;

export class Registry {
  readonly #families = new Map<string, () => Family>();

  counter(name: string, help: string, labelNames: readonly string[]): Metric {
    return this.#labelled({ name, help, type: "counter", aggregate: "sum", labelNames }, () => new Value());
  }

  gauge(name: string, help: string, labelNames: readonly string[], aggregate: Aggregate = "sum"): Metric {
    return this.#labelled({ name, help, type: "gauge", aggregate, labelNames }, () => new Value());
  }

  /** @param bounds ascending */
  histogram(name: string, help: string, labelNames: readonly string[], bounds: readonly number[]): Histogram {
    const described = { name, help, type: "histogram", aggregate: "sum", labelNames, bounds } as const;
    return this.#labelled(described, () => new Buckets(bounds));
  }

  /** Registers a metric without labels whose value is read when a snapshot is taken. */
  sample(
    type: "counter" | "gauge",
    name: string,
    help: string,
    read: () => number,
    aggregate: Aggregate = "sum",
  ): void {
    const described = { name, help, type, aggregate, labelNames: [] };
    this.#register(described, () => [{ labels: [], value: read() }]);
  }

  snapshot(): Snapshot {
    return Array.from(this.#families.values(), (read) => read());
  }

  #labelled<S extends Value | Buckets>(described: Omit<Family, "series">, newSeries: () => S): Labelled<S> {
    const labelled = new Labelled(newSeries);
    this.#register(described, () => labelled.snapshot());
    return labelled;
  }

  /** Source of the naming rule: https://prometheus.io/docs/practices/naming/#metric-names */
  #register(described: Omit<Family, "series">, series: () => Series[]): void {
    const { name, type } = described;
    if (this.#families.has(name)) throw new Error(`the metric ${name} is registered twice`);
    if (name.endsWith("_total") !== (type === "counter"))
      throw new Error(`${name}: counters, and no others, end in _total`);
    this.#families.set(name, () => ({ ...described, series: series() }));
  }
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  for (let at = 0; at < b.length; at += 1) if (a[at] !== b[at]) return false;
  return true;
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
