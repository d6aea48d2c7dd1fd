/** What a live report asks is planned once: for the estimate, and for the run. */
import { expect, test } from "bun:test";
import { readSide } from "../../../../src/cli/personas/review/sides.ts";
import { type Planning, planSide } from "../../../../src/cli/personas/review/tests.ts";
import type { Persona } from "../../../../src/personas/persona.ts";
import { testFile, Workplace } from "../workplace.ts";

test("a side that was planned is not planned again", async () => {
  const persona = "description: Help.\nmodel: openai/gpt-5.4\nsystem: Help.\nlorebook: [{keys: [a], content: b}]\n";
  using place = new Workplace({
    "personas/acme/support.yaml": persona,
    [testFile]: "prompts: hello\ntests: [{}, {description: other}]\n",
  });
  const side = await readSide(place.folder.file("personas"), "personas/", () => true);
  let asked = 0;
  const find = async () => {
    asked += 1;
    return undefined;
  };
  const found = side.personas.get("acme/support")!;
  const plans = new Map<Persona, Planning>();
  const first = await planSide({ side, find, plans }, found);
  expect(await planSide({ side, find, plans }, found)).toBe(first!);
  expect({ asked, tests: first!.planned.length }).toEqual({ asked: 2, tests: 2 });
});
