/** Bodies that come compressed although nobody asked for it. */
import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from "node:zlib";
import type { Transfer } from "./client.ts";

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

/** Takes a body as it comes. Little of it can be much once it is unpacked: it waits here too while its reader does. */
export type Inflater = Pick<ByteReceiver, "data" | "end"> & Transfer;

/**
 * @param coding the `content-encoding`
 * @param transfer by which the body comes
 * @returns what gives the body to `receiver` as it was; undefined for no or an unknown coding
 */
export function inflating(
  coding: string | null | undefined,
  transfer: Transfer | undefined,
  receiver: ByteReceiver,
): Inflater | undefined {
  const make = inflaters[coding?.trim().toLowerCase() as keyof typeof inflaters];
  if (make === undefined) return undefined;
  const stream = make();
  stream.on("data", (bytes: Buffer) => receiver.data(bytes));
  stream.on("end", () => receiver.end());
  stream.on("error", (error) => receiver.fail(error));
  return {
    data: (bytes) => void stream.write(bytes),
    end: () => void stream.end(),
    pause() {
      stream.pause();
      transfer?.pause();
    },
    resume() {
      stream.resume();
      transfer?.resume();
    },
    cancel() {
      stream.destroy();
      transfer?.cancel();
    },
  };
}
