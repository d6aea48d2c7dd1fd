/** Encodes the events of a stream for its idempotency record, with their SSE ids. */

import type { CallId, RunRepository } from "../store/contract/store.ts";
import { unpackTextAside } from "../store/packing.ts";
import type { Events } from "../upstream/answer.ts";

/** Separates two events: a control character, which JSON escapes, so it never occurs within one. */
const separator = "\u001e";

const utf8 = new TextDecoder();

/** Prefix of each event's id. It names the call, so a `Last-Event-ID` of an earlier, lost call does not match. */
const idPrefixOf = ({ run }: Pick<CallId, "run">): string => `${run}-`;

/** The event number after `Last-Event-ID`; 0 when the header is absent or names another call. */
export function firstWanted(id: CallId, lastEventId: string | undefined): number {
  const prefix = idPrefixOf(id);
  if (lastEventId?.startsWith(prefix) !== true) return 0;
  const number = lastEventId.slice(prefix.length);
  return /^\d{1,9}$/.test(number) ? Number(number) + 1 : 0;
}

/** Adds `id:` fields. @param firstId the number of the first event */
export function withIds(events: readonly string[], call: Pick<CallId, "run">, firstId: number): string[] {
  const prefix = idPrefixOf(call);
  return events.map((event, at) => `id: ${prefix}${firstId + at}\n${event}`);
}

/** Splits encoded events into one text each. */
export function separateEvents(events: Events): readonly string[] {
  if (!(events instanceof Uint8Array)) return events;
  const texts = utf8.decode(events).split("\n\n");
  texts.pop();
  return texts.map((text) => `${text}\n\n`);
}

export const joinEvents = (events: readonly string[]): string => events.join(separator);
const splitText = (text: string): string[] => text.split(separator);

/** @throws StorageError when the events are damaged */
export async function splitEvents(packed: Uint8Array): Promise<string[]> {
  return splitText(await unpackTextAside(packed));
}

/** The events of the stored batch that contains `number`, from there on; empty when there is none. @throws StorageError */
export async function storedEvents(rows: RunRepository, call: CallId, number: number): Promise<string[]> {
  const stored = await rows.eventsAt(call, number);
  return stored === undefined ? [] : (await splitEvents(stored.data)).slice(number - stored.firstId);
}
