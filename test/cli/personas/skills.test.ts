/** Skills as commands show, check and record them. */
import { expect, test } from "bun:test";
import { recorded, testFile, Workplace } from "./workplace.ts";

const skill = "personas/acme/skills/refunds/SKILL.md";
const files = {
  "personas/acme/support.yaml": "description: Support.\nmodel: openai/gpt-5.4\nsystem: Help.\nskills: [skills/*]\n",
  [skill]: "---\nname: refunds\ndescription: Pays back.\nallowed-tools: Bash\n---\nAsk why.\n",
  "personas/acme/skills/refunds/scripts/pay.py": "print(1)\n",
  [testFile]: "prompts: hello\ntests: [{description: greets}]\n",
};

test("check says what is wrong at its place, and what a skill has that does nothing here", async () => {
  using place = new Workplace(files);
  const { code, err } = await place.shell.run("personas check");
  expect({ code, err }).toEqual({
    code: 0,
    err: [
      "warning: acme/support: the skill 'refunds' has programs, which are never run here: scripts/pay.py",
      "warning: acme/support: the skill 'refunds' has allowed-tools, which grants nothing here: mcp.allow does",
      "",
    ].join("\n"),
  });
  place.write(skill, "---\nname: refund\ndescription: Pays back.\n---\nAsk why.\n");
  const wrong = await place.shell.run("personas check");
  expect(wrong.code).toBe(1);
  expect(wrong.err).toStartWith(
    `${place.folder.file(skill)}:2:7: name: must be the name of its folder, 'refunds' (in a skill of acme/support)\n`,
  );
});

test("render shows what the model is told, and the tool", async () => {
  using place = new Workplace(files);
  const { out, code } = await place.shell.run("personas render acme/support --json");
  expect(code).toBe(0);
  const { composed, parts } = JSON.parse(out) as {
    composed: { tools: { function: { name: string } }[] };
    parts: { path: string; origin: { field?: string }; segments?: { text: string; origin: { field: string } }[] }[];
  };
  expect(composed.tools.map((tool) => tool.function.name)).toEqual(["read_skill"]);
  const [system] = parts;
  expect(system!.segments!.map(({ text, origin }) => [text.trim().split("\n").at(-1), origin.field])).toEqual([
    ["Help.", "system"],
    ["- refunds: Pays back.", "skills"],
  ]);
});

test("a recording is of the skills that could be read: another text of one is another request", async () => {
  using place = new Workplace(files);
  expect((await place.shell.run("personas test --record")).code).toBe(0);
  expect(place.read(recorded)).toMatch(/ skills:\n {8}refunds: "?[0-9a-f]{12}"?\n/);
  expect((await place.shell.run("personas test --replay")).code).toBe(0);
  place.write(skill, place.read(skill).replace("why", "when"));
  const { code, out } = await place.shell.run("personas test --replay");
  expect(code).toBe(2);
  expect(out).toContain("the request has changed since it was recorded: skills.refunds: ");
});
