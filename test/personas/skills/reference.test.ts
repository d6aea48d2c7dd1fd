/** What is a skill here is one for the form's reference, skills-ref of PyPI, and the other way round. */
import { expect, test } from "bun:test";
import { parseSkill } from "../../../src/personas/skills/skill-file.ts";
import { askPython, hasPython } from "../../helpers/format-programs.ts";
import { isLongForm } from "../../helpers/long-form.ts";

const head = (lines: string) => `---\n${lines}\n---\n\nDo it.\n`;
const named = (name: string, more = "") => head(`name: ${name}\ndescription: Does it.${more}`);

/** By folder and text. */
const cases: readonly (readonly [folder: string, text: string])[] = [
  ["a", named("a")],
  ["a-1", named("a-1")],
  ["1", named("1")],
  ["größe", named("größe")],
  ["学校", named("学校")],
  ["a", named("b")],
  ["A", named("A")],
  ["-a", named("-a")],
  ["a-", named("a-")],
  ["a--b", named("a--b")],
  ["a_b", named("a_b")],
  ["a b", named("a b")],
  ["a".repeat(64), named("a".repeat(64))],
  ["a".repeat(65), named("a".repeat(65))],
  ["a", named("a", "\nlicense: MIT\ncompatibility: Needs git.\nallowed-tools: Bash(git:*) Read")],
  ["a", named("a", "\nmetadata:\n  author: acme\n  version: 1.0")],
  ["a", named("a", "\nversion: 1")],
  ["a", named("a", `\ncompatibility: ${"x".repeat(500)}`)],
  ["a", named("a", `\ncompatibility: ${"x".repeat(501)}`)],
  ["a", named("a", "\nname: a")],
  ["a", head("name: a")],
  ["a", head("description: Does it.")],
  ["a", head("name: a\ndescription: ''")],
  ["a", head(`name: a\ndescription: ${"x".repeat(1024)}`)],
  ["a", head(`name: a\ndescription: ${"x".repeat(1025)}`)],
  ["a", head(`name: a\ndescription: ${"😀".repeat(1024)}`)],
  ["a", head("name: a\ndescription: |\n  One.\n  Two.")],
  ["a", head("- name\n- description")],
  ["a", head("")],
  ["a", "Do it.\n"],
  ["a", "---\nname: a\ndescription: Does it.\n"],
  ["a", "\n---\nname: a\ndescription: Does it.\n---\n"],
  ["a", named("a").replaceAll("\n", "\r\n")],
];

test.skipIf(!isLongForm || !hasPython)("the reference's validator takes and refuses the same", () => {
  const script = `
import json, sys, tempfile
from pathlib import Path
from skills_ref.validator import validate
verdicts = []
for folder, text in json.load(sys.stdin):
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / folder
        path.mkdir()
        (path / "SKILL.md").write_bytes(text.encode())
        verdicts.append(validate(path) == [])
print(json.dumps(verdicts))`;
  const theirs = askPython(script, cases) as boolean[];
  const ours = cases.map(([folder, text]) => "skill" in parseSkill(text, "SKILL.md", folder));
  expect(cases.map((one, at) => [...one, ours[at]])).toEqual(cases.map((one, at) => [...one, theirs[at]]));
  expect(ours.filter((verdict) => verdict)).toHaveLength(13);
});
