/** A histogram that counts in place, and is put into Prometheus' words only when somebody asks for them. */

type Sample = { readonly metricName: string; readonly labels: Record<string, string | number>; readonly value: number };

/** One combination of label values. */
export class Series {
  readonly #bounds: readonly number[];
  /** Per bound, and one for what lies beyond them all; not yet summed up. */
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && value > bounds[at]!) at += 1;
    this.#counts[at]! += 1;
    this.#sum += value;
  }

  samples(name: string, labels: Record<string, string>): Sample[] {
    let count = 0;
    const buckets = Array.from(this.#counts, (own, at): Sample => {
      count += own;
      return { metricName: `${name}_bucket`, labels: { le: this.#bounds[at] ?? "+Inf", ...labels }, value: count };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels, value: this.#sum },
      { metricName: `${name}_count`, labels, value: count },
    ];
  }
}

/** Has the form in which prom-client's registry takes metrics that are not its own. */
export class Histogram {
  readonly name: string;
  readonly help: string;
  readonly type = "histogram";
  readonly aggregator = "sum";
  readonly #labelNames: readonly string[];
  readonly #newSeries: () => Series;
  /** By their label values, one level of maps for each label, so that a look-up builds no key. */
  readonly #root: Level = new Map();

  /** @param bounds ascending */
  constructor(name: string, help: string, labelNames: readonly string[], bounds: readonly number[]) {
    this.name = name;
    this.help = help;
    this.#labelNames = labelNames;
    this.#newSeries = () => new Series(bounds);
  }

  /** @param values of the labels in their order; their combinations must be few, as each is kept */
  series(...values: readonly string[]): Series {
    let level = this.#root;
    const last = values.length - 1;
    for (let at = 0; at < last; at += 1) level = entry(level, values[at]!, newLevel);
    return entry(level, values[last]!, this.#newSeries);
  }

  async get() {
    const { name, help, type, aggregator } = this;
    return { name, help, type, aggregator, values: this.#samples(this.#root, []) };
  }

  reset(): void {
    this.#root.clear();
  }

  #samples(level: Level, values: readonly string[]): Sample[] {
    return [...level].flatMap(([value, next]) => {
      const all = [...values, value];
      if (next instanceof Map) return this.#samples(next, all);
      return next.samples(this.name, Object.fromEntries(all.map((one, at) => [this.#labelNames[at]!, one])));
    });
  }
}

type Level = Map<string, Level | Series>;

const newLevel = (): Level => new Map();

function entry<T extends Level | Series>(level: Level, value: string, make: () => T): T {
  let found = level.get(value) as T | undefined;
  if (found === undefined) {
    found = make();
    level.set(value, found);
  }
  return found;
}
