import { expect, test } from "bun:test";
import fc from "fast-check";
import { truncate } from "../../../src/lib/text/truncate.ts";

test("what fits stays, what does not is cut between characters", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme", maxLength: 40 }), fc.integer({ min: 2, max: 40 }), (text, max) => {
      const cut = truncate(text, max);
      expect(cut.length).toBeLessThanOrEqual(max);
      if (text.length <= max) expect(cut).toBe(text);
      else {
        expect(cut.at(-1)).toBe("…");
        expect(text.startsWith(cut.slice(0, -1))).toBe(true);
        expect(cut.isWellFormed()).toBe(true);
        expect(cut.length).toBeGreaterThanOrEqual(max - 1);
      }
    }),
  );
});
