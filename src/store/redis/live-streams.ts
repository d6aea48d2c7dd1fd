/** Streams of calls under way in Valkey or Redis. */
import type { Clock } from "../../lib/clock.ts";
import {
  endPart,
  type LiveEntry,
  type LiveHead,
  type LiveNews,
  type LivePlace,
  type LiveStreams,
  liveTimes,
} from "../live-streams.ts";
import type { CoordinationState } from "../metrics.ts";
import { RedisConnection } from "./connection.ts";
import {
  appendScript,
  askScript,
  beginScript,
  endScript,
  inboxKey,
  listenScript,
  ownerKey,
  runKey,
} from "./live-scripts.ts";
import { scriptsOn } from "./scripts.ts";

/** Deadline of an answer, in milliseconds: one that takes longer is taken to be lost. */
const deadlineMs = 500;
/** Entries of one answer: of all streams together, and the fewest and the most of one. */
const maxEntries = 1_024;
const fewest = 2;
const most = 64;

/** An entry, as the server gives it. */
type Row = readonly [id: string, fields: readonly string[]];

export type RedisStreams = LiveStreams & { readonly connection: () => CoordinationState };

/** Connects when it is first used: once for what is answered at once, and once for what waits. */
export function openRedisStreams(url: string, clock: Clock): RedisStreams {
  const waiting = new RedisConnection(url, liveTimes.waitMs + deadlineMs, clock);
  // A command that waits on a replica does not learn that the server is one.
  const quick = new RedisConnection(url, deadlineMs, clock, { onDemoted: () => waiting.renew() });
  const run = scriptsOn(quick, [listenScript, askScript, beginScript, appendScript, endScript]);
  return {
    place: quick.place,
    connection: () => quick.state("streams"),
    async listen(node, owner) {
      await run(listenScript, [inboxKey(node), ...(owner === undefined ? [] : [ownerKey(owner)])], [node]);
    },
    async ask(stream, owner, wakes) {
      const keys = [runKey(stream), ownerKey(owner), inboxKey(wakes ?? "")];
      const found = (await run(askScript, keys, [stream, wakes === undefined ? 0 : 1])) as Row[] | null;
      if (found === null) return undefined;
      const head = found[0] && entryOf(found[0]);
      return head === undefined ? {} : { head: head as LiveHead };
    },
    async begin(stream, generation, headers) {
      await run(beginScript, [runKey(stream)], [generation, headers === undefined ? 0 : 1, headers ?? ""]);
    },
    async append(stream, { firstId, count, text }, floor) {
      const expected = await run(appendScript, [runKey(stream)], [firstId, count, text, floor]);
      return (expected as number | null) ?? undefined;
    },
    async end(stream, events) {
      await run(endScript, [runKey(stream)], [events ?? -1]);
    },
    async read(stream, after) {
      const rows = await quick.run("XRANGE", [runKey(stream), `(${idOf(after)}`, "+", "COUNT", String(most)]);
      return (rows as Row[]).map(entryOf);
    },
    async wait(node, inbox, streams) {
      const names = [...streams.keys()];
      const count = Math.min(most, Math.max(fewest, Math.floor(maxEntries / (names.length + 1))));
      const ids = [inbox === "" ? "0-0" : inbox, ...[...streams.values()].map(idOf)];
      const keys = [inboxKey(node), ...names.map(runKey)];
      const options = ["COUNT", String(count), "BLOCK", String(liveTimes.waitMs), "STREAMS"];
      const found = (await waiting.run("XREAD", [...options, ...keys, ...ids])) as Readonly<
        Record<string, Row[]>
      > | null;
      return newsOf(found ?? {}, node, inbox, names);
    },
    async close() {
      await Promise.all([quick.close(), waiting.close()]);
    },
  };
}

const idOf = ([events, part]: LivePlace) => `${events}-${part}`;

function newsOf(found: Readonly<Record<string, Row[]>>, node: string, inbox: string, names: string[]): LiveNews {
  const messages = found[inboxKey(node)] ?? [];
  const entries = new Map<string, LiveEntry[]>();
  for (const name of names) {
    const rows = found[runKey(name)];
    if (rows !== undefined) entries.set(name, rows.map(entryOf));
  }
  const asked = messages.flatMap(([, [kind, value]]) => (kind === "ask" ? [value!] : []));
  return { inbox: messages.at(-1)?.[0] ?? inbox, messages: messages.length, asked, entries };
}

function entryOf([id, [kind, value, , text]]: Row): LiveEntry {
  const [events, part] = id.split("-").map(Number) as [number, number];
  const place: LivePlace = [events, part];
  if (kind === "first") return { kind: "events", place, firstId: Number(value), text: text! };
  if (part >= endPart) return { kind: kind === "finished" ? "finished" : "look", place };
  return { kind: "head", place, headers: kind === "head" ? value : undefined };
}
