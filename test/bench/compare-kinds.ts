/** The kinds of calls by which builds and other gateways are compared with both ends in C, as data. */
import { type CallSpec, call } from "./calls.ts";

export type Kind = {
  readonly name: string;
  readonly about: string;
  readonly call: CallSpec;
  /** What goes straight to the mock and over the bare proxy instead, where these can't carry the call itself. */
  readonly baseline: CallSpec;
  readonly load:
    | { readonly by: "callers"; readonly callers: number }
    | { readonly by: "rate"; readonly perSecond: number }
    | { readonly by: "open streams"; readonly streams: number };
  /** Only of builds of Troupe: nothing else has budgets. */
  readonly governed: boolean;
  /** The first calls after a start are a measurement of their own. */
  readonly cold: boolean;
  /** Streams count as calls, by the time to their first fragment. */
  readonly opening: boolean;
};

const paced = { shape: "-f100-i10", streamed: true } as const;
const burst = { shape: "-f200", streamed: true } as const;
const short = { shape: "-f3", streamed: true } as const;
const agent = { promptKind: "agent" } as const;

const kind = (
  name: string,
  about: string,
  changes: Partial<CallSpec>,
  callers: number,
  more: Partial<Kind> = {},
): Kind => ({
  name,
  about,
  call: call(changes),
  baseline: call({ ...changes, surface: "gateway", family: "openai", identified: false }),
  load: { by: "callers", callers },
  governed: false,
  cold: false,
  opening: false,
  ...more,
});

const rate = (perSecond: number) =>
  kind(`rate-${perSecond}`, `${perSecond} plain calls a second, each at its time`, {}, 1, {
    load: { by: "rate", perSecond },
  });

const pacedAbout = "200 streams at a time of 100 fragments, 10 ms apart";
const firstAbout = "64 streams at a time of three fragments, to the first of them";
const burstAbout = "32 streams at a time of 200 fragments, as fast as they are taken";

export const kinds: readonly Kind[] = [
  kind("plain", "plain calls, 64 callers, cold and warm", {}, 64, { cold: true }),
  kind("plain-1k", "plain calls with a prompt of 1 KB, 64 callers", { promptChars: 1_000 }, 64),
  kind("plain-16k", "plain calls with 16 KB of an agent's turns, 32 callers", { ...agent, promptChars: 16_000 }, 32),
  kind("plain-400k", "plain calls with 400 KB of an agent's turns, 4 callers", { ...agent, promptChars: 400_000 }, 4),
  kind("stream", pacedAbout, paced, 200),
  kind("burst", burstAbout, burst, 32),
  kind("first", firstAbout, short, 64, { opening: true }),
  kind("anthropic", "plain calls, chat → Messages, 64 callers", { family: "anthropic" }, 64),
  kind(
    "anthropic-16k",
    "chat → Messages, 16 KB of an agent's turns, 32 callers",
    { ...agent, promptChars: 16_000, family: "anthropic" },
    32,
  ),
  kind(
    "anthropic-400k",
    "chat → Messages, 400 KB of an agent's turns, 4 callers",
    { ...agent, promptChars: 400_000, family: "anthropic" },
    4,
  ),
  kind("anthropic-stream", `chat → Messages, ${pacedAbout}`, { ...paced, family: "anthropic" }, 200),
  kind("anthropic-burst", `chat → Messages, ${burstAbout}`, { ...burst, family: "anthropic" }, 32),
  kind("persona", "plain calls to a persona, 64 callers", { surface: "persona" }, 64),
  kind("knowledge", "plain calls to a persona that knows 300 sections, 64 callers", { surface: "knowledge" }, 64),
  kind("persona-stream", `to a persona, ${pacedAbout}`, { ...paced, surface: "persona" }, 200),
  kind("persona-first", `to a persona, ${firstAbout}`, { ...short, surface: "persona" }, 64, { opening: true }),
  kind("persona-burst", `to a persona, ${burstAbout}`, { ...burst, surface: "persona" }, 32),
  kind("raw", "plain calls of the provider's own API, 64 callers", { surface: "raw" }, 64),
  kind("id", "plain calls with a new service-request-id each, 64 callers", { identified: true }, 64),
  kind("governed", "plain calls that count against two budgets, 64 callers", {}, 64, { governed: true }),
  rate(200),
  rate(1000),
  rate(3000),
  kind(
    "open-streams",
    "1,000 streams open at once, a fragment each second",
    { shape: "-f60-i1000", streamed: true },
    1,
    {
      load: { by: "open streams", streams: 1000 },
    },
  ),
];

/** @throws where a name is none of a kind's */
export function kindsOf(names: string): Kind[] {
  if (names === "all") return [...kinds];
  return names.split(",").map((name) => {
    const found = kinds.find((known) => known.name === name.trim());
    if (found === undefined) throw new Error(`--kinds: no kind is called '${name}'; see --help`);
    return found;
  });
}
