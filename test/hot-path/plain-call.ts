/** Runs a warm plain call of the gateway, with a key, a limit, a price and the ledger, and writes what it ran as JSON. */

import { createLogger } from "../../src/lib/process/log.ts";
import { completionOf } from "../helpers/chat-upstream.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { Troupe } from "../helpers/troupe.ts";
import type { Counted } from "./counting.ts";

/** By then what is made or remembered for the first calls is there; fewer than are written to the ledger at once. */
const warmCalls = 50;
/** An answer that arrives in two pieces is no plain one: the shortest of so many counts. */
const countedCalls = 20;

const runsOf = (counted: readonly Counted[]) => counted.reduce((sum, { times }) => sum + times, 0);

const usage = { prompt_tokens: 12, completion_tokens: 34, total_tokens: 46 };
const answer = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "gpt-4o-2024-08-06",
  ...completionOf({ content: "Good morning." }, "stop", usage),
};
using upstream = Bun.serve({ hostname: "127.0.0.1", port: 0, fetch: () => Response.json(answer) });
const sink = { write: () => 0, flush: () => 0 };
// The clock stands still: what is done from time to time is no part of a call.
const clock = new ManualClock();
const log = createLogger(sink, { level: "info", pretty: false, now: () => clock.now() });
const providers = { openai: { baseUrl: `http://127.0.0.1:${upstream.port}/v1` } };
{
  await using troupe = await Troupe.start({ providers, clock, log });
  const key = await troupe.createKey({ name: "limited", tier: "pro", perMinute: 1000 });
  const messages = [
    { role: "system", content: "Answer briefly." },
    { role: "user", content: "Good morning!" },
  ];
  const call = async () => {
    const response = await troupe.post("/gateway/v1/chat/completions", { model: "openai/gpt-4o", messages }, { key });
    if (response.status !== 200) throw new Error(`${response.status}: ${await response.text()}`);
    await response.json();
    await new Promise((resolve) => setImmediate(resolve));
  };
  for (let made = 0; made < warmCalls; made += 1) await call();
  let least: Counted[] | undefined;
  for (let made = 0; made < countedCalls; made += 1) {
    takeCounts();
    await call();
    const counted = takeCounts();
    if (least === undefined || runsOf(counted) < runsOf(least)) least = counted;
  }
  console.log(JSON.stringify(least));
}
await closeParser();
