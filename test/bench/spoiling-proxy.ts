/**
 * A proxy that spoils the answers it hands on, to show that the benchmark notices.
 * Usage: `bun test/bench/spoiling-proxy.ts <port> <upstream origin> <how>`; it lives until its input closes.
 */
import { endWithInput } from "./processes.ts";

let answers = 0;

/** The same in other words: members the other way round, without nulls, spaced, escaped. */
function respelled(json: string): string {
  const value = JSON.parse(json, (_, inner) =>
    typeof inner === "object" && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(
          Object.entries(inner)
            .filter(([, member]) => member !== null)
            .reverse(),
        )
      : inner,
  );
  return JSON.stringify(value, undefined, 1)
    .replaceAll("\n", " ")
    .replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** How it spoils the events of a stream; the role comes first, then fragment after fragment. */
const spoilers: Record<string, (events: readonly string[]) => readonly string[]> = {
  not: (events) => events,
  loses: (events) => events.toSpliced(5, 1),
  reorders: (events) => events.toSpliced(5, 2, events[6]!, events[5]!),
  changes: (events) => events.map((event) => event.replace("naïv", "naiv")),
  cuts: (events) => events.slice(0, -2),
  "loses at times": (events) => (answers++ % 2 === 0 ? events : events.toSpliced(5, 1)),
  respells: (events) =>
    events.map((event) =>
      event.replace(/^(data: )?(\{.*\})$/s, (_, data, json) => `${data ? ": hello\r\ndata:" : ""}${respelled(json)}`),
    ),
  miscounts: (events) => events.map((event) => event.replace('"prompt_tokens":17', '"prompt_tokens":18')),
};

const [, , port, upstream = "", how = ""] = process.argv;
const spoil = spoilers[how]!;

Bun.serve({
  hostname: "127.0.0.1",
  port: Number(port),
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const answer = await fetch(upstream + pathname, {
      method: request.method,
      headers: request.headers,
      body: request.body,
    });
    const events = (await answer.text()).split("\n\n");
    const headers = { "content-type": answer.headers.get("content-type") ?? "" };
    return new Response(spoil(events).join("\n\n"), { status: answer.status, headers });
  },
});
endWithInput();
