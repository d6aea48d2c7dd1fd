import { afterEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { folderDebounceMs, pollMs, type Watch, watchFolder } from "../../../src/lib/files/file-watch.ts";
import { ManualClock } from "../../helpers/manual-clock.ts";

/** Tells when a timer is set, and how many are running. */
class SpyClock extends ManualClock {
  readonly running = new Set<object>();
  #onSet = () => {};

  override setTimer(ms: number, run: () => void): () => void {
    const timer = {};
    this.running.add(timer);
    const cancelTimer = super.setTimer(ms, () => {
      this.running.delete(timer);
      run();
    });
    if (ms === folderDebounceMs) this.#onSet();
    return () => {
      this.running.delete(timer);
      cancelTimer();
    };
  }

  /** Resolves when an event next starts the debounce. */
  touched(): Promise<void> {
    return new Promise((resolve) => {
      this.#onSet = resolve;
    });
  }
}

let folder: string;
let watch: Watch | undefined;
afterEach(() => {
  watch?.close();
  rmSync(folder, { recursive: true, force: true });
});

function start(): { clock: SpyClock; calls: () => number } {
  folder = mkdtempSync(join(tmpdir(), "troupe-watch-"));
  const clock = new SpyClock();
  let count = 0;
  watch = watchFolder(
    folder,
    () => {
      count += 1;
    },
    clock,
  );
  return { clock, calls: () => count };
}

test("a burst of events is one call, after its last event", async () => {
  const { clock, calls } = start();
  for (const name of ["a", "b", "c"]) {
    const touched = clock.touched();
    writeFileSync(join(folder, name), "");
    await touched;
    clock.advance(folderDebounceMs - 1);
    expect(calls()).toBe(0);
  }
  clock.advance(1);
  expect(calls()).toBe(1);
});

test("without any event, one call each 30 s", () => {
  const { clock, calls } = start();
  clock.advance(pollMs - 1);
  expect(calls()).toBe(0);
  clock.advance(1);
  expect(calls()).toBe(1);
  clock.advance(2 * pollMs);
  expect(calls()).toBe(3);
});

test("closed, it leaves no timer and calls no more", async () => {
  const { clock, calls } = start();
  const touched = clock.touched();
  writeFileSync(join(folder, "x"), "1");
  await touched;
  expect(clock.running.size).toBe(2);
  watch!.close();
  expect(clock.running.size).toBe(0);
  clock.advance(10 * pollMs);
  expect(calls()).toBe(0);
});
