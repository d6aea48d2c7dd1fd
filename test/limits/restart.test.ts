/** A window's hits count for its minute, whatever becomes of the process that took them. */
import { describe, expect, test } from "bun:test";
import { canShare } from "../../src/lib/linux/reuse-port.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { WorkerProcesses } from "../helpers/worker-processes.ts";

const limit = 12;
const stops: Record<string, (troupe: WorkerProcesses) => void> = {
  "kill -9": ({ id }) => process.kill(id, "SIGKILL"),
  SIGTERM: ({ id }) => process.kill(id, "SIGTERM"),
};

/** @returns what is left, or the status of a refusal */
async function ask(url: string, key: string): Promise<number> {
  const answer = await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
  await answer.text();
  return answer.status === 429 ? 429 : Number(answer.headers.get("x-ratelimit-remaining"));
}

/** Asks until it is refused. */
async function askAll(url: string, key: string): Promise<number[]> {
  const left: number[] = [];
  for (;;) {
    const answered = await ask(url, key);
    if (answered === 429) return left;
    left.push(answered);
  }
}

const countDown = (from: number) => Array.from({ length: from }, (_, at) => from - 1 - at);

describe.each(["1", "2"])("with %s workers", (workers) => {
  describe.skipIf(workers !== "1" && !canShare()).each(Object.keys(stops))("after %s", (stop) => {
    test("a key has no more requests than before", async () => {
      using folder = new TempFolder();
      const args = ["--port", "0", "--workers", workers];
      const first = WorkerProcesses.run(folder.path, { args });
      await first.ready;
      const key = await first.createKey({ perMinute: limit });
      for (let taken = 1; taken <= 5; taken += 1) expect(await ask(first.url, key)).toBe(limit - taken);
      stops[stop]!(first);
      await first.allEnded;
      await using second = WorkerProcesses.run(folder.path, { args });
      await second.ready;
      expect(await askAll(second.url, key)).toEqual(countDown(limit - 5));
    });
  });
});

test.skipIf(!canShare())("after an upgrade in place a key has no more requests than before", async () => {
  using folder = new TempFolder();
  await using troupe = WorkerProcesses.run(folder.path, { args: ["--port", "0"] });
  await troupe.ready;
  const key = await troupe.createKey({ perMinute: limit });
  for (let taken = 1; taken <= 5; taken += 1) expect(await ask(troupe.url, key)).toBe(limit - taken);
  process.kill(troupe.id, "SIGUSR2");
  const { process: newProcess } = await troupe.line(({ message }) => message.startsWith("upgrade: handing off"));
  try {
    expect(await askAll(troupe.url, key)).toEqual(countDown(limit - 5));
  } finally {
    process.kill(Number(newProcess), "SIGKILL");
  }
});
