/** Streams that pass as they come, in any pieces. */
import type { Sink } from "../../src/lib/streams/flow.ts";
import { StreamFold } from "../../src/protocols/chat/fold.ts";
import type { ChunkBody } from "../../src/protocols/chat/schema.ts";
import type { NativeEncoder } from "../../src/protocols/protocol.ts";
import type { StreamDecoder } from "../../src/providers/provider.ts";
import type { UpstreamAnswer } from "../../src/upstream/client.ts";
import { NativeStream, type NativeStreamOptions } from "../../src/upstream/stream/native-stream.ts";

/** @param lengths of the pieces; the last one is the rest */
export function cutIn(bytes: Buffer, lengths: readonly number[]): Buffer[] {
  const parts: Buffer[] = [];
  let at = 0;
  for (const length of lengths) {
    if (at < bytes.length) parts.push(bytes.subarray(at, at + length));
    at += length;
  }
  if (at < bytes.length) parts.push(bytes.subarray(at));
  return parts;
}

/**
 * @param parts the upstream's bytes @param isCut whether the connection breaks behind them
 * @returns what goes to the client, and what is known of the answer
 */
export function passedThrough(
  parts: readonly Buffer[],
  decoder: StreamDecoder,
  isCut: boolean,
  encoder: NativeEncoder,
  endsWithStream = false,
) {
  const sent: string[] = [];
  const fold = new StreamFold();
  let [length, how] = [0, ""];
  const known: unknown[] = [];
  const observer = {
    body: (chunk: ChunkBody) => {
      fold.push([chunk]);
      length += chunk.choices[0]?.delta.content?.length ?? 0;
    },
    completed: async (result: object) => void known.push(result),
    faulted: (fault: Error, counted: unknown) => void known.push(fault.message, counted),
    abandoned() {},
  };
  const answer = { name: "up", pause() {}, resume() {}, cancel() {}, drain() {}, endSoon() {} };
  const options = {
    form: { thinkingRequested: false, choices: 1 },
    observer,
    renderFault: (fault: Error) => ({ message: fault.message, type: "server_error", param: "", code: "x" }),
    encoder,
    passesFaults: true,
    endsWithStream,
  } as unknown as NativeStreamOptions;
  const flow = (sink: Sink<Buffer>) => {
    for (const part of parts) sink.push(part);
    if (isCut) sink.fail(new Error("cut"));
    else sink.end();
  };
  const stream = new NativeStream({ ...answer, flow } as unknown as UpstreamAnswer, decoder, options);
  void stream.open().catch((error: Error) => {
    how = error.message;
  });
  stream.flow({
    push: (events) => void sent.push(events instanceof Uint8Array ? Buffer.from(events).toString() : events.join("")),
    end: ({ how: ending, events }) => {
      how = ending;
      sent.push(events.join(""));
    },
    fail: (error) => {
      how = String(error);
    },
  });
  return { text: sent.join(""), how, known, length, answer: fold.complete ? fold.result() : undefined };
}
