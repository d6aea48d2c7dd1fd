/** Strings of users' turns that no upstream's format wants in other words. */
import type { JsonObject } from "../../lib/json/json.ts";
import { memberOf, passedBytes, passedOfUsers, passedText } from "../passed-strings.ts";

/** @param body nobody has checked it yet */
export const passedStrings = ({ messages }: JsonObject): string[] => passedOfUsers(messages, stringsOf);

function stringsOf({ type, text, source }: JsonObject): string[] {
  if (type === "text") return passedText(text);
  const isBytes = (type === "image" || type === "document") && memberOf(source, "type") === "base64";
  return isBytes ? passedBytes(memberOf(source, "data")) : [];
}
