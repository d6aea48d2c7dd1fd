import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { priceListPath, priceListText } from "../helpers/price-list.ts";

test("the price list is that of the installed package", () => {
  expect(readFileSync(priceListPath, "utf8") === priceListText()).toBe(true);
});
