/** Makes of a report what a server takes of it, for the personas' pages. Pure. */

import { maxTests, type ReportedPersona, type ReportUpload } from "../../api/persona-reports.ts";
import { around, cutPatch, differsAt } from "./markdown.ts";
import { costWords, sideWords } from "./phrases.ts";
import { mustSeeOf, type PersonaReview, type Report, snakeJson, type TestReview } from "./report.ts";

const maxPatchChars = 20_000;
const maxAnswerChars = 4_000;
/** Of one persona with its diffs and answers, and of a whole upload; what is beyond goes without them. */
const maxDetailsBytes = 128 * 1024;
const maxBytes = 3 * 1024 ** 2;

/** @returns as much of a report as a server takes */
export function reportUpload({ against: { ref, commit }, personas }: Report): ReportUpload {
  let room = maxBytes;
  const bytesOf = (value: object) => Buffer.byteLength(JSON.stringify(value));
  return {
    against: { ref, commit },
    personas: personas.map((persona) => {
      const whole = reported(persona, true);
      const bytes = bytesOf(whole);
      const isTooLarge = bytes > Math.min(maxDetailsBytes, room);
      if (!isTooLarge) room -= bytes;
      return isTooLarge ? reported(persona, false) : whole;
    }),
  };
}

/** @param isWhole false: without its diffs and answers */
function reported(persona: PersonaReview, isWhole: boolean): ReportedPersona {
  const { patch, tests, knowledge, totals: _, price: __, mustSee: ___, ...rest } = persona;
  const shown = {
    ...rest,
    summary: [...sideWords(persona), ...costWords(persona)],
    mustSee: mustSeeOf(persona),
    patch: isWhole ? cutPatch(patch, maxPatchChars) : "",
    knowledge: knowledge.map(({ file, change, patch: inside }) => ({
      ...{ file, change },
      ...(isWhole && inside !== undefined && { patch: cutPatch(inside, maxPatchChars) }),
    })),
    tests: tests.slice(0, maxTests).map((test) => reportedTest(test, isWhole)),
    ...((!isWhole || tests.length > maxTests) && { isCut: true }),
  };
  return snakeJson(shown) as ReportedPersona;
}

function reportedTest(test: TestReview, isWhole: boolean): TestReview {
  const at = differsAt(test.before?.answer ?? "", test.after?.answer ?? "");
  const side = (name: "before" | "after") => {
    const { answer, ...rest } = test[name] ?? {};
    if (test[name] === undefined) return {};
    return {
      [name]: { ...rest, ...(isWhole && answer !== undefined && { answer: around(answer, at, maxAnswerChars) }) },
    };
  };
  const { before: _, after: __, ...rest } = test;
  return { ...rest, ...side("before"), ...side("after") };
}
