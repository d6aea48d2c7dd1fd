import { expect, test } from "bun:test";
import { builtinFiles } from "../../src/personas/builtin.ts";
import { findTests } from "../../src/personas/suites/find.ts";
import { Console } from "../cli/console.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { shipped } from "./shipped-answers.ts";

test("every shipped persona has tests", async () => {
  const tested = (await findTests(shipped)).map(({ persona }) => persona);
  expect(tested.toSorted()).toEqual(Object.keys(builtinFiles).toSorted());
});

/** Where this fails because a persona or a test has changed, `bun test/personas/shipped-answers.ts` records it anew. */
test("they pass from their recordings", async () => {
  using folder = new TempFolder();
  const shell = new Console(folder.path);
  const { code, out } = await shell.run(["personas", "test", "--personas", shipped, "--replay"]);
  expect(out).toMatch(/\n\n\d+ passed; \d+ tests, /);
  expect(code).toBe(0);
});
