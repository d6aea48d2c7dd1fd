import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { digestOf, pollMs, watchFiles } from "../../../src/lib/files/file-watch.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

/** The files as they are now. */
const asRead = (...paths: string[]) =>
  new Map(paths.map((path) => [path, digestOf(existsSync(path) ? readFileSync(path, "utf8") : undefined)]));

/** Counts changes, and waits for the next. */
function changes() {
  let count = 0;
  let wake = () => {};
  return {
    get count() {
      return count;
    },
    on: () => {
      count += 1;
      wake();
    },
    next: () => new Promise<void>((resolve) => (wake = resolve)),
  };
}

describe("events", () => {
  test.each([
    ["written in place", (folder: TempFolder) => writeFileSync(folder.file("a"), "two")],
    [
      "replaced by another",
      (folder: TempFolder) => {
        writeFileSync(folder.file("a.tmp"), "two");
        renameSync(folder.file("a.tmp"), folder.file("a"));
      },
    ],
    ["removed", (folder: TempFolder) => rmSync(folder.file("a"))],
    ["made where there was none", (folder: TempFolder) => writeFileSync(folder.file("b"), "new")],
  ])("a file that is %s is told once", async (_, change) => {
    using folder = new TempFolder();
    writeFileSync(folder.file("a"), "one");
    const seen = changes();
    const watching = watchFiles(asRead(folder.file("a"), folder.file("b")), seen.on, systemClock);
    const next = seen.next();
    change(folder);
    await next;
    watching.close();
    expect(seen.count).toBe(1);
  });

  test("a file that was written between its reading and the watch is told", async () => {
    using folder = new TempFolder();
    writeFileSync(folder.file("a"), "one");
    const read = asRead(folder.file("a"));
    writeFileSync(folder.file("a"), "two");
    const seen = changes();
    const next = seen.next();
    const watching = watchFiles(read, seen.on, systemClock);
    await next;
    watching.close();
    expect(seen.count).toBe(1);
  });

  test("a volume that is renewed behind a link is seen", async () => {
    using folder = new TempFolder();
    for (const version of ["1", "2"]) {
      mkdirSync(folder.file(`..v${version}`));
      writeFileSync(folder.file(`..v${version}/key`), version);
    }
    symlinkSync("..v1", folder.file("..data"));
    symlinkSync("..data/key", folder.file("key"));
    const seen = changes();
    const watching = watchFiles(asRead(folder.file("key")), seen.on, systemClock);
    const next = seen.next();
    symlinkSync("..v2", folder.file("..new"));
    renameSync(folder.file("..new"), folder.file("..data"));
    await next;
    watching.close();
  });
});

describe("without events", () => {
  test("the poll finds a change, and says nothing of the same content", () => {
    using folder = new TempFolder();
    // The folder is not there when the watch begins.
    const path = folder.file("later/a");
    const clock = new ManualClock();
    const seen = changes();
    const watching = watchFiles(asRead(path), seen.on, clock);
    clock.advance(pollMs - 1);
    mkdirSync(folder.file("later"));
    writeFileSync(path, "one");
    expect(seen.count).toBe(0);
    clock.advance(1);
    expect(seen.count).toBe(1);
    writeFileSync(path, "one");
    clock.advance(pollMs);
    expect(seen.count).toBe(1);
    watching.close();
    writeFileSync(path, "two");
    clock.advance(pollMs * 2);
    expect(seen.count).toBe(1);
  });
});
