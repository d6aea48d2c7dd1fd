import { describe, expect, test } from "bun:test";
import { buildInfo } from "../../src/build-info.ts";
import type { Config } from "../../src/config/config.ts";
import { Notifier } from "../../src/lib/linux/sd-notify.ts";
import type { Signal, Worker } from "../../src/lib/process/io.ts";
import { runSupervisor } from "../../src/server/supervisor.ts";
import type { ToSupervisor, ToWorker, WorkerSettings } from "../../src/server/worker.ts";
import { configOf } from "../config/loading.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { TempFolder } from "../helpers/temp-folder.ts";

/** A worker that does what a test says. */
class FakeWorker implements Worker {
  readonly id: number;
  readonly settings: WorkerSettings;
  readonly told: ToWorker[] = [];
  killed = false;
  readonly #ended = Promise.withResolvers<number>();
  readonly #hear: (message: unknown) => void;

  constructor(id: number, env: Readonly<Record<string, string>>, hear: (message: unknown) => void) {
    this.id = id;
    this.settings = JSON.parse(env["TROUPE_WORKER"]!) as WorkerSettings;
    this.#hear = hear;
  }

  get ended(): Promise<number> {
    return this.#ended.promise;
  }

  says(message: ToSupervisor): void {
    this.#hear(message);
  }

  end(code: number): void {
    this.#ended.resolve(code);
  }

  send(message: unknown): void {
    this.told.push(message as ToWorker);
  }

  kill(): void {
    this.killed = true;
    this.end(137);
  }
}

/** A supervisor whose workers, signals and time a test moves. */
class Stage {
  readonly clock = new ManualClock();
  readonly workers: FakeWorker[] = [];
  readonly log: { message: string; [field: string]: unknown }[] = [];
  readonly code: Promise<number>;
  readonly #signals = new Map<Signal, () => void>();

  private constructor(data: string, workers: number) {
    const listen: Config["listen"] = [
      { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway"] },
    ];
    this.code = runSupervisor(
      { ...configOf({}), workers, data, listen, shutdown: { delaySeconds: 0, drainSeconds: 30 } },
      {
        build: buildInfo,
        clock: this.clock,
        notifier: new Notifier({}, 1),
        io: {
          logSink: {
            write: (text) =>
              this.log.push(
                ...text
                  .trimEnd()
                  .split("\n")
                  .map((line) => JSON.parse(line)),
              ),
            flush: () => {},
          },
          say: () => {},
          isTerminal: false,
          behindForwardProxy: false,
          env: {},
          onSignal: (name, run) => {
            this.#signals.set(name, run);
            return () => void this.#signals.delete(name);
          },
          processes: {
            id: 1,
            program: [],
            startAgain: () => ({ id: 2, ended: new Promise(() => {}) }),
            startWorker: (env, hear) => {
              const worker = new FakeWorker(100 + this.workers.length, env, hear);
              this.workers.push(worker);
              return worker;
            },
            signal: () => {},
          },
        },
      },
    );
  }

  static async start(data: string, workers = 2): Promise<Stage> {
    const stage = new Stage(data, workers);
    // The data folder comes first.
    await new Promise((resolve) => setImmediate(resolve));
    return stage;
  }

  /** With all workers listening. */
  static async up(data: string, workers?: number): Promise<Stage> {
    const stage = await Stage.start(data, workers);
    for (const worker of stage.workers) worker.says({ kind: "listening" });
    return stage;
  }

  signal(name: Signal): void {
    this.#signals.get(name)!();
  }

  get last(): FakeWorker {
    return this.workers.at(-1)!;
  }
}

/** Lets what was resolved have its consequences. */
const settled = async () => {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
};

describe("workers", () => {
  test("each has its slot, with a port and a folder for all", async () => {
    using folder = new TempFolder();
    const stage = await Stage.start(folder.path, 3);
    const settings = stage.workers.map(({ settings }) => settings);
    expect(settings.map(({ index, workers }) => [index, workers])).toEqual([1, 2, 3].map((index) => [index, 3]));
    expect(new Set(settings.map(({ folder }) => folder)).size).toBe(1);
    const ports = settings.map(({ fixed }) => (fixed.listen![0]!.address as { port: number }).port);
    expect(ports[0]).toBeGreaterThan(0);
    expect(new Set(ports).size).toBe(1);
    for (const worker of stage.workers) worker.end(1);
    expect(await stage.code).toBe(1);
  });

  test("one that can't start at first ends all", async () => {
    using folder = new TempFolder();
    const stage = await Stage.start(folder.path);
    stage.workers[0]!.says({ kind: "listening" });
    stage.workers[1]!.end(1);
    expect(await stage.code).toBe(1);
    expect(stage.workers.map(({ killed }) => killed)).toEqual([true, false]);
    expect(stage.workers).toHaveLength(2);
  });

  test("one that ends is replaced, after a pause that grows as long as it keeps ending soon", async () => {
    using folder = new TempFolder();
    const stage = await Stage.up(folder.path, 1);
    const pauses: number[] = [];
    for (let ends = 0; ends < 12; ends += 1) {
      const { length } = stage.workers;
      stage.last.end(1);
      await settled();
      let waited = 0;
      while (stage.workers.length === length) {
        stage.clock.advance(50);
        waited += 50;
      }
      pauses.push(waited);
    }
    expect(pauses).toEqual([100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000, 30_000]);
    expect(stage.last.settings.index).toBe(1);

    stage.last.says({ kind: "listening" });
    stage.clock.advance(10_000);
    stage.last.end(1);
    await settled();
    const { length } = stage.workers;
    stage.clock.advance(100);
    expect(stage.workers).toHaveLength(length + 1);

    stage.last.says({ kind: "listening" });
    stage.last.says({ kind: "question", id: 7, about: "status" });
    expect(stage.last.told.at(-1)).toEqual({
      kind: "answer",
      id: 7,
      answer: { workers: 1, running: 1, restarts: 13 },
    });
    stage.signal("SIGTERM");
    stage.last.end(0);
    expect(await stage.code).toBe(0);
  });

  test("one that answers nothing any more is replaced", async () => {
    using folder = new TempFolder();
    const stage = await Stage.up(folder.path);
    const [quick, stuck] = stage.workers as [FakeWorker, FakeWorker];
    for (let asked = 1; asked <= 6; asked += 1) {
      expect(stuck.killed).toBe(false);
      stage.clock.advance(10_000);
      const question = quick.told.at(-1)!;
      if (question.kind !== "read") throw new Error("it was not asked");
      quick.says({ kind: "read", id: question.id, value: [] });
      stage.clock.advance(1_000);
      await settled();
    }
    expect([quick.killed, stuck.killed]).toEqual([false, true]);
    stage.clock.advance(100);
    expect(stage.last.settings.index).toBe(2);
    stage.signal("SIGTERM");
    stage.last.end(0);
    quick.end(0);
    expect(await stage.code).toBe(0);
  });
});

describe("the end", () => {
  test("is told to all, again to one that only starts when it serves, and one that lingers after its time is killed", async () => {
    using folder = new TempFolder();
    const stage = await Stage.up(folder.path, 3);
    stage.workers[2]!.end(1);
    await settled();
    stage.clock.advance(100);
    stage.signal("SIGTERM");
    const [polite, lingering] = stage.workers as [FakeWorker, FakeWorker];
    const { last: late } = stage;
    for (const worker of [polite, lingering, late])
      expect(worker.told.at(-1)).toEqual({ kind: "signal", name: "SIGTERM" });
    late.says({ kind: "listening" });
    expect(late.told.at(-1)).toEqual({ kind: "signal", name: "SIGTERM", again: true });
    expect(late.killed).toBe(false);
    late.end(0);
    polite.end(0);
    stage.clock.advance(39_999);
    expect(lingering.killed).toBe(false);
    stage.clock.advance(1);
    expect(lingering.killed).toBe(true);
    expect(await stage.code).toBe(137);
  });

  test("comes at once with a second signal, and has its number", async () => {
    using folder = new TempFolder();
    const stage = await Stage.up(folder.path);
    stage.signal("SIGTERM");
    stage.signal("SIGTERM");
    for (const worker of stage.workers) {
      expect(worker.told).toHaveLength(2);
      worker.end(143);
    }
    expect(await stage.code).toBe(143);
  });

  test("needs no worker while all are being replaced", async () => {
    using folder = new TempFolder();
    const stage = await Stage.up(folder.path);
    for (const worker of stage.workers) worker.end(1);
    await settled();
    stage.signal("SIGTERM");
    expect(await stage.code).toBe(0);
    expect(stage.workers).toHaveLength(2);
  });
});
