/** Measures one kind of calls of every subject that can answer it, their slices alternating within each round. */
import { mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import type { CallSpec } from "./calls.ts";
import type { Kind } from "./compare-kinds.ts";
import { type EndsLoad, type EndsResult, performLoad, startEndsMock } from "./ends.ts";
import { cpuSeconds, residentBytes } from "./process-stats.ts";
import type { Processes } from "./processes.ts";
import { median } from "./statistics.ts";
import type { Running, Subject } from "./subjects.ts";

export type Comparison = {
  readonly processes: Processes;
  /** For the servers' files; removed by whoever made it. */
  readonly folder: string;
  readonly ends: string;
  readonly rounds: number;
  readonly seconds: number;
  /** Calls that count as cold. */
  readonly first: number;
  /** Seconds of load before the slices. */
  readonly warm: number;
  /** Instead of the kind's own. */
  readonly callers: number | undefined;
  tell(line: string): void;
};

/** Who takes part in a kind. */
export type Participant = {
  readonly subject: Subject;
  readonly call: CallSpec;
  /** Nothing stands between the ends. */
  readonly isDirect: boolean;
  readonly isBaseline: boolean;
};

/** One load with what it cost; CPU in seconds. */
export type Slice = EndsResult & {
  readonly serverCpu: number;
  readonly mockCpu: number;
  readonly residentBytes: number;
  /** While streams were open, beyond what was resident before. */
  readonly heldBytes: number;
};

export type Outcome = Participant & {
  readonly cold: Slice | undefined;
  /** One per round. */
  readonly slices: readonly Slice[];
  /** Why it was not measured to the end. */
  readonly failure: string | undefined;
  /** Of all its answers, those of the warm-up too. */
  readonly wrong: number;
  readonly fault: string;
};

/** One who is measured, from its start to its end or failure. */
class Measured {
  running: Running | undefined;
  cold: Slice | undefined;
  failure: string | undefined;
  wrong = 0;
  fault = "";
  readonly slices: Slice[] = [];
  readonly participant: Participant;

  constructor(participant: Participant) {
    this.participant = participant;
  }

  /** Whatever goes wrong is what is told of it from then on. */
  async attempt(work: () => Promise<void>): Promise<void> {
    if (this.failure !== undefined) return;
    try {
      await work();
    } catch (error) {
      this.failure = (error instanceof Error ? error.message : String(error)).split("\n", 1)[0]!.slice(0, 200);
      await this.stop();
    }
  }

  async stop(): Promise<void> {
    const { running } = this;
    this.running = undefined;
    await running?.stop();
  }
}

const looks = 5;

async function performSlice(
  comparison: Comparison,
  kind: Kind,
  measured: Measured,
  mockPids: readonly number[],
  load: EndsLoad,
): Promise<Slice> {
  const { processes, ends, folder } = comparison;
  const { pids, address } = measured.running!;
  const { call } = measured.participant;
  const [serverBefore, mockBefore, idle] = [cpuSeconds(pids), cpuSeconds(mockPids), residentBytes(pids)];
  const held: number[] = [];
  const look = async () => {
    for (let at = 0; at < looks; at++) {
      await Bun.sleep((comparison.seconds * 1e3) / looks);
      held.push(residentBytes(pids) - idle);
    }
  };
  const streams = kind.load.by === "open streams" ? kind.load.streams : undefined;
  const result = await performLoad(
    processes,
    ends,
    folder,
    call,
    address(call),
    load,
    streams === undefined ? undefined : look,
  );
  measured.wrong += result.wrong;
  measured.fault ||= result.fault;
  if (result.wrong > 0 && result.wrong >= (streams ?? result.calls)) throw new Error(result.fault);
  if (streams !== undefined && held.length === 0) throw new Error("the streams ended before all were open");
  if (streams === undefined && result.calls === 0) throw new Error("no call was answered");
  if (result.unanswered > 0) {
    const all = result.calls + result.unanswered;
    throw new Error(`${result.unanswered} of ${all} calls had no answer ten seconds after the last was due`);
  }
  return {
    ...result,
    serverCpu: cpuSeconds(pids) - serverBefore,
    mockCpu: cpuSeconds(mockPids) - mockBefore,
    residentBytes: residentBytes(pids),
    heldBytes: median(held),
  };
}

function loadOf({ load, call }: Kind, { callers, seconds }: Comparison): EndsLoad {
  if (load.by === "rate") return { rate: load.perSecond, seconds };
  if (load.by === "open streams") return { callers: load.streams, ramp: 1, seconds: 0 };
  // Streams that begin together would have their fragments together, too.
  return { callers: callers ?? load.callers, ramp: call.streamed ? Math.min(1, seconds / 2) : 0, seconds };
}

/** @returns the outcomes in the order of the participants */
export async function performKind(
  comparison: Comparison,
  kind: Kind,
  participants: readonly Participant[],
): Promise<Outcome[]> {
  const { processes, ends, rounds, first, warm, tell } = comparison;
  const folder = mkdtempSync(join(comparison.folder, `${kind.name}-`));
  const own = { ...comparison, folder };
  const mock = await startEndsMock(processes, ends, folder, kind.call);
  const all = participants.map((participant) => new Measured(participant));
  let folders = 0;
  const start = async (one: Measured) => {
    const place = join(folder, String(folders++));
    mkdirSync(place);
    const { subject, call } = one.participant;
    one.running = await subject.start({ processes, folder: place, mockPort: mock.port, calls: [call] });
  };
  const load = loadOf(kind, comparison);
  // Memory that was once used is not given back.
  const isFresh = kind.load.by === "open streams";
  try {
    for (const one of all) {
      if (isFresh) break;
      tell(`${kind.name}: ${one.participant.subject.name}, start and warm-up`);
      await one.attempt(async () => {
        await start(one);
        const callers = { ...load, seconds: 600, calls: first };
        if (kind.cold) one.cold = await performSlice(own, kind, one, mock.pids, callers);
        await performSlice(own, kind, one, mock.pids, { ...load, seconds: warm });
      });
    }
    for (let round = 0; round < rounds; round += 1)
      for (const one of all) {
        tell(`${kind.name}: round ${round + 1} of ${rounds}, ${one.participant.subject.name}`);
        await one.attempt(async () => {
          if (isFresh) await start(one);
          one.slices.push(await performSlice(own, kind, one, mock.pids, load));
          if (isFresh) await one.stop();
        });
      }
  } finally {
    await Promise.all([...all.map((one) => one.stop()), mock.stop()]);
  }
  return all.map(({ participant, cold, slices, failure, wrong, fault }) => {
    return { ...participant, cold, slices, failure, wrong, fault };
  });
}
