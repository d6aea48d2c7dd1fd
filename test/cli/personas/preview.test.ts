/** `troupe personas preview`, with a key that may do only that: push, list, drop; and what reaches a preview from a terminal. */
import { expect, test } from "bun:test";
import { listPreviews } from "../../../src/operate/previews.ts";
import { untilEnd } from "../../helpers/served.ts";
import { Troupe } from "../../helpers/troupe.ts";
import type { Ran } from "../console.ts";
import { type Body, Workplace } from "./workplace.ts";

const files = {
  "personas/_shared/tone.md": "Be kind.",
  "personas/acme/prompt.md": "Help in {{language}}. {{> ../_shared/tone.md}}",
  "personas/acme/support.yaml": `# A comment
description: Support.
model: openai/gpt-5.4
system_file: prompt.md
variables: {language: {default: English}}
knowledge: [docs/*.md]
skills: [skills/*]
prompt_ids: {pmpt_1: {default: current}}
`,
  "personas/acme/skills/refund/SKILL.md": "---\nname: refund\ndescription: Pays back.\n---\nPay.\n",
  "personas/acme/docs/parcels.md": "# Parcels\n\nA parcel takes two days.\n",
  "personas/acme/plain.yaml": "description: Plain.\nmodel: openai/gpt-5.4\nsystem: Plain.\n",
  "personas/acme/support.test.yaml": `prompts: "{{question}}"
tests:
  - vars: {question: where is my parcel}
    assert: [{type: contains, value: PARCEL}]
`,
};

const place = untilEnd(new Workplace(files));
const troupe = untilEnd(await Troupe.start({ providers: { openai: { baseUrl: place.upstream.url } } }));
await troupe.server.services.loading;
const spec = { name: "ci", tier: "free", perMinute: 100_000, surfaces: ["preview"] } as const;
place.shell.env["TROUPE_KEY"] = await troupe.createKey(spec);

const run = (line: string): Promise<Ran> => place.shell.run(`personas preview ${line} --url ${troupe.url}`);
const sent = () => JSON.stringify((place.upstream.last.json as Body).messages);

test("push resolves the folder, and chat and tests reach what it pushed by the same key", async () => {
  const { code, out } = await run("push --label pr-12");
  expect([code, out.split("\n").map((line) => line.replace(/[0-9a-f]{12}|\d{4}-\S+Z/, "…"))]).toEqual([
    0,
    ["2 personas until …:", "  acme/plain@pr-12  …", "  acme/support@pr-12  …", ""],
  ]);
  const asked = await place.shell.run([
    ..."chat acme/support@pr-12 --no-stream --url".split(" "),
    troupe.url,
    "How long takes a parcel?",
  ]);
  expect([asked.code, asked.err]).toEqual([0, ""]);
  expect(sent()).toContain("Help in English. Be kind.");
  expect(sent()).toContain("A parcel takes two days.");
  expect(sent()).toContain("- refund: Pays back.");
  const tested = await place.shell.run(`personas test --url ${troupe.url} --label pr-12`);
  expect([tested.code, tested.out.split("\n").at(-2)]).toEqual([0, expect.stringContaining("1 passed; 1 test")]);
  const lost = await place.shell.run(`personas test --url ${troupe.url} --label pr-13`);
  expect([lost.code, lost.out]).toEqual([2, expect.stringContaining("may call previews of personas alone")]);
});

test("push takes globs and days, in JSON too; list and drop say what is there", async () => {
  const pushed = await run("push acme/pl* --label next --days 1 --json");
  const shown = JSON.parse(pushed.out) as { personas: { id: string }[]; pushed_at: string; ends_at: string };
  expect(shown.personas.map(({ id }) => id)).toEqual(["acme/plain"]);
  expect(Date.parse(shown.ends_at) - Date.parse(shown.pushed_at)).toBe(86_400_000);
  await run("push --label pr-12");
  const listed = await run("list");
  expect(listed.out.split("\n").map((line) => line.replace(/\d{4}-\S+Z/, "…"))).toEqual([
    "LABEL  PERSONAS                  PUSHED BY  UNTIL",
    "next   acme/plain                ci         …",
    "pr-12  acme/plain, acme/support  ci         …",
    "",
  ]);
  expect(await run("drop next")).toEqual({ code: 0, out: "The preview 'next' is gone.\n", err: "" });
  expect(await run("drop next")).toEqual({ code: 1, out: "", err: "error: No preview has the label 'next'.\n" });
});

test("what can't be pushed is said, with the place in the file where there is one, and nothing is pushed", async () => {
  expect(await run("push --label Pr_12")).toMatchObject({
    code: 1,
    err: expect.stringContaining("A label must be named"),
  });
  expect(await run("push acme/nobody --label a")).toMatchObject({
    code: 1,
    err: expect.stringContaining("There is no persona 'acme/nobody'"),
  });
  place.write("personas/acme/dear.yaml", "description: x\nmodel: openai/gpt-5.4\nsystem: x\ntier: pro\n");
  expect((await run("push --label a")).err).toBe(
    "error: acme/dear is of the tier pro, and this API key of free: it can't preview personas above its own.\n",
  );
  place.write("personas/acme/dear.yaml", "description: x\nmodel: openai/gpt-5.4\nsystem: '{{who}}'\n");
  const faulty = await run("push --label a");
  expect([faulty.code, faulty.err]).toEqual([1, expect.stringContaining("acme/dear.yaml:3:10")]);
  expect(faulty.err).toContain("Nothing was pushed");
  expect((await listPreviews(troupe.server.services)).some(({ label }) => label === "a")).toBe(false);
  const { env } = place.shell;
  const key = env["TROUPE_KEY"]!;
  env["TROUPE_KEY"] = troupe.key;
  expect((await run("list")).err).toContain("keys with 'preview' among their surfaces");
  delete env["TROUPE_KEY"];
  expect(await run("list")).toMatchObject({ code: 2, err: expect.stringContaining("The server's key is missing") });
  env["TROUPE_KEY"] = key;
  const alone = await place.shell.run("personas test --label pr-12");
  expect(alone).toMatchObject({ code: 2, err: expect.stringContaining("say which by --url") });
  const nowhere = await place.shell.run("personas preview list --url http://127.0.0.1:1");
  expect(nowhere).toMatchObject({ code: 1, err: expect.stringContaining("can't be reached") });
});
