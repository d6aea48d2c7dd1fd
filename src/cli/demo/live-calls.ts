/** Calls that a demonstration makes while it runs, by its keys, as clients make them. */
import { setTimeout } from "node:timers/promises";
import { dayMs } from "../../lib/time/duration.ts";
import type { KeyedPerson } from "./people.ts";
import type { Random } from "./random.ts";

const questions = [
  "Where is my order?",
  "Can I move to the yearly plan in the middle of a month?",
  "The export to CSV breaks in some rows. What can I do?",
  "How do I find the ten best customers of this year?",
  "Please translate: our office is closed on Monday.",
  "Which plan fits a team of thirty?",
];

const agents: Readonly<Record<string, string>> = {
  "openai-node": "OpenAI/JS 7.55.0",
  "openai-python": "OpenAI/Python 2.8.0",
  okhttp: "okhttp/5.1.0",
  "claude-cli": "claude-cli/2.1.0",
  langchain: "langchain/1.4.0",
  curl: "curl/8.14.1",
};

type LiveCallOptions = {
  readonly url: string;
  readonly members: readonly KeyedPerson[];
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Names a unix socket, where a forward proxy would take the calls. */
  readonly fetchOptions: { readonly unix?: string };
};

/** Calls that are made in the first seconds, so that something moves. */
const lively = 30;
/** How much faster than in its month calls go on after those: an hour looks like one of its busier ones. */
const busier = 3;
const monthMs = 30 * dayMs;

/**
 * Makes some calls in the first seconds, and then about as many as the month before has, until the signal; each fails by itself.
 * @param lines calls of that month
 */
export async function makeLiveCalls(options: LiveCallOptions, lines: number): Promise<void> {
  const { members, random, signal } = options;
  const usualMs = monthMs / Math.max(1, lines) / busier;
  let made = 0;
  const weights = Object.fromEntries(members.map(({ name, weight }) => [name, weight]));
  while (!signal.aborted) {
    const name = random.pick(weights);
    const member = members.find((one) => one.name === name)!;
    call(options, member, random.pick(member.asks)).catch(() => {});
    made += 1;
    const most = made < lively ? 650 : Math.max(650, Math.round(1.5 * usualMs));
    // Ends with the signal.
    await setTimeout(random.between(150, most), undefined, { signal }).catch(() => {});
  }
}

/** One call, read to its end. */
export async function call(
  { url, random, signal, fetchOptions }: LiveCallOptions,
  { secret, client }: KeyedPerson,
  model: string,
): Promise<void> {
  const isPersona = /^(acme|studio)\//.test(model);
  const path = client === "claude-cli" ? "messages" : "chat/completions";
  const answer = await fetch(`${url}${isPersona ? "" : "/gateway"}/v1/${path}`, {
    ...{ ...fetchOptions, method: "POST", signal },
    headers: {
      authorization: `Bearer ${secret}`,
      "content-type": "application/json",
      "user-agent": agents[client] ?? client,
    },
    body: JSON.stringify({
      ...{ model, max_tokens: 500, stream: random.next() < 0.8, user: `user-${random.between(1, 400)}` },
      messages: [{ role: "user", content: random.one(questions) }],
    }),
  });
  await answer.bytes();
}
