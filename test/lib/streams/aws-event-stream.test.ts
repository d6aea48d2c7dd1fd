import { describe, expect, test } from "bun:test";
import { EventStreamCodec } from "@smithy/eventstream-codec";
import fc from "fast-check";
import { EventStreamFault, EventStreamParser, eventStreamFraming } from "../../../src/lib/streams/aws-event-stream.ts";
import type { SseEvent } from "../../../src/lib/streams/sse.ts";
import { eventMessage, exceptionMessage } from "../../helpers/aws-event-stream.ts";
import { runs } from "../../helpers/long-form.ts";

function parse(pieces: readonly Uint8Array[]): SseEvent[] {
  const parser = new EventStreamParser();
  return [...pieces.flatMap((piece) => parser.push(piece)), ...parser.end()];
}

/** Those before the damage, and the fault itself. */
function parseUntilFault(bytes: Uint8Array): { events: SseEvent[]; isFaulty: boolean } {
  const parser = new EventStreamParser();
  const events: SseEvent[] = [];
  try {
    for (const byte of bytes) events.push(...parser.push(Uint8Array.of(byte)));
    parser.end();
    return { events, isFaulty: false };
  } catch (error) {
    expect(error).toBeInstanceOf(EventStreamFault);
    return { events, isFaulty: true };
  }
}

const smithy = new EventStreamCodec(
  (bytes) => (typeof bytes === "string" ? bytes : new TextDecoder().decode(bytes)),
  (text) => new TextEncoder().encode(text),
);

const sample = Buffer.concat([
  eventMessage("messageStart", '{"role":"assistant"}'),
  eventMessage("contentBlockDelta", '{"contentBlockIndex":0,"delta":{"text":"Grüße"}}'),
  exceptionMessage("throttlingException", '{"message":"Too many requests"}'),
]);
const sampleEvents: SseEvent[] = [
  { event: "messageStart", data: '{"role":"assistant"}', id: "event" },
  { event: "contentBlockDelta", data: '{"contentBlockIndex":0,"delta":{"text":"Grüße"}}', id: "event" },
  { event: "throttlingException", data: '{"message":"Too many requests"}', id: "exception" },
];

describe("EventStreamParser", () => {
  test("reads events, exceptions and errors", () => {
    expect(parse([sample])).toEqual(sampleEvents);
    const error = smithy.encode({
      headers: {
        ":message-type": { type: "string", value: "error" },
        ":error-code": { type: "string", value: "InternalError" },
        ":error-message": { type: "string", value: "An internal server error occurred." },
      },
      body: new Uint8Array(),
    });
    expect(parse([error])).toEqual([
      { event: "InternalError", data: "An internal server error occurred.", id: "error" },
    ]);
    expect(parse([])).toEqual([]);
  });

  test("reads the published vectors: no headers, one header, an integer among them", () => {
    // https://github.com/awslabs/aws-c-event-stream/tree/main/tests (test_incoming_no_op_valid and the others)
    const empty = Buffer.from("000000100000000005c248eb7d98c8ff", "hex");
    expect(parse([empty])).toEqual([{ event: "", data: "", id: "event" }]);
    const payload = Buffer.from("0000001d00000000fd528c5a7b27666f6f273a27626172277dc36539" + "36", "hex");
    expect(parse([payload])).toEqual([{ event: "", data: "{'foo':'bar'}", id: "event" }]);
  });

  test("reads what an independent codec wrote, with headers of every type", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme", maxLength: 200 }),
        fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }),
        fc.integer({ min: -2147483648, max: 2147483647 }),
        (data, type, integer) => {
          const bytes = smithy.encode({
            headers: {
              flag: { type: "boolean", value: integer % 2 === 0 },
              small: { type: "byte", value: integer % 100 },
              short: { type: "short", value: integer % 30_000 },
              integer: { type: "integer", value: integer },
              time: { type: "timestamp", value: new Date(1_700_000_000_000) },
              id: { type: "uuid", value: "f0ebd0b9-9d1c-4a64-8c3a-ef03c0d6a3b8" },
              binary: { type: "binary", value: Uint8Array.of(1, 2, 3) },
              ":event-type": { type: "string", value: type },
              ":message-type": { type: "string", value: "event" },
            },
            body: new TextEncoder().encode(data),
          });
          expect(parse([bytes])).toEqual([{ event: type, data, id: "event" }]);
        },
      ),
      { numRuns: runs(200) },
    );
  });

  test("writes of the test helper are read by the independent codec", () => {
    const { headers, body } = smithy.decode(eventMessage("metadata", "{}"));
    expect(headers[":event-type"]?.value).toBe("metadata");
    expect(headers[":content-type"]?.value).toBe("application/json");
    expect(new TextDecoder().decode(body)).toBe("{}");
  });

  test("gives the same events wherever the bytes are split", () => {
    for (let at = 0; at <= sample.length; at += 1) {
      expect(parse([sample.subarray(0, at), sample.subarray(at)])).toEqual(sampleEvents);
    }
    expect(parse([...sample].map((byte) => Uint8Array.of(byte)))).toEqual(sampleEvents);
  });

  test("a byte that changed is an error, with the events before its message and no other", () => {
    for (let at = 0; at < sample.length; at += 1) {
      for (const mask of [0x01, 0x80, 0xff]) {
        const damaged = Uint8Array.from(sample);
        damaged[at] = damaged[at]! ^ mask;
        const { events, isFaulty } = parseUntilFault(damaged);
        expect(isFaulty).toBe(true);
        expect(events).toEqual(sampleEvents.slice(0, events.length));
      }
    }
  });

  test("a stream that is cut within a message is an error", () => {
    const ends = new Set<number>();
    let end = 0;
    for (const { event, data, id } of sampleEvents) {
      end += (id === "event" ? eventMessage(event, data) : exceptionMessage(event, data)).length;
      ends.add(end);
    }
    for (let at = 1; at < sample.length; at += 1) {
      expect(parseUntilFault(sample.subarray(0, at)).isFaulty).toBe(!ends.has(at));
    }
  });

  test("refuses a message that is too large by its prelude alone", () => {
    for (const [total, headers] of [
      [24 * 1024 * 1024 + 1, 0],
      [1024 * 1024, 128 * 1024 + 1],
      [15, 0],
      [100, 90],
    ] as const) {
      const prelude = new DataView(new ArrayBuffer(12));
      prelude.setUint32(0, total);
      prelude.setUint32(4, headers);
      prelude.setUint32(8, Bun.hash.crc32(new Uint8Array(prelude.buffer, 0, 8)));
      expect(() => new EventStreamParser().push(new Uint8Array(prelude.buffer))).toThrow(EventStreamFault);
    }
  });

  test("reads a large message that comes in small pieces", () => {
    const data = JSON.stringify({ text: "x".repeat(300_000) });
    const whole = eventMessage("contentBlockDelta", data);
    const parser = new EventStreamParser();
    const events: SseEvent[] = [];
    for (let at = 0; at < whole.length; at += 1000) {
      const piece = whole.subarray(at, at + 1000);
      events.push(...parser.push(Uint8Array.from(piece)));
    }
    expect(events).toEqual([{ event: "contentBlockDelta", data, id: "event" }]);
    expect(parser.isBetweenEvents).toBe(true);
  });

  test("the framing names its type", () => {
    expect(eventStreamFraming.type).toBe("application/vnd.amazon.eventstream");
    expect(eventStreamFraming.begins.has(sample[0])).toBe(true);
  });
});
