/**
 * The ledger under `kill -9`: processes that share a data folder are killed at random moments under load, and what was finished for more
 * than a second has its line. `LEDGER_ROUNDS=300 bun test test/usage/kill.test.ts` does it 300 times; `LEDGER_SEED` repeats a run.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openStore } from "../../src/store/sqlite/store.ts";
import type { LedgerLine } from "../../src/store/store.ts";
import { Random } from "../helpers/random.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const rounds = Number(process.env["LEDGER_ROUNDS"] ?? 4);
const random = Random.fromEnvironment("LEDGER_SEED");
/** So old a finished call must be for its line to be there. */
const promisedMs = 1_000;
const callers = 4;

const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 };
const frame = { id: "c", created: 1, model: "m" };
const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ ...frame, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const told = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;

/** The call says what it is answered: its counts are told or not, as a stream or not. */
function answer(path: string, wish: { stream?: boolean; user?: string }): Response {
  const counts = wish.user === "told" ? { usage } : {};
  if (path.includes("embeddings")) {
    return Response.json({ object: "list", data: [{ object: "embedding", index: 0, embedding: [1] }], ...counts });
  }
  if (wish.stream !== true) {
    const message = { role: "assistant", content: "Good day to you." };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    return Response.json({ ...frame, object: "chat.completion", choices, ...counts });
  }
  const events = [chunk({ role: "assistant", content: "Good day" }), chunk({ content: " to you." }), chunk({}, "stop")];
  const last = wish.user === "told" ? told : "";
  return new Response(`${events.join("")}${last}data: [DONE]\n\n`, {
    headers: { "content-type": "text/event-stream" },
  });
}

let upstream: UpstreamServer;
let folder: TempFolder;

beforeAll(() => {
  folder = new TempFolder();
  upstream = new UpstreamServer(({ path, json }) => answer(path, json as object));
});
afterAll(() => {
  upstream[Symbol.dispose]();
  folder[Symbol.dispose]();
});

type Finished = { readonly id: string; readonly at: number };

/** Calls until the process is dead. */
async function load(server: TroupeProcess, finished: Finished[]): Promise<void> {
  for (;;) {
    const isEmbedding = random.chance(20);
    const body = isEmbedding
      ? { model: "openai/text-embedding-3-small", input: "Hello" }
      : { model: "openai/gpt-4o", messages: [{ role: "user", content: "Hello" }], stream: random.chance(50) };
    try {
      const response = await fetch(`${server.url}/gateway/v1/${isEmbedding ? "embeddings" : "chat/completions"}`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: `Bearer ${server.key}` },
        body: JSON.stringify({ ...body, user: random.pick(["told", "told", "untold"]) }),
      });
      await response.text();
      if (response.status === 200) finished.push({ id: response.headers.get("x-request-id")!, at: performance.now() });
    } catch {
      return;
    }
  }
}

/** @returns what is wrong: calls that have no line or several */
async function misfitsOf(data: string, ids: readonly string[]): Promise<string[]> {
  const store = openStore(data);
  try {
    const counts = ids.map(async (requestId) => {
      const lines = await store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, requestId, limit: 10 });
      return lines.length === 1 ? [] : [`${requestId}: ${lines.length} lines`];
    });
    return (await Promise.all(counts)).flat();
  } finally {
    await store.close();
  }
}

/** @returns the sums and what the lines add up to, where they are not the same */
async function sumsDifferIn(data: string): Promise<object | undefined> {
  const store = openStore(data);
  try {
    const all = { since: 0, until: 4e12 };
    const [total] = await store.ledger.sums(all, [], 1);
    const added = { calls: 0, cost: 0 };
    let page: LedgerLine[];
    let before: LedgerLine | undefined;
    do {
      page = await store.ledger.lines({ ...all, limit: 1_000, ...(before && { before }) });
      for (const { cost } of page) added.cost += cost ?? 0;
      added.calls += page.length;
      before = page.at(-1);
    } while (page.length > 0);
    return total!.calls === added.calls && total!.cost === added.cost ? undefined : { total, added };
  } finally {
    await store.close();
  }
}

test(`${rounds} times killed at a random moment, a call that was over for a second has exactly one line`, {
  timeout: 20_000 + rounds * 15_000,
}, async () => {
  const data = folder.path;
  let checked = 0;
  let left = rounds;
  // The first one makes the key.
  await (await TroupeProcess.start(data, `${upstream.url}/v1`)).kill();
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      const server = await TroupeProcess.start(data, `${upstream.url}/v1`);
      const finished: Finished[] = [];
      const loading = Promise.all(Array.from({ length: callers }, () => load(server, finished)));
      await Bun.sleep(promisedMs + random.below(1_500));
      const killedAt = performance.now();
      await server.kill();
      await loading;
      const due = finished.filter(({ at }) => at < killedAt - promisedMs);
      expect({
        seed: random.seed,
        misfits: await misfitsOf(
          data,
          due.map(({ id }) => id),
        ),
      }).toEqual({
        seed: random.seed,
        misfits: [],
      });
      checked += due.length;
    }
  };
  // Two at a time, so that one goes on writing while the other dies.
  await Promise.all([lane(), lane()]);
  expect(checked).toBeGreaterThan(rounds);
  // The days' sums grow in the same step as the lines.
  expect(await sumsDifferIn(data)).toBeUndefined();
  if (rounds > 10) console.log(`${rounds} rounds, ${checked} calls, seed ${random.seed}`);
});
