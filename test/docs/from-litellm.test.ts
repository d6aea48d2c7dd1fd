/** docs/from-litellm.md from its first command to its last. */
import { expect, test } from "bun:test";
import { follow, steady, stepsOf } from "../helpers/page-session.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

test("a configuration moves by the page's steps alone, and each prints what the page says", async () => {
  const steps = stepsOf("docs/from-litellm.md");
  using folder = new TempFolder();
  const printed = await follow(steps, { cwd: folder.path, env: { HOME: folder.path } });
  for (const [at, { name, output }] of steps.entries()) {
    expect(printed[at], `${name} ran`).toBeDefined();
    if (output !== undefined) expect(steady(printed[at]!)).toBe(steady(output));
  }
});
