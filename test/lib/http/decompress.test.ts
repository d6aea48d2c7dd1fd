import { expect, test } from "bun:test";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { type Decompressor, decompressor } from "../../../src/lib/http/decompress.ts";

const packers = { gzip: gzipSync, deflate: deflateSync, br: brotliCompressSync, zstd: zstdCompressSync };
const MiB = 1024 * 1024;

/** What a receiver was told; it pauses at its first piece. */
function pausing(coding: string) {
  const told = { size: 0, wishes: [] as string[] };
  const over = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const wish = (what: string) => () => void told.wishes.push(what);
  const stage: Decompressor = decompressor(
    coding,
    { pause: wish("pause"), resume: wish("resume"), cancel: wish("cancel") },
    {
      push(bytes) {
        if (told.size === 0) stage.pause();
        told.size += bytes.byteLength;
        begun.resolve();
      },
      end: over.resolve,
      fail: over.reject,
    },
  )!;
  return { stage, told, begun: begun.promise, over: over.promise };
}

/** Unpacks it all: as long as that takes. */
function unpacked(coding: string, packed: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    const stage = decompressor(coding, undefined, { push() {}, end: resolve, fail: reject })!;
    stage.push(packed);
    stage.end();
  });
}

test.each(Object.entries(packers))(
  "a little of %s that is much waits until it is wanted, and is all there then",
  async (coding, pack) => {
    const packed = pack(Buffer.alloc(24 * MiB));
    const { stage, told, begun, over } = pausing(coding);
    stage.push(packed);
    stage.end();
    await begun;
    await unpacked(coding, packed);
    expect(told).toEqual({ size: expect.any(Number), wishes: ["pause"] });
    expect(told.size).toBeLessThan(MiB);
    stage.resume();
    await over;
    expect(told).toEqual({ size: 24 * MiB, wishes: ["pause", "resume"] });
  },
);

test("whoever cancels gets nothing more", async () => {
  const { stage, told, begun } = pausing("gzip");
  const packed = gzipSync(Buffer.alloc(8 * MiB));
  stage.push(packed);
  await begun;
  const { size } = told;
  stage.cancel();
  stage.resume();
  await unpacked("gzip", packed);
  expect(told).toEqual({ size, wishes: ["pause", "cancel", "resume"] });
});

test.each([null, undefined, "", "identity", "x-unknown", "gzip, br"])("%j is left as it is", (coding) => {
  expect(decompressor(coding, undefined, { push() {}, end() {}, fail() {} })).toBeUndefined();
});
