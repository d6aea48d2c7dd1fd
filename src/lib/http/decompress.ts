/** Decompresses bodies that are compressed although the request did not allow it. */
import type { Flow, Sink } from "../streams/flow.ts";

const makers = {
  gzip: "createGunzip",
  "x-gzip": "createGunzip",
  deflate: "createInflate",
  br: "createBrotliDecompress",
  zstd: "createZstdDecompress",
} as const;

/** A stage that decompresses a body. It pauses with its sink, as few compressed bytes can expand to many. */
export type Decompressor = Sink<Buffer> & Flow;

/**
 * @param coding the `content-encoding`
 * @param source by which the body comes
 * @returns what gives the body to `sink` as it was; undefined for no or an unknown coding
 */
export function decompressor(
  coding: string | null | undefined,
  source: Flow | undefined,
  sink: Sink<Buffer>,
): Decompressor | undefined {
  const make = makers[coding?.trim().toLowerCase() as keyof typeof makers];
  if (make === undefined) return undefined;
  // Loaded for the first such body: it takes 9 ms, and hardly any comes.
  const zlib = require("node:zlib") as typeof import("node:zlib");
  const stream = zlib[make]();
  stream.on("data", (bytes: Buffer) => sink.push(bytes));
  stream.on("end", () => sink.end());
  stream.on("error", (error) => sink.fail(error));
  return {
    push: (bytes) => void stream.write(bytes),
    end: () => void stream.end(),
    fail: (error) => void stream.destroy(error as Error),
    pause() {
      stream.pause();
      source?.pause();
    },
    resume() {
      stream.resume();
      source?.resume();
    },
    cancel() {
      stream.destroy();
      source?.cancel();
    },
  };
}
