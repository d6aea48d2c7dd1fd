/**
 * A strict reader of the Prometheus text format: what it takes, every scraper takes.
 * Source: https://prometheus.io/docs/instrumenting/exposition_formats/#text-format-details
 */
export type Sample = {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
};
export type Family = { readonly type: string; readonly help: string; readonly samples: readonly Sample[] };

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const suffixes: Readonly<Record<string, readonly string[]>> = {
  counter: [""],
  gauge: [""],
  histogram: ["_bucket", "_sum", "_count"],
  summary: ["", "_sum", "_count"],
};

/** @throws Error naming the line that is not of the format */
export function parsePrometheus(text: string): ReadonlyMap<string, Family> {
  if (!text.endsWith("\n")) throw new Error("the last line has no end");
  const families = new Map<string, { type: string; help: string; samples: Sample[] }>();
  const seen = new Set<string>();
  let open: string | undefined;
  for (const line of text.slice(0, -1).split("\n")) {
    const fail = (why: string): never => {
      throw new Error(`${why}: ${line}`);
    };
    if (line === "") continue;
    const [, keyword, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line) ?? [];
    if (keyword === "HELP") {
      if (!metricName.test(name) || families.has(name)) fail("a second or misnamed HELP");
      families.set(name, { type: "", help: rest, samples: [] });
      open = name;
    } else if (keyword === "TYPE") {
      const family = families.get(name) ?? fail("TYPE without HELP");
      if (!(rest in suffixes) || family.type !== "" || family.samples.length > 0) fail("a wrong or late TYPE");
      family.type = rest;
    } else {
      const sample = parseSample(line) ?? fail("no sample");
      const family = families.get(open ?? "") ?? fail("a sample outside its family");
      if (!suffixes[family.type]?.some((suffix) => sample.name === open + suffix)) fail("a sample of another family");
      const identity = line.slice(0, line.lastIndexOf(" "));
      if (seen.has(identity)) fail("a sample twice");
      seen.add(identity);
      family.samples.push(sample);
    }
  }
  return families;
}

function parseSample(line: string): Sample | undefined {
  const [, name = "", inner, number = ""] = /^([^\s{]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
  const value =
    { "+Inf": Number.POSITIVE_INFINITY, "-Inf": Number.NEGATIVE_INFINITY, NaN: Number.NaN }[number] ?? Number(number);
  if (!metricName.test(name) || (Number.isNaN(value) && number !== "NaN")) return undefined;
  const labels: Record<string, string> = {};
  let left = inner ?? "";
  while (left !== "") {
    const match = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/.exec(left);
    if (match === null || match[1]! in labels) return undefined;
    labels[match[1]!] = match[2]!.replace(/\\(.)/g, (_, sign: string) => (sign === "n" ? "\n" : sign));
    left = left.slice(match[0].length);
  }
  return { name, labels, value };
}
