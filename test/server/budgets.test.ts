/** Budgets of one data folder, whatever processes serve from it and however they end. */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { openStore } from "../../src/store/sqlite/store.ts";
import { isLongForm } from "../helpers/long-form.ts";
import { Random } from "../helpers/random.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { jsonResponse, UpstreamServer } from "../helpers/upstream-server.ts";
import { WorkerProcesses } from "../helpers/worker-processes.ts";

const chat = "/gateway/v1/chat/completions";
const body = { model: "openai/x", messages: [{ role: "user", content: "Hi" }], max_tokens: 1 };
const completion = () =>
  jsonResponse({
    choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
  });

/** A token of an answer costs a dollar, and there are ten. */
const configuration = `budgets: { all: { prepaid: 10 } }
prices:
  - { match: "openai/x", input: 0, output: 1000000 }
limits: { gateway_per_minute: 100000 }
`;

/** An upstream that answers nobody until it is told to. */
function heldUpstream() {
  const gate = Promise.withResolvers<void>();
  const upstream = new UpstreamServer(() => gate.promise.then(completion));
  return { upstream, open: gate.resolve };
}

async function spendingIn(folder: TempFolder) {
  const store = openStore(folder.path);
  const [found] = await store.budgets.spending([{ scope: "all", span: "prepaid" }]);
  await store.close();
  return found;
}

/** What all calls cost, as the ledger has it. */
async function ledgerIn(folder: TempFolder) {
  const store = openStore(folder.path);
  const [sum] = await store.ledger.sums({ since: 0, until: Number.MAX_SAFE_INTEGER }, [], { limit: 1 });
  await store.close();
  return sum!.cost;
}

const callers = isLongForm ? 1000 : 200;

test("of calls that race in two workers, as many reach the upstream as the budget pays for", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), configuration);
  const { upstream, open } = heldUpstream();
  using _ = upstream;
  await using troupe = await WorkerProcesses.start(folder.path, upstream.url);
  let refusals = 0;
  const calls = Array.from({ length: callers }, async () => {
    const answered = await troupe.call(chat, body);
    if (answered.status === 429) refusals += 1;
    if (refusals === callers - 10) open();
    return answered;
  });
  const answers = await Promise.all(calls);
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(10);
  expect(upstream.requests).toHaveLength(10);
  expect(new Set(await Promise.all(answers.map((one) => troupe.workerOf(one))))).toEqual(new Set([1, 2]));
  expect(await troupe.call(chat, body)).toMatchObject({ status: 429 });
  expect(await spendingIn(folder)).toMatchObject({ spent: 10_000_000, reserved: 0 });
});

test("what a killed process had reserved is spent at the next start, as nobody knows what its calls cost", async () => {
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), configuration);
  const { upstream, open } = heldUpstream();
  using _ = upstream;
  const ask = ({ url, key }: TroupeProcess) =>
    fetch(url + chat, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const killed = await TroupeProcess.start(folder.path, upstream.url);
  const lost = Array.from({ length: 10 }, () => ask(killed).catch(() => undefined));
  await upstream.received(10);
  expect((await ask(killed)).status).toBe(429);
  await killed.kill();
  await Promise.all(lost);
  expect(await spendingIn(folder)).toMatchObject({ spent: 0, reserved: 10_000_000 });
  open();
  await using next = await TroupeProcess.start(folder.path, upstream.url);
  expect(await spendingIn(folder)).toMatchObject({ spent: 10_000_000, reserved: 0 });
  const refused = await ask(next);
  expect([refused.status, refused.headers.get("x-should-retry")]).toEqual([429, "false"]);
});

test("whenever a process is killed, nothing stays reserved, and each call of some time ago is charged once", async () => {
  const random = Random.fromEnvironment("TROUPE_BUDGETS_SEED");
  console.info(`TROUPE_BUDGETS_SEED=${random.seed}`);
  using folder = new TempFolder();
  writeFileSync(folder.file("troupe.yaml"), configuration.replace("prepaid: 10", "prepaid: 1000000"));
  using upstream = new UpstreamServer(() => completion());
  let asked = 0;
  let answeredEarly = 0;
  let troupe = await TroupeProcess.start(folder.path, upstream.url);
  for (let round = 0; round < 2; round += 1) {
    const ends: number[] = [];
    const before = upstream.requests.length;
    let isKilled = false;
    const { url, key } = troupe;
    const caller = async () => {
      while (!isKilled) {
        asked += 1;
        const answered = await fetch(url + chat, {
          method: "POST",
          headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
          body: JSON.stringify(body),
        }).catch(() => undefined);
        if (answered?.status === 200 && (await answered.json().catch(() => undefined)) !== undefined)
          ends.push(performance.now());
      }
    };
    const callers = Array.from({ length: 4 }, caller);
    await upstream.received(before + 200 + random.below(400));
    const earlier = performance.now();
    // What is younger than a second may be lost; on a machine that has other work a second is longer.
    await Bun.sleep(2500 + random.below(100));
    isKilled = true;
    await troupe.kill();
    await Promise.all(callers);
    answeredEarly += ends.filter((at) => at < earlier).length;
    troupe = await TroupeProcess.start(folder.path, upstream.url);
    const { spent, reserved } = (await spendingIn(folder))!;
    expect(reserved).toBe(0);
    // A call that was killed between its reservation and its way up is spent as well: nobody knows that it never went.
    const all = asked * 1_000_000 + 1;
    expect(spent).toBeWithin(answeredEarly * 1_000_000, all);
    // Lines are noted until they are written; what the budget counts of the last second is not.
    expect(await ledgerIn(folder)).toBeWithin(answeredEarly * 1_000_000, all);
  }
  await troupe.kill();
  expect(answeredEarly).toBeGreaterThan(100);
});
