/** The type of an upstream's event, in the formats that name their events twice: in a field of their own and in their data. */
import { objectOf, parseJson, textOf } from "../lib/json/json.ts";
import type { SseEvent } from "../lib/streams/sse.ts";
import { InvalidAnswer } from "./errors.ts";

/** @returns the type in the event's data, which may be another than its name. @throws InvalidAnswer for an event without one */
export function eventType({ event, data }: SseEvent): string {
  // Most events are written so, and need no parsing.
  if (event !== "" && data.includes(`"type":"${event}"`)) return event;
  const type = textOf(objectOf(parseJson(data))?.["type"]);
  if (type === undefined) throw new InvalidAnswer("an event without a type");
  return type;
}
