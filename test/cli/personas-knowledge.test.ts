import { expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

const persona = "model: builtin/eliza\nsystem: You sell.\ndescription: Sells.\n";
const files = {
  "clerk.yaml": `${persona}knowledge: { files: [docs/*.md], sections: 1 }\nlorebook: [{ keys: [kettle], content: "A {{word}}.", name: pots }]\nvariables: { word: { default: pot } }\n`,
  "sage.yaml": `${persona.replace("builtin/eliza", "openai/gpt-5.4-mini")}knowledge: [docs/*.md]
lorebook:
  - { keys: [kettle], content: A pot. }
  - { constant: true, content: Before., position: before_system }
`,
  "empty.yaml": `${persona}knowledge: [none/*.md]\n`,
  "plain.yaml": persona,
  "docs/returns.md": "# Returns\n\nA kettle comes back in a parcel.\n\n## Parcels\n\nA parcel costs nothing.\n",
  "docs/care.md": "# Care\n\nDescale it.\n",
};

const folder = untilEnd(new TempFolder());
mkdirSync(folder.file("personas/shop/docs"), { recursive: true });
for (const [name, text] of Object.entries(files)) writeFileSync(folder.file(`personas/shop/${name}`), text);

const run = (...words: string[]) => new Console(folder.path).run(["personas", "knowledge", ...words]);

test("lists the files that the globs name", async () => {
  const { code, out } = await run("shop/clerk");
  expect([code, out]).toEqual([
    0,
    "FILE             SECTIONS  BYTES\ndocs/care.md     1         20\ndocs/returns.md  2         81\n",
  ]);
  expect(await run("shop/empty")).toMatchObject({ code: 0, err: "No file is named by none/*.md.\n" });
});

test("shows what a question would put before itself, with scores", async () => {
  const { code, out } = await run("shop/clerk", "Is the parcel of my kettle free?", "--json");
  const { sections, lorebook, tokens, text } = JSON.parse(out);
  expect(code).toBe(0);
  expect(sections).toEqual([
    expect.objectContaining({ file: "docs/returns.md", heading: "Returns", lines: "1-4", added: true }),
    expect.objectContaining({ file: "docs/returns.md", heading: "Returns > Parcels", lines: "5-7", added: false }),
  ]);
  expect(lorebook).toEqual([{ name: "pots", tokens: 2, text: "A pot." }]);
  expect(text).toStartWith("<lorebook>\nA pot.\n</lorebook>\n\n<knowledge>\n<section source=");
  expect(tokens).toBeGreaterThan(20);
  const read = await run("shop/clerk", "Is the parcel of my kettle free?");
  expect(read.out).toContain(text);
  expect(read.out).toMatch(/^SCORE +FILE +LINES +HEADING +TOKENS +ADDED\n/);
  expect((await run("shop/clerk", "Hello!")).out).toBe("Nothing is found, so that nothing would be added.\n");
});

test("render shows each section with its place, and a lorebook's entries", async () => {
  const words = ["personas", "render", "shop/sage", "--input", "Is a parcel free, and the kettle?", "--json"];
  const { out } = await new Console(folder.path, { OPENAI_API_KEY: "sk-x" }).run(words);
  const [{ request, parts }] = JSON.parse(out).models;
  const { messages } = JSON.parse(request.body);
  const made = parts.find(({ path }: { path: string }) => path === "messages[1].content");
  expect(made.segments.map((one: { text: string }) => one.text).join("")).toBe(messages[1].content);
  expect(made.segments.map(({ origin }: { origin: { kind: string; file: string } }) => origin)).toEqual([
    expect.objectContaining({ kind: "lorebook", field: "lorebook", line: 6 }),
    { kind: "knowledge", field: "knowledge", file: "docs/returns.md", line: 1, column: 1 },
    { kind: "knowledge", field: "knowledge", file: "docs/returns.md", line: 5, column: 1 },
    { kind: "caller", field: "messages[0]" },
  ]);
  expect(messages[0].content).toBe("Before.\n\nYou sell.");
  const system = parts.find(({ path }: { path: string }) => path === "messages[0].content");
  expect(system.segments.map(({ origin }: { origin: { kind: string } }) => origin.kind)).toEqual([
    "lorebook",
    "persona",
  ]);
});

test("check warns of globs that name no file", async () => {
  const { code, err } = await new Console(folder.path).run("personas check");
  expect([code, err]).toEqual([
    0,
    expect.stringContaining("warning: shop/empty: knowledge: no file is named by none/*.md\n"),
  ]);
  const { out } = await new Console(folder.path).run("personas check --json");
  expect(JSON.parse(out)["missing_knowledge"]).toEqual(["shop/empty: knowledge: no file is named by none/*.md"]);
});

test("says who knows nothing, and who is not there", async () => {
  expect(await run("shop/plain")).toMatchObject({
    code: 1,
    err: expect.stringContaining("shop/plain has no knowledge."),
  });
  expect(await run("shop/clerc")).toMatchObject({
    code: 1,
    err: expect.stringContaining("Did you mean 'shop/clerk'?"),
  });
});
