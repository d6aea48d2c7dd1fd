import { describe, expect, test } from "bun:test";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { $ } from "bun";
import { type Entry, tarGz, zip } from "../../../deploy/release/archive.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

const seconds = 1_763_719_200;
const big = new Uint8Array(200_000).map((_, at) => (at * 7919) % 251);
const entries: Entry[] = [
  { path: "t/troupe", bytes: big, executable: true },
  { path: "t/LICENSE", bytes: new TextEncoder().encode("MIT\n") },
  { path: "t/personas/a/empty.yaml", bytes: new Uint8Array() },
  { path: "t/block", bytes: new Uint8Array(512).fill(65) },
];

describe.each([
  { name: "tar.gz", tool: "tar", write: tarGz, unpack: (file: string, to: string) => $`tar -xzf ${file} -C ${to}` },
  { name: "zip", tool: "unzip", write: zip, unpack: (file: string, to: string) => $`unzip -q ${file} -d ${to}` },
])("$name", ({ name, tool, write, unpack }) => {
  test.skipIf(Bun.which(tool) === null)("the system's own tool unpacks every byte, mode and time", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file(`a.${name}`), write(entries, seconds));
    mkdirSync(folder.file("out"));
    await unpack(folder.file(`a.${name}`), folder.file("out"))
      .env({ ...process.env, TZ: "UTC" })
      .quiet();
    for (const { path, bytes, executable } of entries) {
      const file = join(folder.file("out"), path);
      expect(new Uint8Array(readFileSync(file))).toEqual(new Uint8Array(bytes));
      expect(statSync(file).mode & 0o777).toBe(executable === true ? 0o755 : 0o644);
      expect(Math.abs(statSync(file).mtimeMs / 1000 - seconds)).toBeLessThanOrEqual(2);
    }
  });

  test("neither the entries' order nor the moment changes a byte; the time given does", () => {
    const once = write(entries, seconds);
    expect(write(entries.toReversed(), seconds)).toEqual(once);
    expect(write(entries, seconds + 60)).not.toEqual(once);
  });
});
