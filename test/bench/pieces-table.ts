/** The pieces of a plain call that `pieces.ts` leaves out for a moment, each by the texts of `src` that a switch is put before. */

/** A text that stands once in a file of `src`, and what stands there instead; `OFF` is true while the piece is left out. */
export type Switch = readonly [file: string, text: string, instead: string];

const skip = (file: string, ...texts: string[]) => texts.map((text): Switch => [file, text, `OFF || ${text}`]);
const unless = (file: string, text: string): Switch[] => [[file, text, `!OFF && ${text}`]];
/** Leaves the function where that text begins. */
const leave = (file: string, text: string, how = "return"): Switch[] => [[file, text, `if (OFF) ${how};\n${text}`]];

const clientFile = "upstream/client.ts";
const asCame = `if (OFF) {
  observer.completed({ usage: whole.usage, completion: whole, upstreamResponseId });
  return { kind: "whole", status: 200, headers: { "content-type": "application/json; charset=utf-8" }, body: answer.asCame };
}
`;

/** Without one of them calls go on to be answered rightly, but for their ids, counts or records. */
export const pieces: Record<string, readonly Switch[]> = {
  "log line": skip("call/context.ts", 'log[level]("request", logFields)'),
  "ledger, all of it": [
    ...leave("usage/ledger/writer.ts", "const isKnown = "),
    ...leave("usage/usage.ts", "if (this.#isSettled) return;"),
  ],
  "ledger: notes in the mapped file": unless("usage/ledger/writer.ts", "this.#journal?.note(line) === false"),
  "ledger: writes to SQLite": [
    [
      "usage/ledger/writer.ts",
      "await this.#ledger.append(batch",
      "OFF ? { spending: [] } : await this.#ledger.append(batch",
    ],
  ],
  "ledger: price": [["usage/usage.ts", "const own = !isBilled\n", "const own = OFF || !isBilled\n"]],
  metrics: [
    ...skip("call/context.ts", "this.series.request("),
    ...skip("call/settle/settle.ts", "series.operation(", "series.usage("),
    ...skip("call/settle/settle.ts", "this.#context.series.overhead("),
    ...leave("usage/metrics.ts", "const { surface, ended, provider,"),
  ],
  "`Host`": unless("http/serve.ts", "checksNames && !namesThisMachine("),
  "whether keys have changed": unless("http/serve.ts", 'area !== "operations") await services.keys'),
  "count of the limit, its headers": skip("call/admit/admit.ts", "perMinute === undefined) return;"),
  "deadline of the body": leave("call/context.ts", "const { bodyDeadlines, live } =", "return await body"),
  "deadline of the first byte": [
    ...skip(clientFile, "\n    opened.deadlines.add(this);"),
    ...skip(clientFile, "this.#opened.deadlines.delete(this);\n    this.#idleTimer"),
  ],
  "idle timeout of the connection": leave("call/context.ts", "this.#hasOwnIdleTimeout = true;"),
  abort: [
    [
      "call/call.ts",
      "const { signal } = context.request;",
      "const signal = OFF ? neverAborted : context.request.signal;",
    ],
    ...skip(clientFile, 'signal.addEventListener("abort", this);', "this.#signal.removeEventListener("),
  ],
  ids: [
    ["call/context.ts", "= services.clock.newId();", "= OFF ? String(1e15 + answeredCalls) : services.clock.newId();"],
  ],
  "`x-troupe-*` headers": leave("call/settle/settle.ts", "if (persona?.hidesUpstream === true) return;\n    const {"),
  "client's name": [
    ["call/admit/admit.ts", "services.clients.labelsOf(", "OFF ? context.labels : services.clients.labelsOf("],
  ],
  "bounds and doubled names of the body": [
    ...skip("protocols/body/body.ts", "checkBounds(scan, bytes, limits);\n  const text"),
    ...skip("protocols/body/body.ts", "refuseDoubledNames(bytes, scan.outerKeys, parsed);"),
  ],
  "estimate's sample of the prompt": [
    [
      "call/send/send.ts",
      "input: requestMeter(call.request, source)",
      "input: OFF ? undefined : requestMeter(call.request, source)",
    ],
  ],
  Elysia: [
    ["http/app.ts", "plugin.route(\n", "takeRoute(path, (request) => answer({ request }));\n    plugin.route(\n"],
  ],
  "whether the upstream has closed": unless("lib/http/connection.ts", "hasUnread(this.#descriptor)").map(
    ([file, text]) => [file, `!${text}`, `(OFF || !${text})`],
  ),
  "answer's copy (as it came instead)": [
    [
      "upstream/call.ts",
      "decodePlain(await answer.text(), reader",
      "decodePlain((answer.asCame = await answer.text()), reader",
    ],
    ...leave("upstream/call.ts", "// Some upstreams ignore `stream: true`.").map(
      ([file, text]): Switch => [file, text, asCame + text],
    ),
  ],
  "going on together at a turn's end": [
    ...skip("upstream/call.ts", "await turnEnd();"),
    ...skip("call/read/request-body.ts", "await turnEnd();"),
  ],
};
