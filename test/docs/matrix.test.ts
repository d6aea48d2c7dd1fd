/** docs/matrix.md is what upstreams that refuse what the real ones refuse say of each cell. */
import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { matrixPath, playMatrix, renderMatrix } from "../helpers/matrix.ts";

test("docs/matrix.md is what was played (`bun test/helpers/matrix.ts` writes it)", async () => {
  const rows = await playMatrix();
  expect(rows.length).toBeGreaterThan(130);
  expect(readFileSync(matrixPath, "utf8")).toBe(renderMatrix(rows));
  // What a client of Anthropic's says to Claude itself goes as it was said, and is refused byte for byte.
  const refused = rows.filter(({ cells }) => cells.some((cell) => typeof cell === "object" && "refused" in cell));
  expect(refused.map(({ format, model }) => `${format} ${model}`)).toEqual([
    "messages anthropic/claude-opus-5-5",
    "messages anthropic/claude-sonnet-5-5",
    "messages foundry/claude-opus-5-5",
    "messages vertex/claude-opus-5-5",
    "messages bedrock/us.anthropic.claude-opus-5-5",
  ]);
});
