/** Strings of users' items that no upstream's format wants in other words. */
import type { JsonObject } from "../../lib/json/json.ts";
import { memberOf, passedBytes, passedOfUsers, passedText } from "../passed-strings.ts";

/** @param body nobody has checked it yet */
export const passedStrings = ({ input }: JsonObject): string[] =>
  typeof input === "string" ? passedText(input) : passedOfUsers(input, stringsOf);

function stringsOf(part: JsonObject): string[] {
  switch (part["type"]) {
    case "input_text":
      return passedText(part["text"]);
    case "input_image":
      return passedBytes(part["image_url"]);
    case "input_file":
      return passedBytes(part["file_data"]);
    case "input_audio":
      return passedBytes(memberOf(part["input_audio"], "data"));
    default:
      return [];
  }
}
