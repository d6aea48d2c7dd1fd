/** Strings of users' messages that no upstream's format wants in other words. */
import type { JsonObject } from "../../lib/json/json.ts";
import { memberOf, passedBytes, passedOfUsers, passedText } from "../passed-strings.ts";

/** @param body nobody has checked it yet */
export const passedStrings = ({ messages }: JsonObject): string[] => passedOfUsers(messages, stringsOf);

function stringsOf(part: JsonObject): string[] {
  switch (part["type"]) {
    case "text":
      return passedText(part["text"]);
    case "image_url":
      return passedBytes(memberOf(part["image_url"], "url"));
    case "input_audio":
      return passedBytes(memberOf(part["input_audio"], "data"));
    case "file":
      return passedBytes(memberOf(part["file"], "file_data"));
    default:
      return [];
  }
}
