import { SseParser } from "../../src/lib/streams/sse.ts";
import type { ChunkBody } from "../../src/protocols/chat/schema.ts";
import type { StreamDecoder } from "../../src/providers/provider.ts";

/**
 * Decodes an SSE stream that arrives in these pieces, as a call does: up to the decoder's end, or the stream's.
 * @returns the bodies of each event, as they are decoded; @throws what the decoder throws
 */
export function* decodeStream(decoder: StreamDecoder, pieces: readonly Uint8Array[]): Generator<ChunkBody[]> {
  const parser = new SseParser();
  for (const piece of [...pieces, undefined]) {
    for (const event of piece === undefined ? parser.end() : parser.push(piece)) {
      yield decoder.push(event);
      if (decoder.finished) return yield decoder.end();
    }
  }
  yield decoder.end();
}
