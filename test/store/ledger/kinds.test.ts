import { expect, test } from "bun:test";
import fc from "fast-check";
import type { LedgerLine } from "../../../src/store/contract/usage.ts";
import { kindNames } from "../../../src/store/ledger/columns.ts";
import { groupedByKind, isAlike, kindValues } from "../../../src/store/ledger/kinds.ts";
import { ledgerLine } from "../../helpers/ledger-line.ts";

/** Lines that differ in few of the columns of kinds, and in what is their own. */
const lines = fc
  .record({
    requestId: fc.uuid(),
    at: fc.nat(),
    columns: fc.dictionary(fc.constantFrom(...kindNames), fc.constantFrom("a", "b"), { maxKeys: 2 }),
  })
  .map(({ requestId, at, columns }): LedgerLine => {
    const { tags, ...texts } = columns;
    return { ...ledgerLine(requestId), at, ...(texts as Partial<LedgerLine>), ...(tags && { tags: [tags] }) };
  });

const textOf = (line: LedgerLine) => JSON.stringify(kindValues(line));

test("lines are alike where all columns of their kinds are", () => {
  fc.assert(fc.property(lines, lines, (a, b) => expect(isAlike(a, b)).toBe(textOf(a) === textOf(b))));
});

test.each(kindNames)("a line that differs in %s alone is of another kind", (name) => {
  const line = ledgerLine("req_1");
  const other = { ...line, [name]: name === "tags" ? ["other"] : "other" };
  expect([isAlike(line, { ...line }), isAlike(line, other)]).toEqual([true, false]);
});

test("groups have all lines, in their order, and a kind in one group alone", () => {
  fc.assert(
    fc.property(fc.array(lines, { maxLength: 30 }), (all) => {
      const expected = [...Map.groupBy(all, textOf).values()];
      expect(groupedByKind(all)).toEqual(expected);
    }),
  );
});
