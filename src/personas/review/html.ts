/** A report as one HTML file that needs nothing else: no script, no address. Pure. */
import { escaped, markdownMarker } from "./markdown.ts";
import { costWords, headline, requestWords, sideWords, subtitles, testWords } from "./phrases.ts";
import { allMustSee, counted, type PersonaReview, type Report, type TestReview } from "./report.ts";

const style = `
:root{color-scheme:light dark;--line:#8884;--less:#d7373722;--more:#2da44e22}
body{font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:0 auto;padding:1rem}
h2{border-bottom:1px solid var(--line);margin-top:2rem;overflow-wrap:anywhere}
code,pre{font:14px/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}
pre{border:1px solid var(--line);margin:.5rem 0;padding:.5rem}
pre span{display:block}.less{background:var(--less)}.more{background:var(--more)}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(16rem,1fr));gap:.5rem}
summary{cursor:pointer;font-weight:600}.fail{color:#d73737}.pass{color:#2da44e}
`;

/** @returns HTML of a phrase in which names stand in Markdown's code marks */
const phrase = (text: string) => escaped(text).replace(/`([^`]*)`/g, "<code>$1</code>");
const code = (text: string) => `<code>${escaped(text)}</code>`;
const list = (rows: readonly string[]) => `<ul>${rows.map((row) => `<li>${row}</li>`).join("\n")}</ul>`;
const part = (title: string, rows: readonly string[]) => (rows.length === 0 ? "" : `<h3>${title}</h3>${list(rows)}`);
const folded = (title: string, inside: string) =>
  inside === "" ? "" : `<details open><summary>${escaped(title)}</summary>${inside}</details>`;

function diff(patch: string): string {
  if (patch === "") return "";
  const kinds: Readonly<Record<string, string>> = { "+": "more", "-": "less" };
  const lines = patch
    .split("\n")
    .map((line) => `<span class="${kinds[line[0] ?? ""] ?? ""}">${escaped(line) || " "}</span>`);
  return `<pre>${lines.join("")}</pre>`;
}

export function htmlOf(report: Report): string {
  const { title, against } = headline(report);
  const { notes, faults, shared, labels, personas } = report;
  const seen = allMustSee(report).map(({ id, words }) => `<b>${escaped(id)}</b> ${phrase(words)}`);
  const body = [
    `<h1>${escaped(title)}</h1><p>${phrase(against)}</p>`,
    ...notes.map((note) => `<p>${phrase(note)}</p>`),
    part(subtitles.faults, faults.after.map(code)),
    part(subtitles.mustSee, seen),
    part(subtitles.earlier, faults.before.map(code)),
    part(
      subtitles.shared,
      shared.map(
        ({ file, personas: ids }) =>
          `${code(file)}, in ${counted(ids.length, "persona", "personas")}: ${escaped(ids.join(", "))}`,
      ),
    ),
    part(
      subtitles.labels,
      labels.map(
        ({ label, before, after }) => `${code(label)} ${escaped(before ?? "none")} → ${escaped(after ?? "none")}`,
      ),
    ),
    ...personas.map(personaOf),
  ];
  return `<!doctype html>\n${markdownMarker}\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${escaped(title)}</title><style>${style}</style></head>\n<body>${body.join("\n")}</body></html>\n`;
}

function personaOf(persona: PersonaReview): string {
  const files = persona.knowledge.map(
    ({ file, change, from, patch = "" }) =>
      `${code(file)} is ${change}${from === undefined ? "" : `, from ${code(from)}`}${diff(patch)}`,
  );
  const requests = requestWords(persona).map(
    ({ model, word, changes }) => `${code(model)} ${word} ${changes.map(code).join("; ")}`,
  );
  return [
    `<h2>${escaped(persona.id)}</h2><p>${phrase([...sideWords(persona), ...costWords(persona)].join(" · "))}</p>`,
    folded(subtitles.text, diff(persona.patch)),
    folded(subtitles.knowledge, files.length === 0 ? "" : list(files)),
    folded(subtitles.requests, requests.length === 0 ? "" : list(requests)),
    folded(testWords(persona), persona.tests.map(testOf).join("")),
  ].join("\n");
}

function testOf({ name, change, before, after }: TestReview): string {
  const sides = [before, after].map((side, at) => {
    const head = `${["before", "after"][at]}: <b class="${side?.verdict ?? ""}">${side?.verdict ?? "none"}</b>`;
    const reason = side?.reason ? `<br>${escaped(side.reason)}` : "";
    const measures =
      side?.latencyMs === undefined ? "" : ` (${side.latencyMs} ms${side.cost === undefined ? "" : `, $${side.cost}`})`;
    return `<div>${head}${measures}${reason}${side?.answer === undefined ? "" : `<pre>${escaped(side.answer)}</pre>`}</div>`;
  });
  const mark = change === "same" ? "" : change === "edited" ? " (the test itself is changed)" : ` (${change})`;
  return `<p>${code(name)}${mark}</p><div class="two">${sides.join("")}</div>`;
}
