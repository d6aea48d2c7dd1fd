import { describe, expect, test } from "bun:test";
import type { Parent } from "../../src/lib/process/io.ts";
import {
  fixedSettingsOf,
  type ToWorker,
  WorkerChannel,
  type WorkerSettings,
  workerConfig,
} from "../../src/server/worker.ts";
import { configOf } from "../config/loading.ts";
import { ManualClock } from "../helpers/manual-clock.ts";

const slot: WorkerSettings = { index: 1, workers: 3, folder: "/f", isUpgrade: false, fixed: {} };

class FakeParent implements Parent {
  readonly heard: unknown[] = [];
  tell: (message: ToWorker) => void = () => {};
  end: () => void = () => {};

  send(message: unknown): void {
    this.heard.push(message);
  }
  onMessage(run: (message: unknown) => void): void {
    this.tell = run;
  }
  onDisconnect(run: () => void): void {
    this.end = run;
  }
}

function channelWith(clock = new ManualClock()) {
  const parent = new FakeParent();
  const workerChannel = new WorkerChannel(slot, parent, clock);
  const signals: string[] = [];
  const listen = () => {
    for (const name of ["SIGTERM", "SIGINT", "SIGHUP"] as const) workerChannel.onSignal(name, () => signals.push(name));
  };
  return { parent, workerChannel, signals, listen };
}

describe("a worker", () => {
  test("hears the signals that its supervisor passes on", () => {
    const { parent, signals, listen, workerChannel } = channelWith();
    listen();
    const off = workerChannel.onSignal("SIGHUP", () => signals.push("never"));
    off();
    parent.tell({ kind: "signal", name: "SIGHUP" });
    parent.tell({ kind: "signal", name: "SIGINT" });
    expect(signals).toEqual(["SIGHUP", "SIGINT"]);
  });

  test("stops when its supervisor has ended, though it was only starting; but not at once if it was stopping", () => {
    const late = channelWith();
    late.parent.end();
    expect(late.signals).toEqual([]);
    late.listen();
    expect(late.signals).toEqual(["SIGTERM"]);

    const stopping = channelWith();
    stopping.listen();
    stopping.parent.tell({ kind: "signal", name: "SIGHUP" });
    stopping.parent.tell({ kind: "signal", name: "SIGTERM" });
    stopping.parent.tell({ kind: "signal", name: "SIGTERM", again: true });
    stopping.parent.end();
    expect(stopping.signals).toEqual(["SIGHUP", "SIGTERM"]);
  });

  test("is answered, or not in time", async () => {
    const clock = new ManualClock();
    const { parent, workerChannel } = channelWith(clock);
    const metrics = workerChannel.ask("metrics");
    const status = workerChannel.ask("status");
    parent.tell({ kind: "answer", id: 2, answer: { workers: 3, running: 2, restarts: 1 } });
    clock.advance(3_000);
    expect(await metrics).toBeUndefined();
    expect(await status).toEqual({ workers: 3, running: 2, restarts: 1 });
    expect(parent.heard).toEqual([
      { kind: "question", id: 1, about: "metrics" },
      { kind: "question", id: 2, about: "status" },
    ]);
  });

  test("gives its counts and its calls once it listens", () => {
    const { parent, workerChannel } = channelWith();
    parent.tell({ kind: "read", id: 1, about: "snapshot", asked: [] });
    workerChannel.listening({ snapshot: () => [], calls: () => ({ lines: [], total: 3 }), pools: () => [] });
    parent.tell({ kind: "read", id: 2, about: "snapshot", asked: [] });
    parent.tell({ kind: "read", id: 3, about: "calls", asked: [{ limit: 1 }] });
    expect(parent.heard).toEqual([
      { kind: "listening" },
      { kind: "read", id: 2, value: [] },
      { kind: "read", id: 3, value: { lines: [], total: 3 } },
    ]);
  });
});

test("a worker's configuration is its own but for what can't change; what is bounded is divided", () => {
  const before = configOf({ yaml: "tiers: {free: 3}\nworkers: 3" });
  const after = configOf({ yaml: "tiers: {free: 4}\nworkers: 2\nlimits: {concurrent_requests: 100, json_depth: 9}" });
  const config = workerConfig({ ...slot, fixed: fixedSettingsOf(before) }, after);
  expect(config.tiers.free).toBe(3);
  expect(config.workers).toBe(3);
  expect(config.limits.jsonDepth).toBe(9);
  expect(config.limits.concurrentRequests).toBe(34);
});
