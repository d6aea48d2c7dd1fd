/** From exec to the first answer, and what is resident when idle: of Troupe with a hundred personas, and of the bare proxy. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { proportionalBytes, residentBytes } from "./process-stats.ts";
import { type Row, summarise } from "./report.ts";
import type { Bench } from "./rounds.ts";
import { firstLine, freePort, ignoreOutput, prepareTroupe } from "./subjects.ts";

export const startScenario = {
  name: "start",
  about: "from exec to the first answer, with 100 personas; memory when idle",
};

type Sample = { readonly ms: number; readonly residentMb: number; readonly proportionalMb: number };

const personas = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`bench/persona-${at}`, "openai/gpt-4o"]));
const mostMs = 60;
const mostResidentMb = 90;
const megabyte = 1024 * 1024;

type Begin = { readonly child: ReturnType<Bench["processes"]["start"]>; readonly port: () => Promise<number> };

/** Asks again and again, a millisecond apart, until something answers. */
async function untilFirstAnswer({ child, port }: Begin): Promise<void> {
  const url = `http://127.0.0.1:${await port()}/healthz`;
  while (child.exitCode === null) {
    const answer = await fetch(url, { keepalive: false }).catch(() => undefined);
    if (answer !== undefined) {
      await answer.arrayBuffer();
      return;
    }
    await Bun.sleep(1);
  }
  throw new Error(`it ended before it answered: ${await new Response(child.stderr).text()}`);
}

async function sample(bench: Bench, begin: () => Begin): Promise<Sample> {
  const from = performance.now();
  const begun = begin();
  await untilFirstAnswer(begun);
  const ms = performance.now() - from;
  ignoreOutput(begun.child);
  await Bun.sleep(1_000);
  const pids = [begun.child.pid];
  const memory = { residentMb: residentBytes(pids) / megabyte, proportionalMb: proportionalBytes(pids) / megabyte };
  await bench.processes.stop(begun.child);
  return { ms, ...memory };
}

function bareProxy(bench: Bench): () => Begin {
  const command = [process.execPath, join(import.meta.dir, "baseline.ts"), `http://127.0.0.1:${bench.mockPort}`];
  return () => {
    const child = bench.processes.start({ role: "server", command, own: true });
    return { child, port: async () => Number(await firstLine(child)) };
  };
}

function troupe(bench: Bench, command: readonly string[], folder: string): () => Begin {
  return () => {
    const port = freePort();
    const whole = [...command, ...prepareTroupe(folder, port, bench.mockPort, personas)];
    return { child: bench.processes.start({ role: "server", command: whole, cwd: folder }), port: async () => port };
  };
}

/** Takes the file out of the page cache, so that the next start reads the disk. */
async function forgetPages(file: string): Promise<void> {
  await Bun.$`dd if=${file} iflag=nocache count=0 status=none`.quiet().nothrow();
}

/** @param command how Troupe is started */
export async function performStart(bench: Bench, command: readonly string[], rounds: number): Promise<Row[]> {
  const kept = join(bench.folder, "start-kept");
  mkdirSync(kept);
  const [program = "", source] = command;
  const compiled = source === undefined;
  const form = compiled ? "compiled" : "from source";
  let fresh = 0;
  const cases: Record<string, { samples: Sample[]; run: () => Promise<Sample> }> = {
    "bare proxy, from source": { samples: [], run: () => sample(bench, bareProxy(bench)) },
    [`troupe, ${form}, again`]: { samples: [], run: () => sample(bench, troupe(bench, command, kept)) },
    [`troupe, ${form}, first start`]: {
      samples: [],
      run: () => {
        const folder = join(bench.folder, `start-${fresh++}`);
        mkdirSync(folder);
        return sample(bench, troupe(bench, command, folder));
      },
    },
  };
  if (compiled) {
    cases["troupe, compiled, not in the page cache"] = {
      samples: [],
      run: async () => {
        await forgetPages(program);
        return sample(bench, troupe(bench, command, kept));
      },
    };
  }
  await sample(bench, troupe(bench, command, kept));
  for (let round = 0; round < rounds; round++) {
    for (const [label, { samples, run }] of Object.entries(cases)) {
      bench.tell(`start: round ${round + 1} of ${rounds}, ${label}`);
      samples.push(await run());
    }
  }
  return Object.entries(cases).flatMap(([label, { samples }]) => [
    row(
      label,
      "first answer",
      "ms",
      samples.map(({ ms }) => ms),
      mostMs,
    ),
    row(
      label,
      "resident when idle",
      "MB",
      samples.map(({ residentMb }) => residentMb),
      mostResidentMb,
    ),
    row(
      label,
      "the same, shared pages by share",
      "MB",
      samples.map(({ proportionalMb }) => proportionalMb),
    ),
  ]);
}

function row(label: string, measure: string, unit: string, values: number[], most?: number): Row {
  const summary = { scenario: startScenario.name, case: label, measure, unit, ...summarise(values) };
  if (most === undefined || label.startsWith("bare")) return summary;
  return { ...summary, target: { most, of: "value", met: summary.median <= most } };
}
