/**
 * The ledger under `kill -9`: processes that share a data folder are killed at random moments under load, and when the next one has
 * started each call whose answer was read has its line, however late it was read. `LEDGER_ROUNDS=300 bun test test/usage/kill.test.ts` does it 300 times; `LEDGER_SEED` repeats a run.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import { openStore } from "../../src/store/sqlite/store.ts";
import type { LedgerLine } from "../../src/store/store.ts";
import { Random } from "../helpers/random.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const rounds = Number(process.env["LEDGER_ROUNDS"] ?? 4);
const random = Random.fromEnvironment("LEDGER_SEED");
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

type Kind = "plain" | "stream" | "embedding";

/** @returns the request's id, once the whole answer is read; undefined where it was refused */
async function call(server: TroupeProcess, kind: Kind, user: "told" | "untold"): Promise<string | undefined> {
  const body =
    kind === "embedding"
      ? { model: "openai/text-embedding-3-small", input: "Hello" }
      : { model: "openai/gpt-4o", messages: [{ role: "user", content: "Hello" }], stream: kind === "stream" };
  const response = await fetch(`${server.url}/gateway/v1/${kind === "embedding" ? "embeddings" : "chat/completions"}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${server.key}` },
    body: JSON.stringify({ ...body, user }),
  });
  await response.text();
  return response.status === 200 ? response.headers.get("x-request-id")! : undefined;
}

/** Calls until the process is dead. */
async function load(server: TroupeProcess, finished: string[]): Promise<void> {
  for (;;) {
    const kind = random.chance(20) ? "embedding" : random.pick<Kind>(["plain", "stream"]);
    try {
      const id = await call(server, kind, random.pick(["told", "told", "untold"]));
      if (id !== undefined) finished.push(id);
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

test(`${rounds} times killed at a random moment, a call whose answer was read has exactly one line`, {
  timeout: 20_000 + rounds * 15_000,
}, async () => {
  const data = folder.path;
  let checked = 0;
  let left = rounds;
  const start = () => TroupeProcess.start(data, `${upstream.url}/v1`);
  // The first one makes the key.
  await (await start()).kill();
  const lane = async () => {
    let server = await start();
    while (left > 0) {
      left -= 1;
      const finished: string[] = [];
      const loading = Promise.all(Array.from({ length: callers }, () => load(server, finished)));
      await Bun.sleep(500 + random.below(1_500));
      await server.kill();
      await loading;
      server = await start();
      const misfits = await misfitsOf(data, finished);
      expect({ seed: random.seed, misfits }).toEqual({ seed: random.seed, misfits: [] });
      checked += finished.length;
    }
    await server.kill();
  };
  // Two at a time, so that one goes on writing while the other dies.
  await Promise.all([lane(), lane()]);
  expect(checked).toBeGreaterThan(rounds);
  // The days' sums grow in the same step as the lines.
  expect(await sumsDifferIn(data)).toBeUndefined();
  if (rounds > 10) console.log(`${rounds} rounds, ${checked} calls, seed ${random.seed}`);
});

test("killed while the tokenizer says nothing, a call has its line with what is known of it", {
  timeout: 60_000,
}, async () => {
  const data = folder.path;
  const preload = [join(import.meta.dir, "../helpers/mute-tokenizer.ts")];
  const mute = await TroupeProcess.start(data, `${upstream.url}/v1`, { preload });
  const ids = [(await call(mute, "plain", "untold"))!, (await call(mute, "stream", "untold"))!];
  await mute.kill();
  await (await TroupeProcess.start(data, `${upstream.url}/v1`)).kill();
  const store = openStore(data);
  for (const requestId of ids) {
    const lines = await store.ledger.lines({ since: 0, until: Number.MAX_SAFE_INTEGER, requestId, limit: 10 });
    expect(lines).toMatchObject([
      { requestId, ended: "finished", counted: "estimated", priceNote: "tokens reckoned by the length of the text" },
    ]);
    expect([lines[0]!.tokens.input, lines[0]!.cost]).not.toContain(0);
  }
  await store.close();
});
