import { expect, test } from "bun:test";
import fc from "fast-check";
import { globMatches, globReaches } from "../../../src/lib/text/glob.ts";
import { runs } from "../../helpers/long-form.ts";

const letters = fc.string({ unit: fc.constantFrom("a", "b", "/"), maxLength: 4 });
const glob = fc.string({ unit: fc.constantFrom("a", "b", "/", "*"), maxLength: 6 });

test("a glob reaches a beginning if and only if it matches some text with it", () => {
  fc.assert(
    fc.property(glob, letters, letters, (glob, beginning, rest) => {
      if (globMatches(glob, beginning + rest)) expect(globReaches(glob, beginning)).toBe(true);
      if (!globReaches(glob, beginning)) return;
      const [literal = "", ...pieces] = glob.split("*");
      const text = literal.startsWith(beginning) ? [literal, ...pieces].join("") : beginning + pieces.join("");
      expect(text.startsWith(beginning) && globMatches(glob, text)).toBe(true);
    }),
    { numRuns: runs(1000) },
  );
});
