import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { TempFolder } from "../helpers/temp-folder.ts";
import { Console } from "./console.ts";

const persona = "model: builtin/eliza\nsystem: You sell.\ndescription: Sells.\n";
const files = {
  "clerk.yaml": `${persona}knowledge: { files: [docs/*.md], sections: 1 }\nlorebook: [{ keys: [kettle], content: "A {{word}}.", name: pots }]\nvariables: { word: { default: pot } }\n`,
  "empty.yaml": `${persona}knowledge: [none/*.md]\n`,
  "plain.yaml": persona,
  "docs/returns.md": "# Returns\n\nA kettle comes back in a parcel.\n\n## Parcels\n\nA parcel costs nothing.\n",
  "docs/care.md": "# Care\n\nDescale it.\n",
};
let folder: TempFolder;

beforeAll(() => {
  folder = new TempFolder();
  mkdirSync(folder.file("personas/shop/docs"), { recursive: true });
  for (const [name, text] of Object.entries(files)) writeFileSync(folder.file(`personas/shop/${name}`), text);
});
afterAll(() => folder[Symbol.dispose]());

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
