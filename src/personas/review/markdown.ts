/**
 * A report as a comment of a pull request: what must be seen first, the rest folded, and never longer than a comment may be. Texts of
 * models and authors stand in code marks, where they name nobody and link nowhere. Pure.
 */
import { printable } from "../../lib/text/printable.ts";
import { changedLines, costWords, headline, requestWords, sideWords, subtitles, testWords } from "./phrases.ts";
import { allMustSee, counted, type PersonaReview, type Report, type TestReview } from "./report.ts";

/** Comments of GitHub have at most 65,536 characters. */
const maxMarkdownBytes = 60_000;
/** By this a workflow finds the comment that it updates. */
export const markdownMarker = "<!-- troupe personas report -->";

const maxPatchChars = 6_000;
const maxAnswerChars = 500;
const maxTests = 20;
const maxListed = 60;

/** As it is written: a sign stands for what a terminal would act on. */
const bytesOf = (text: string) => Buffer.byteLength(printable(text));

export function markdownOf(report: Report): string {
  const head = headOf(report);
  const rest = (number: number) =>
    number === 0
      ? ""
      : `\n…and ${counted(number, "more persona", "more personas")}: \`--html\` and \`--json\` have them all.\n`;
  let room = maxMarkdownBytes - bytesOf(head) - bytesOf(rest(report.personas.length));
  const lines: string[] = [];
  for (const persona of report.personas) {
    const line = titleOf(persona);
    if (bytesOf(line) > room) break;
    room -= bytesOf(line);
    lines.push(line);
  }
  /** The persona that lines were shown of. */
  const patches = new Map<string, string>();
  const sections = report.personas.slice(0, lines.length).map((persona, at) => {
    for (const isWhole of [true, false]) {
      const details = detailsOf(persona, patches, isWhole);
      if (bytesOf(details) > room) continue;
      room -= bytesOf(details);
      const changed = changedLines(persona);
      if (isWhole && changed !== "" && !patches.has(changed)) patches.set(changed, persona.id);
      return lines[at]! + details;
    }
    return lines[at]!;
  });
  return `${head}${sections.join("")}${rest(report.personas.length - lines.length)}`;
}

function headOf(report: Report): string {
  const { title, against } = headline(report);
  const seen = allMustSee(report).map(({ id, words }) => `- **${id}** ${words}\n`);
  const listed = (title: string, rows: readonly string[]) =>
    rows.length === 0
      ? ""
      : `\n#### ${title}\n\n${rows.slice(0, maxListed).join("")}${rows.length > maxListed ? `- …and ${rows.length - maxListed} more\n` : ""}`;
  const { faults, shared, labels, notes } = report;
  return [
    `${markdownMarker}\n### ${title}\n\n${against}\n`,
    ...notes.map((note) => `\n> ${note}\n`),
    listed(
      subtitles.faults,
      faults.after.map((one) => `- ${code(one)}\n`),
    ),
    listed(subtitles.mustSee, seen),
    listed(
      subtitles.earlier,
      faults.before.map((one) => `- ${code(one)}\n`),
    ),
    listed(
      subtitles.shared,
      shared.map(
        ({ file, personas }) =>
          `- ${code(file)}, in ${counted(personas.length, "persona", "personas")}: ${cut(personas.join(", "), 400)}\n`,
      ),
    ),
    listed(
      subtitles.labels,
      labels.map(({ label, before, after }) => `- ${code(label)} ${before ?? "none"} → ${after ?? "none"}\n`),
    ),
  ].join("");
}

const titleOf = (persona: PersonaReview): string =>
  `\n#### ${persona.id}\n\n${[...sideWords(persona), ...costWords(persona)].join(" · ")}\n`;

/** @param patches the persona that each was shown of @param isWhole false: without its diffs and answers */
function detailsOf(persona: PersonaReview, patches: ReadonlyMap<string, string>, isWhole: boolean): string {
  const { patch, knowledge, tests } = persona;
  const shown = patches.get(changedLines(persona));
  const like = shown === undefined ? "" : `\nThe same lines change as in **${shown}**.\n`;
  const files = knowledge.map(
    ({ file, change, from, patch: inside }) =>
      `- ${code(file)} is ${change}${from === undefined ? "" : `, from ${code(from)}`}\n${isWhole && inside ? `\n${diff(inside)}\n` : ""}`,
  );
  const requests = requestWords(persona).map(
    ({ model, word, changes }) =>
      `- ${[code(model), word, changes.map(code).join("; ")].filter((one) => one !== "").join(" ")}\n`,
  );
  return [
    like,
    isWhole && like === "" ? folded(subtitles.text, patch === "" ? "" : diff(patch)) : "",
    folded(subtitles.knowledge, files.join("")),
    like === "" ? folded(subtitles.requests, requests.join("")) : "",
    folded(testWords(persona), testsOf(tests, isWhole)),
  ].join("");
}

const folded = (summary: string, text: string) =>
  text === "" ? "" : `\n<details><summary>${summary}</summary>\n\n${text}\n</details>\n`;

function testsOf(tests: readonly TestReview[], isWhole: boolean): string {
  const told = tests.filter(({ after, before }) => after?.isUnrecorded !== true || before === undefined);
  const unrecorded = tests.filter(({ after }) => after?.isUnrecorded).map(({ name }) => name);
  const list =
    unrecorded.length === 0
      ? ""
      : `- to be recorded anew: ${cut(unrecorded.map((name) => code(name)).join(", "), 1000)}\n`;
  const rows = told.filter(({ after }) => !after?.isUnrecorded).slice(0, maxTests);
  const more = told.length - rows.length - told.filter(({ after }) => after?.isUnrecorded).length;
  return `${rows.map((test) => testOf(test, isWhole)).join("")}${more > 0 ? `- …and ${more} more\n` : ""}${list}`;
}

function testOf({ name, change, before, after }: TestReview, isWhole: boolean): string {
  const verdicts = [before, after].map((side) => side?.verdict ?? "none").join(" → ");
  const mark = change === "same" ? "" : change === "edited" ? " (the test itself is changed)" : ` (${change})`;
  const reason = [before, after]
    .flatMap((side) => (side === undefined || side.reason === "" ? [] : [side.reason]))
    .at(-1);
  const line = `- ${verdicts}: ${code(name)}${mark}${reason === undefined ? "" : `: ${code(cut(reason, 300))}`}\n`;
  if (!isWhole || (before?.answer === after?.answer && change !== "edited")) return line;
  const at = differsAt(before?.answer ?? "", after?.answer ?? "");
  const heads = change === "edited" ? ["answer to the old test", "answer to the new test"] : ["before", "after"];
  const cells = [before, after].flatMap((side, number) =>
    side === undefined
      ? []
      : [
          {
            head: heads[number]!,
            text: side.answer === undefined ? "none" : inCell(around(side.answer, at, maxAnswerChars)),
          },
        ],
  );
  return `${line}\n<table><tr>${cells.map(({ head }) => `<th>${head}</th>`).join("")}</tr><tr>${cells.map(({ text }) => `<td>${text}</td>`).join("")}</tr></table>\n\n`;
}

/** @returns the place of the first character that differs */
export function differsAt(one: string, other: string): number {
  let at = 0;
  while (at < one.length && one[at] === other[at]) at += 1;
  return at;
}

/** At most so many characters of a text, from a little before a place on. */
export function around(text: string, at: number, max: number): string {
  if (text.length <= max) return text;
  const from = Math.max(0, Math.min(at - 80, text.length - max));
  return `${from > 0 ? "…" : ""}${text.slice(from, from + max)}${from + max < text.length ? "…" : ""}`;
}

const inCell = (text: string): string =>
  text
    .split("\n")
    .map((line) => (line.trim() === "" ? "" : `<code>${escaped(line)}</code>`))
    .join("<br>");

const references: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
export const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => references[character]!);

const cut = (text: string, max: number) => (text.length <= max ? text : `${text.slice(0, max)}…`);

/** Code on one line, whatever the text has in it. */
function code(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  const marks = "`".repeat(longestRun(line) + 1);
  const pad = line.startsWith("`") || line.endsWith("`") ? " " : "";
  return `${marks}${pad}${line}${pad}${marks}`;
}

const longestRun = (text: string) => Math.max(0, ...(text.match(/`+/g) ?? []).map((run) => run.length));

/** The first whole lines of a diff. */
export const cutPatch = (patch: string, max: number): string =>
  patch.length <= max ? patch : `${patch.slice(0, patch.lastIndexOf("\n", max))}\n…`;

function diff(patch: string): string {
  const text = cutPatch(patch, maxPatchChars);
  const fence = "`".repeat(Math.max(3, longestRun(text) + 1));
  return `${fence}diff\n${text}\n${fence}\n`;
}
