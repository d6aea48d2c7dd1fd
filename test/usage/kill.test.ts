/**
 * The ledger and a budget under `kill -9`: processes that share a data folder are killed at random moments under load, and when the next one has
 * started each call that the upstream was asked for has its line, and what is spent is what lines cost, and what was reserved for those of
 * unknown cost. `LEDGER_ROUNDS=300 bun test test/usage/kill.test.ts` does it 300 times; `LEDGER_SEED` repeats a run.
 */
import { expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { LedgerLine } from "../../src/store/contract/usage.ts";
import { openStore } from "../../src/store/sqlite/store.ts";
import { runs } from "../helpers/long-form.ts";
import { Random } from "../helpers/random.ts";
import { untilEnd } from "../helpers/served.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";
import { UpstreamServer } from "../helpers/upstream-server.ts";

const rounds = Number(process.env["LEDGER_ROUNDS"] ?? runs(4));
const random = Random.fromEnvironment("LEDGER_SEED");
const callers = 4;

/** All calls are estimated alike: by the bytes of their bodies, which are padded, and `max_tokens`. A token costs a micro-dollar. */
const bodyBytes = 300;
const maxTokens = 50;
const configuration = `budgets: { all: { month: 1000 } }
prices: [{ match: "*", input: 1, output: 1 }]
`;
const estimates: Readonly<Record<string, number>> = {
  "openai/gpt-4o": bodyBytes / 3 + maxTokens,
  "openai/text-embedding-3-small": bodyBytes / 3,
};

const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 };
const frame = { id: "c", created: 1, model: "m" };
const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ ...frame, object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
const told = `data: ${JSON.stringify({ choices: [], usage })}\n\n`;

/** The call says what it is answered: its counts are told or not, as a stream or not. */
function answer(path: string, wish: { stream?: boolean; user?: string }): Response {
  const counts = wish.user?.startsWith("told") ? { usage } : {};
  if (path.includes("embeddings")) {
    return Response.json({ object: "list", data: [{ object: "embedding", index: 0, embedding: [1] }], ...counts });
  }
  if (wish.stream !== true) {
    const message = { role: "assistant", content: "Good day to you." };
    const choices = [{ index: 0, message, finish_reason: "stop" }];
    return Response.json({ ...frame, object: "chat.completion", choices, ...counts });
  }
  const events = [chunk({ role: "assistant", content: "Good day" }), chunk({ content: " to you." }), chunk({}, "stop")];
  const last = wish.user?.startsWith("told") ? told : "";
  return new Response(`${events.join("")}${last}data: [DONE]\n\n`, {
    headers: { "content-type": "text/event-stream" },
  });
}

/** How often each request was asked for, by its own number. */
const asked = new Map<string, number>();

const folder = untilEnd(new TempFolder());
writeFileSync(join(folder.path, "troupe.yaml"), configuration);
const upstream = untilEnd(
  new UpstreamServer(async ({ path, json }) => {
    const wish = json as { stream?: boolean; user: string };
    const [, number = ""] = wish.user.split(" ");
    asked.set(number, (asked.get(number) ?? 0) + 1);
    // Some are under way when their process is killed.
    if (Number(number) % 5 === 0) await Bun.sleep(300);
    return answer(path, wish);
  }),
);

let calls = 1;
type Kind = "plain" | "stream" | "embedding";

/** @returns the request's id, once the whole answer is read; undefined where it was refused */
async function call(server: TroupeProcess, kind: Kind, user: "told" | "untold"): Promise<string | undefined> {
  const body =
    kind === "embedding"
      ? { model: "openai/text-embedding-3-small", input: "Hello" }
      : {
          model: "openai/gpt-4o",
          max_tokens: maxTokens,
          messages: [{ role: "user", content: "Hello" }],
          stream: kind === "stream",
        };
  const named = { ...body, user: `${user} ${calls++} ` };
  const pad = ".".repeat(bodyBytes - Buffer.byteLength(JSON.stringify(named)));
  const response = await fetch(`${server.url}/gateway/v1/${kind === "embedding" ? "embeddings" : "chat/completions"}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${server.key}` },
    body: JSON.stringify({ ...named, user: named.user + pad }),
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

/** @returns what differs: lines from calls, sums from lines, and what is spent of the budget from what lines cost and held */
async function differencesIn(data: string): Promise<object | undefined> {
  const store = openStore(data);
  try {
    const all = { since: 0, until: 4e12 };
    const [total] = await store.ledger.sums(all, [], { limit: 1 });
    const added = { calls: 0, cost: 0, held: 0 };
    let page: LedgerLine[];
    let before: LedgerLine | undefined;
    do {
      page = await store.ledger.lines({ ...all, limit: 1_000, ...(before && { before }) });
      for (const { cost, model } of page) {
        added.cost += cost ?? 0;
        added.held += cost === null ? estimates[model]! : 0;
      }
      added.calls += page.length;
      before = page.at(-1);
    } while (page.length > 0);
    const span = new Date().toISOString().slice(0, 7);
    const [spending] = await store.budgets.spending([{ scope: "all", span }]);
    const found = { calls: total!.calls, cost: total!.cost, ...spending };
    const due = {
      calls: added.calls,
      cost: added.cost,
      scope: "all",
      span,
      spent: added.cost + added.held,
      reserved: 0,
    };
    const sent = [...asked.values()].reduce((sum, times) => sum + times, 0);
    return Bun.deepEquals(found, due) && added.calls >= sent ? undefined : { found, due, sent };
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
  // A last one ends the calls of those before.
  await (await start()).kill();
  expect(await differencesIn(data)).toBeUndefined();
  if (rounds > 10) console.log(`${rounds} rounds, ${checked} calls, seed ${random.seed}`);
});
