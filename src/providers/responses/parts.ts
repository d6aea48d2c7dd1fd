/** The texts of a stream's items, and the places that they are told apart by. */
import { isObject, type JsonObject, objectOf, textOf } from "../../lib/json/json.ts";
import { textIn } from "../reading.ts";

/** One of several texts of an item, so far. */
export type Part = {
  readonly kind: PartKind;
  readonly place: unknown;
  readonly index: unknown;
  text: string;
  isWhole: boolean;
};
export type PartKind = "text" | "refusal" | "summary" | "raw";

/** @param place the item's place, or the item itself where it came whole and without one */
export function partKey(kind: PartKind, place: unknown, index: unknown): string {
  return `${kind} ${isObject(place) ? "" : place} ${typeof index === "number" ? index : ""}`;
}

export function placeOf(event: JsonObject): number | string | undefined {
  const index = event["output_index"];
  return typeof index === "number" ? index : (textIn(event, "item_id") ?? textOf(objectOf(event["item"])?.["id"]));
}
