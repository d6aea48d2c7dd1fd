/** The events of kept streams, as they stand together in the store. */
import { formatSseEvent } from "../lib/sse.ts";
import { unpackTextAside } from "../store/packing.ts";
import type { IdempotencyRecord, RunRepository } from "../store/store.ts";
import type { Events } from "../upstream/answer.ts";

/** Between two events: a control character, which JSON only has escaped, so that it never stands within one. */
const separator = "\u001e";

type RecordedStream = Pick<IdempotencyRecord, "call" | "run" | "wholeEvents">;

const utf8 = new TextDecoder();

/** Short, as it stands before every event's number; an event of an earlier, lost call never continues this one. */
export const idPrefixOf = ({ run }: Pick<RecordedStream, "run">): string => `${run}-`;

/** @param firstId the number of the first one */
export function withIds(events: readonly string[], call: Pick<RecordedStream, "run">, firstId: number): string[] {
  const prefix = idPrefixOf(call);
  return events.map((event, at) => `id: ${prefix}${firstId + at}\n${event}`);
}

/** One text for each event. */
export function separateEvents(events: Events): readonly string[] {
  if (!(events instanceof Uint8Array)) return events;
  const texts = utf8.decode(events).split("\n\n");
  texts.pop();
  return texts.map((text) => `${text}\n\n`);
}

export const joinEvents = (events: readonly string[]): string => events.join(separator);

/** @throws StorageError when the events are damaged */
export async function splitEvents(packed: Uint8Array, { wholeEvents }: RecordedStream): Promise<string[]> {
  const text = await unpackTextAside(packed);
  return wholeEvents === 1 ? text.split(separator) : text.split("\n").map((data) => formatSseEvent(data));
}

/** Those of the batch that holds that number, from it on; none when it is not there. @throws StorageError */
export async function storedEvents(rows: RunRepository, call: RecordedStream, number: number): Promise<string[]> {
  const stored = await rows.eventsAt(call, number);
  return stored === undefined ? [] : (await splitEvents(stored.data, call)).slice(number - stored.firstId);
}
