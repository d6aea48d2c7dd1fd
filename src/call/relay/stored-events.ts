/** The events of a response that was made, or is being made, in the background; and of any stored one, replayed. */
import type { KeyHolder } from "../../conversations/conversations.ts";
import { IterableSource } from "../../lib/streams/flow.ts";
import { replayEvents, sequenceNumberOf } from "../../protocols/responses/stored.ts";
import type { Answer, Events, LastEvents, RecordedEvents } from "../../upstream/answer.ts";
import type { Services } from "../services.ts";

/** A stored response. `format` is its format's name. */
type StoredResponse = { readonly keyHolder: KeyHolder; readonly id: string; readonly format: string };

/**
 * @param after the events up to that number are left out
 * @throws ApiError not_found, storage_unavailable, overloaded; the signal's reason
 */
export async function followEvents(
  { background }: Services,
  { keyHolder, id, format }: StoredResponse,
  signal: AbortSignal,
  after = -1,
): Promise<Answer> {
  await background.get(keyHolder, id, format);
  const kept = await background.events(keyHolder, id, signal);
  if (kept?.kind === "stream") return { ...kept, events: eventsAfter(kept.events as RecordedEvents, after) };
  const { answer } = await background.get(keyHolder, id, format);
  const replayed = replayEvents(answer).filter((event) => after < 0 || sequenceNumberOf(event)! > after);
  const events = new IterableSource<Events, LastEvents>([], { how: "finished", events: replayed });
  return { kind: "stream", headers: {}, events };
}

/** Without the ids that retries under a service-request-id need: this format numbers its events itself. */
async function* eventsAfter(kept: RecordedEvents, after: number): RecordedEvents {
  try {
    for (;;) {
      const { done, value } = await kept.next();
      if (done === true) return value;
      const wanted = value.map((event) => event.replace(/^id: [^\n]*\n/, "")).filter((event) => isAfter(event, after));
      if (wanted.length > 0) yield wanted;
    }
  } finally {
    await kept.return("cancelled");
  }
}

function isAfter(event: string, after: number): boolean {
  if (after < 0) return true;
  const number = sequenceNumberOf(event);
  return number === undefined || number > after;
}
