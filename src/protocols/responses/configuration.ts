/**
 * Items that change what the next answers are made by: the effort of thinking, and the form of the text. Whoever translates a request
 * answers behind all of its items, so the latest word on each counts, and stands where the request itself would say it.
 * Source: https://platform.openai.com/docs/api-reference/responses/create (configuration_update)
 */
import { isObject, type JsonObject, objectOf } from "../../lib/json/json.ts";
import { formatPath, type PathPart } from "../../lib/json/schema-errors.ts";
import { truncate } from "../../lib/text/truncate.ts";
import { checked } from "../body/checked.ts";
import type { NativeOnly } from "../native-only.ts";
import { itemSchemas, type RequestFields } from "./schema.ts";

const updateType = "configuration_update";

type Configured = {
  readonly body: RequestFields;
  /** Where the form of the text is said. */
  readonly formatPath: readonly PathPart[];
};

/** What an update may say, by its members; everything else has no place outside OpenAI. */
const known: Readonly<Record<string, readonly string[] | undefined>> = {
  type: undefined,
  id: undefined,
  reasoning: ["effort"],
  text: ["format"],
};

/** @param nativeOnly takes what has no place elsewhere @throws ApiError */
export function configuredBy(asked: RequestFields, input: readonly unknown[], nativeOnly: NativeOnly): Configured {
  let body = asked;
  let place: readonly PathPart[] = ["text", "format"];
  for (const [at, item] of input.entries()) {
    if (!isObject(item) || item["type"] !== updateType) continue;
    const path = ["input", at];
    const said = checked(itemSchemas[updateType], item, path);
    const { effort } = said.reasoning ?? {};
    if (effort !== undefined) body = { ...body, reasoning: { ...body.reasoning, effort } };
    const { format } = said.text ?? {};
    if (format !== undefined) {
      body = { ...body, text: { ...body.text, format } };
      place = [...path, "text", "format"];
    }
    for (const member of membersWithoutPlace(item)) {
      const where = formatPath([...path, ...member]);
      nativeOnly.tool(where, `'${truncate(member.at(-1)!)}' can't be changed on the way by this provider.`);
    }
  }
  return { body, formatPath: place };
}

function membersWithoutPlace(item: JsonObject): string[][] {
  return Object.entries(item).flatMap(([name, value]) => {
    if (value == null) return [];
    if (!Object.hasOwn(known, name)) return [[name]];
    const within = known[name];
    if (within === undefined) return [];
    return Object.keys(objectOf(value) ?? {}).flatMap((one) => (within.includes(one) ? [] : [[name, one]]));
  });
}
