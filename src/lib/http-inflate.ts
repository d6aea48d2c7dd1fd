/** Bodies that come compressed although nobody asked for it. */
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";

/** Takes a body's bytes. */
export interface ByteReceiver {
  data(bytes: Buffer): void;
  end(): void;
  fail(error: Error): void;
}

const inflaters = {
  gzip: createGunzip,
  "x-gzip": createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
};

/**
 * @param coding the `content-encoding`
 * @returns what takes the body as it comes, and gives it to `receiver` as it was; undefined for no or an unknown coding
 */
export function inflating(coding: string | null | undefined, receiver: ByteReceiver): ByteReceiver | undefined {
  const make = inflaters[coding?.trim().toLowerCase() as keyof typeof inflaters];
  if (make === undefined) return undefined;
  const stream = make();
  stream.on("data", (bytes: Buffer) => receiver.data(bytes));
  stream.on("end", () => receiver.end());
  stream.on("error", (error) => receiver.fail(error));
  return {
    data: (bytes) => void stream.write(bytes),
    end: () => void stream.end(),
    fail: (error) => receiver.fail(error),
  };
}
