/**
 * What previews of personas cost: a plain call of a persona and a start with 500 of them beside the same without any, in one run, and a push of
 * 200 personas until it answers. Run by `bun test/bench/previews.ts`; it ends with 1 where a bound is not kept.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TroupeProcess } from "../helpers/troupe-process.ts";

const previews = 500;
const starts = 12;
const rounds = 40;
const callsOfRound = 100;
const bounds = { call: 1.05, start: 1.2, pushMs: 1000 };

const env = { TROUPE_PREVIEWS_MAX: "1000", TROUPE_TIERS_PRO: "1000000" };
const persona = "troupe/guide";
const messages = [{ role: "user", content: "Hi" }];
const content = (system: string) => ({ description: "Helps.", model: "builtin/echo", system });
const median = (values: readonly number[]) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)]!;

const start = (data: string) => TroupeProcess.start(data, "http://127.0.0.1:1/v1", { env });

async function ask({ url }: TroupeProcess, key: string, model: string): Promise<void> {
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model, messages }),
  });
  if (answer.status !== 200) throw new Error(`${model}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

async function push({ url }: TroupeProcess, key: string, label: string, personas: readonly object[]): Promise<void> {
  const answer = await fetch(`${url}/v1/previews/${label}`, {
    method: "PUT",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ personas }),
  });
  if (answer.status !== 200) throw new Error(`${label}: ${answer.status} ${await answer.text()}`);
  await answer.arrayBuffer();
}

async function startMs(data: string): Promise<number> {
  const before = performance.now();
  await using _ = await start(data);
  return performance.now() - before;
}

const folder = mkdtempSync(join(tmpdir(), "troupe-previews-"));
try {
  const [without, having] = ["without", "having"].map((name) => join(folder, name)) as [string, string];
  const keys: Record<string, string> = {};
  for (const data of [without, having]) {
    await Bun.$`mkdir -p ${data}`;
    await using server = await start(data);
    const made = Bun.spawnSync(
      [
        process.execPath,
        "src/main.ts",
        "keys",
        "create",
        "all",
        "--tier",
        "pro",
        "--per-minute",
        "1000000",
        "--surfaces",
        "orchestrator,preview",
        "--json",
        "--data",
        data,
      ],
      { env: { PATH: process.env["PATH"] ?? "" } },
    );
    keys[data] = /"(trp_[^"]+)"/.exec(made.stdout.toString())![1]!;
    if (data === having)
      for (let at = 0; at < previews; at += 1)
        await push(server, keys[data], `pr-${at}`, [
          { id: persona, content: content(`Branch ${at}. ${"x".repeat(4000)}`) },
        ]);
  }
  const times: Record<string, number[]> = { [without]: [], [having]: [] };
  for (let at = 0; at < starts; at += 1)
    for (const data of at % 2 === 0 ? [without, having] : [having, without]) times[data]!.push(await startMs(data));
  // The shortest of each: what else runs on the machine only makes them longer.
  const [startWithout, startHaving] = [without, having].map((data) => Math.min(...times[data]!)) as [number, number];
  const startRatio = startHaving / startWithout;

  await using one = await start(without);
  await using other = await start(having);
  const sides = [
    { server: one, key: keys[without]!, ms: [] as number[] },
    { server: other, key: keys[having]!, ms: [] as number[] },
  ];
  for (let round = -10; round < rounds; round += 1) {
    for (const { server, key, ms } of round % 2 === 0 ? sides : sides.toReversed()) {
      const before = performance.now();
      for (let at = 0; at < callsOfRound; at += 1) await ask(server, key, persona);
      if (round >= 0) ms.push((performance.now() - before) / callsOfRound);
    }
  }
  const callRatio = median(sides[1]!.ms) / median(sides[0]!.ms);

  const many = Array.from({ length: 200 }, (_, at) => ({
    id: `acme/p${at}`,
    content: content(`${at} ${"x".repeat(8000)}`),
  }));
  const before = performance.now();
  await push(other, keys[having]!, "many", many);
  await ask(other, keys[having]!, "acme/p199@many");
  const pushMs = performance.now() - before;

  console.log(
    `a plain call beside ${previews} previews: ${callRatio.toFixed(3)}× (${median(sides[1]!.ms).toFixed(3)} ms; at most ${bounds.call}×)`,
  );
  console.log(`a start: ${startRatio.toFixed(3)}× (${startHaving.toFixed(0)} ms; at most ${bounds.start}×)`);
  console.log(`200 personas pushed, until one answers: ${pushMs.toFixed(0)} ms (at most ${bounds.pushMs})`);
  const isKept = callRatio <= bounds.call && startRatio <= bounds.start && pushMs <= bounds.pushMs;
  process.exitCode = isKept ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
