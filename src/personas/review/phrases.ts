/** The words of a report that its forms share. Pure. */
import { dollars } from "../suites/dollars.ts";
import { codeMarked } from "./code-mark.ts";
import { counted, isRegression, type PersonaReview, percent, type Report, riseOf, type Totals } from "./report.ts";

export const subtitles = {
  faults: "Files that can't be read",
  mustSee: "What a reviewer must see",
  earlier: "Files that could not be read before",
  shared: "Shared texts that changed",
  labels: "Labels that moved",
  text: "Its content, includes in place",
  knowledge: "What it knows",
  requests: "What providers are sent differently",
} as const;

export function headline({ personas, faults, labels, against, isLive, unchanged, notes }: Report) {
  const of = (change: string) => personas.filter((one) => one.change === change).length;
  const kinds = [
    [of("changed"), "changed"],
    [of("new"), "new"],
    [of("gone"), "gone"],
    [of("renamed"), "renamed"],
    [of("same"), "with other tests or knowledge"],
  ] as const;
  const found = kinds.filter(([number]) => number > 0).map(([number, word]) => `${number} ${word}`);
  const worse = personas.flatMap(({ tests }) => tests.filter(isRegression)).length;
  const more = [
    ...(labels.length > 0 ? [counted(labels.length, "label moved", "labels moved")] : []),
    ...(worse > 0 ? [counted(worse, "test fails", "tests fail")] : []),
    ...(faults.after.length > 0 ? [counted(faults.after.length, "fault in files", "faults in files")] : []),
  ];
  const said = [...(found.length > 0 ? [found.join(", ")] : []), ...more].join("; ");
  const kept =
    unchanged > 0
      ? ` ${counted(unchanged, "persona does", "personas do")} what ${unchanged === 1 ? "it" : "they"} did.`
      : "";
  const point = against.isForkPoint ? ", where this branch left it" : "";
  const answers =
    personas.length === 0 ? "" : isLive ? " Answers are of models asked now." : " Answers are those that are recorded.";
  return {
    title: `Personas: ${said === "" ? (notes.length > 0 ? "see below" : "nothing changes in what they do") : said}`,
    against: `Against ${codeMarked(against.ref)} at \`${against.commit.slice(0, 12)}\`${point}.${kept}${answers}`,
  };
}

export function sideWords({ change, from, before, after }: PersonaReview): string[] {
  const versions = `\`${before?.version ?? "none"}\` → \`${after?.version ?? "none"}\``;
  if (change === "same") return ["its own content is the same"];
  return [change === "renamed" ? `renamed from \`${from}\`` : change, versions];
}

const share = ({ passed, tests, errors }: Totals) =>
  `${passed} of ${tests}${errors > 0 ? ` (${errors} not judged)` : ""}`;

export function costWords(persona: PersonaReview): string[] {
  const { before, after } = persona.totals;
  const { price } = persona;
  // Of a side that is not there nothing is said.
  const both = (one: string, other: string) => {
    const sides = [...(persona.before ? [one] : []), ...(persona.after ? [other] : [])];
    return [...new Set(sides)].join(" → ");
  };
  const said: string[] = [];
  if (before.tests + after.tests > 0) said.push(`tests passed ${both(share(before), share(after))}`);
  if (before.cost !== undefined && after.cost !== undefined)
    said.push(`an answer ${both(dollars(before.cost), dollars(after.cost))}${riseWords(before.cost, after.cost)}`);
  if (before.latencyMs !== undefined && after.latencyMs !== undefined)
    said.push(
      `median ${both(String(before.latencyMs), String(after.latencyMs))} ms${riseWords(before.latencyMs, after.latencyMs)}`,
    );
  const priceWords = (one: number | undefined) => (one === undefined ? "unknown" : dollars(one));
  if (price.before !== undefined || price.after !== undefined)
    said.push(`a plain call at most ${both(priceWords(price.before), priceWords(price.after))}`);
  return said;
}

function riseWords(before: number, after: number): string {
  const words = percent(riseOf(before, after)!);
  return words === "±0 %" ? "" : ` (${words})`;
}

/** The title of a persona's tests. */
export function testWords({ tests, sameTests }: PersonaReview): string {
  const of = (change: string) => tests.filter((one) => one.change === change).length;
  const parts = [
    [of("new"), "new"],
    [of("gone"), "gone"],
    [of("edited"), "changed themselves"],
    [of("same"), "to look at"],
    [sameTests, "as before"],
  ] as const;
  return `Tests: ${parts
    .filter(([number]) => number > 0)
    .map(([number, word]) => `${number} ${word}`)
    .join(", ")}`;
}

/** The lines that change, of a persona whose like was shown: what several share is shown once. */
export const changedLines = ({ patch }: PersonaReview): string =>
  patch
    .split("\n")
    .filter((line) => /^[+-]/.test(line))
    .join("\n");

/** Of each model that is sent something else: what it is, and what changes in the body. */
export function requestWords({
  requests,
}: PersonaReview): { model: string; word: string; changes: readonly string[] }[] {
  const words = { same: "", changed: "", new: "is asked now", gone: "is asked no more" } as const;
  return requests
    .filter(({ change }) => change !== "same")
    .map(({ model, change, changes }) => ({ model, word: words[change], changes }));
}
