import { describe, expect, test } from "bun:test";
import { truncateSync, writeFileSync } from "node:fs";
import fc from "fast-check";
import { machineClock } from "../../../src/lib/linux/machine-clock.ts";
import { type Clock, systemClock } from "../../../src/lib/time/clock.ts";
import { openWindowClock } from "../../../src/limits/machine/clock.ts";
import { openMachineLimits } from "../../../src/limits/machine/limiter.ts";
import { runScript } from "../../helpers/child-process.ts";
import { runs } from "../../helpers/long-form.ts";
import { silentLogger } from "../../helpers/silent-logger.ts";
import { TempFolder } from "../../helpers/temp-folder.ts";

/** A machine whose wall clock can be set, and which can be rebooted. */
class Machine {
  #real = 0;
  #bootedAt = -5_000;
  #boots = 1;
  wall = 1_700_000_000_000;
  readonly #hasClock: boolean;

  /** @param hasClock one that is the same for all processes */
  constructor(hasClock = true) {
    this.#hasClock = hasClock;
  }

  /** Real time passes. */
  pass(ms: number): void {
    this.#real += ms;
    this.wall += ms;
  }

  reboot(tookMs: number): void {
    this.pass(tookMs);
    this.#bootedAt = this.#real;
    this.#boots += 1;
  }

  get real(): number {
    return this.#real;
  }

  /** The clock of a process that starts now. */
  startProcess(): Clock {
    const startedAt = this.#real;
    const [boot, bootedAt] = [`boot ${this.#boots}`, this.#bootedAt];
    return {
      now: () => this.wall,
      monotonic: () => this.#real - startedAt,
      machine: this.#hasClock ? { boot, now: () => this.#real - bootedAt } : undefined,
      newId: () => "",
      setTimer: () => () => {},
    };
  }
}

const open = (folder: TempFolder, machine: Machine) => openWindowClock(folder.file("clock"), machine.startProcess());

describe("the time of windows", () => {
  test("is one for all processes of a boot, however the wall clock is set between their starts", () => {
    using folder = new TempFolder();
    const machine = new Machine();
    const first = open(folder, machine);
    const begin = first();
    expect(begin).toBe(machine.wall);
    for (const jump of [-86_400_000, 3_600_000, 10 * 86_400_000]) {
      machine.pass(10_000);
      machine.wall += jump;
      const later = open(folder, machine);
      expect(later()).toBe(begin + machine.real);
      expect(first()).toBe(begin + machine.real);
    }
  });

  test("goes on by the wall clock over a reboot, although it was set before", () => {
    using folder = new TempFolder();
    const machine = new Machine();
    const before = open(folder, machine);
    machine.pass(1_000);
    machine.wall += 3_600_000;
    const last = before();
    machine.reboot(20_000);
    expect(open(folder, machine)()).toBe(last + 20_000);
  });

  test("stands still over a reboot after which the wall clock is behind", () => {
    using folder = new TempFolder();
    const machine = new Machine();
    const last = open(folder, machine)();
    machine.reboot(20_000);
    machine.wall = 0;
    const after = open(folder, machine);
    expect(after()).toBe(last);
    machine.pass(60_000);
    expect(after()).toBe(last + 60_000);
  });

  test("never goes back where there is no machine's clock", () => {
    using folder = new TempFolder();
    const machine = new Machine(false);
    const first = open(folder, machine);
    machine.pass(5_000);
    const last = first();
    machine.wall -= 3_600_000;
    expect(open(folder, machine)()).toBe(last);
    machine.wall += 3_600_000;
    machine.pass(5_000);
    expect(first()).toBe(last + 5_000);
  });

  test("begins anew where its file is damaged", () => {
    using folder = new TempFolder();
    const machine = new Machine();
    open(folder, machine);
    for (const damage of [
      () => truncateSync(folder.file("clock"), 0),
      () => truncateSync(folder.file("clock"), 64),
      () => writeFileSync(folder.file("clock"), new Uint8Array(new Float64Array(8).fill(Number.NaN).buffer)),
    ]) {
      damage();
      machine.pass(1);
      expect(open(folder, machine)()).toBe(machine.wall);
    }
  });

  test.skipIf(machineClock() === undefined)("is the same in another process", async () => {
    using folder = new TempFolder();
    const now = openWindowClock(folder.file("clock"), systemClock);
    const script = `
      const { openWindowClock } = await import(SRC + "/limits/machine/clock.ts");
      const { systemClock } = await import(SRC + "/lib/time/clock.ts");
      console.log(openWindowClock(${JSON.stringify(folder.file("clock"))}, systemClock)());`;
    const before = now();
    const { lines } = await runScript(script);
    expect(Number(lines[0])).toBeGreaterThan(before);
    expect(Number(lines[0])).toBeLessThan(now());
  });
});

test("whatever clocks are set and processes start anew: never more than the limit in any minute, and never locked out", () => {
  const limit = 3;
  const step = fc.record({
    pass: fc.constantFrom(0, 1, 500, 7_000, 19_999, 30_000, 59_999),
    jump: fc.constantFrom(0, 0, 0, 1, -1, 30_000, -30_000, 3_600_000, -3_600_000, 86_400_000 * 40, -86_400_000 * 40),
    restarts: fc.boolean(),
    process: fc.nat(1),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      using folder = new TempFolder();
      const machine = new Machine();
      const start = () => {
        const clock = machine.startProcess();
        return openMachineLimits(folder.path, { clock, log: silentLogger, processes: 1, isSweeper: false }).callers;
      };
      const processes = [start(), start()];
      const taken: number[] = [];
      for (const { pass, jump, restarts, process } of steps) {
        machine.pass(pass);
        machine.wall += jump;
        if (restarts) processes[process] = start();
        const { allowed } = processes[process]!.hit("a", limit);
        const live = taken.filter((time) => time > machine.real - 60_000).length;
        expect(allowed).toBe(live < limit);
        if (allowed) taken.push(machine.real);
      }
    }),
    { numRuns: runs(100) },
  );
});

test("over reboots with a wall clock that is set back: never more than the limit, and never locked out for longer than a minute", () => {
  const limit = 3;
  const step = fc.record({
    pass: fc.constantFrom(0, 1, 500, 7_000, 30_000, 60_000),
    jump: fc.constantFrom(0, -1, -30_000, -3_600_000, -86_400_000 * 40),
    reboots: fc.boolean(),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), fc.boolean(), (steps, hasClock) => {
      using folder = new TempFolder();
      const machine = new Machine(hasClock);
      const start = () => {
        const clock = machine.startProcess();
        return openMachineLimits(folder.path, { clock, log: silentLogger, processes: 1, isSweeper: false }).callers;
      };
      let limiter = start();
      const taken: number[] = [];
      for (const { pass, jump, reboots } of steps) {
        machine.pass(pass);
        if (reboots) {
          machine.reboot(2_000);
          machine.wall += jump;
          limiter = start();
        }
        const decision = limiter.hit("a", limit);
        const live = taken.filter((time) => time > machine.real - 60_000).length;
        if (live >= limit) expect(decision.allowed).toBe(false);
        if (decision.allowed) taken.push(machine.real);
        else expect(decision.retryAfterSeconds).toBeWithin(1, 61);
      }
      machine.pass(60_001);
      expect(limiter.hit("a", limit).allowed).toBe(true);
    }),
    { numRuns: runs(100) },
  );
});
