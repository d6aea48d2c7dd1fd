import { expect, test } from "bun:test";
import fc from "fast-check";
import type { LedgerLine } from "../../../src/store/contract/usage.ts";
import { dimensionNames } from "../../../src/store/ledger/columns.ts";
import { dimensionValues, groupedByDimensions, hasSameDimensions } from "../../../src/store/ledger/dimensions.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";

/** Lines that differ in few of their dimensions, and in what is their own. */
const lines = fc
  .record({
    requestId: fc.uuid(),
    at: fc.nat(),
    columns: fc.dictionary(fc.constantFrom(...dimensionNames), fc.constantFrom("a", "b"), { maxKeys: 2 }),
  })
  .map(({ requestId, at, columns }): LedgerLine => {
    const { tags, ...texts } = columns;
    return { ...ledgerLine(requestId), at, ...(texts as Partial<LedgerLine>), ...(tags && { tags: [tags] }) };
  });

const textOf = (line: LedgerLine) => JSON.stringify(dimensionValues(line));

test("lines have the same dimensions where all of them are alike", () => {
  fc.assert(fc.property(lines, lines, (a, b) => expect(hasSameDimensions(a, b)).toBe(textOf(a) === textOf(b))));
});

test.each(dimensionNames)("a line that differs in %s alone has other dimensions", (name) => {
  const line = ledgerLine("req_1");
  const other = { ...line, [name]: name === "tags" ? ["other"] : "other" };
  expect([hasSameDimensions(line, { ...line }), hasSameDimensions(line, other)]).toEqual([true, false]);
});

test("groups have all lines, in their order, and each set of dimensions in one group alone", () => {
  fc.assert(
    fc.property(fc.array(lines, { maxLength: 30 }), (all) => {
      const expected = [...Map.groupBy(all, textOf).values()];
      expect(groupedByDimensions(all)).toEqual(expected);
    }),
  );
});
