import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createLogger, inWholeLines, type LogSink, withFields } from "../../../src/lib/process/log.ts";
import { StorageError } from "../../../src/store/contract/storage-error.ts";
import { asUnavailable } from "../../../src/store/require-storage.ts";
import { runs } from "../../helpers/long-form.ts";

function collecting(): LogSink & { text: string } {
  return {
    text: "",
    write(text) {
      this.text += text;
    },
    flush: () => undefined,
  };
}
const json = { level: "info", pretty: false, now: () => 0 } as const;

describe("createLogger", () => {
  test("writes one JSON line each, in order, from its level up", async () => {
    const sink = collecting();
    const log = createLogger(sink, json);
    log.debug("no");
    log.info("a", { n: 1, gone: undefined });
    log.error("b");
    await log.flush();
    expect(
      sink.text
        .trimEnd()
        .split("\n")
        .map((line) => JSON.parse(line)),
    ).toEqual([
      { time: "1970-01-01T00:00:00.000Z", level: "info", message: "a", n: 1 },
      { time: "1970-01-01T00:00:00.000Z", level: "error", message: "b" },
    ]);
  });

  test("is readable on a terminal", async () => {
    const sink = collecting();
    const log = createLogger(sink, { ...json, pretty: true });
    log.warn("slow", { path: "/v1", words: "two words" });
    await log.flush();
    expect(sink.text).toBe('00:00:00.000 WARN  slow  path=/v1 words="two words"\n');
  });

  test("keys never get through, in texts, errors and their causes", async () => {
    const sink = collecting();
    const log = createLogger(sink, json);
    const key = `trp_${"a".repeat(46)}`;
    log.info("x", {
      header: `Bearer ${key}`,
      upstream: "sk-proj-abcdefghijklmnop1234",
      google: "AIzaSyA1234567890abcdefghij",
      error: new Error(`bad ${key}`, { cause: new Error("Bearer abcdefghijkl") }),
    });
    await log.flush();
    for (const secret of ["aaaaaaaaaa", "abcdefghijkl", "SyA123"]) expect(sink.text).not.toContain(secret);
    expect(sink.text).toContain("caused by");
  });

  test("a line holds each field once, whatever is in the others", async () => {
    const key = `trp_${"a".repeat(46)}`;
    const value = fc.oneof(
      fc.string({ unit: "grapheme" }),
      fc.constantFrom(key, `a\nBearer\n${key}`, `\n${key}"`, "Bearer short", `xsk-${key}`, ""),
      fc.constantFrom(undefined, null, 0, -1.5, true, { nested: ["x"] }),
    );
    const fields = fc.dictionary(fc.constantFrom("a", "b", "c", 'd"', "0", "__proto__"), value);
    const hidden = (text: string) => text.replace(/(?:Bearer\s)?trp_a+/g, "***");
    await fc.assert(
      fc.asyncProperty(fc.string(), fields, async (message, given) => {
        const sink = collecting();
        const log = createLogger(sink, json);
        log.info(message, given);
        await log.flush();
        const expected = Object.entries(given)
          .filter(([, one]) => one !== undefined)
          .map(([name, one]) => [name, typeof one === "string" ? hidden(one) : one]);
        const line = { time: "1970-01-01T00:00:00.000Z", level: "info", message, ...Object.fromEntries(expected) };
        expect(JSON.parse(sink.text)).toEqual(line);
        expect(sink.text.endsWith("}\n") && sink.text.trimEnd().split("\n").length).toBe(1);
      }),
    );
  });

  test("a line that is too long is cut, and still one line of JSON", async () => {
    const long = fc.nat(300_000).map((length) => `${"Ω\n\u0001😀".repeat(length / 5)}`);
    const value = fc.oneof(long, fc.array(long, { maxLength: 3 }), fc.integer(), fc.constant("short"));
    await fc.assert(
      fc.asyncProperty(fc.dictionary(fc.string({ maxLength: 20 }), value), long, async (fields, message) => {
        for (const pretty of [false, true]) {
          const sink = collecting();
          const log = createLogger(sink, { ...json, pretty });
          log.info(message, fields);
          await log.flush();
          expect(log.dropped).toBe(0);
          expect(sink.text.length).toBeLessThanOrEqual(64 * 1024);
          if (pretty) continue;
          expect(sink.text.indexOf("\n")).toBe(sink.text.length - 1);
          const line = JSON.parse(sink.text) as Record<string, unknown>;
          for (const [name, one] of Object.entries(fields)) {
            if (["time", "level", "message"].includes(name)) continue;
            const whole = typeof one === "string" ? one : JSON.stringify(one);
            const told = typeof line[name] === "string" ? line[name] : JSON.stringify(line[name]);
            expect(told === whole || (told.endsWith("…") && whole.startsWith(told.slice(0, -1)))).toBe(true);
          }
        }
      }),
      { numRuns: runs(40) },
    );
  });

  test("a field of any name is written, whether the line is cut or not", async () => {
    for (const [length, pretty] of [1, 300_000].flatMap((one) => [[one, false] as const, [one, true] as const])) {
      const sink = collecting();
      const log = createLogger(sink, { ...json, pretty });
      log.info("x".repeat(length), { ["__proto__"]: 7, constructor: 8 });
      await log.flush();
      expect(sink.text).toEndWith(pretty ? "  __proto__=7 constructor=8\n" : ',"__proto__":7,"constructor":8}\n');
    }
  });

  test("of two fields the short one stays whole", async () => {
    const sink = collecting();
    const log = createLogger(sink, json);
    log.info("request", { messages: "m".repeat(1_000_000), model: "openai/x" });
    await log.flush();
    const line = JSON.parse(sink.text) as { messages: string; model: string };
    expect([line.messages.length, line.model]).toEqual([16_384, "openai/x"]);
  });

  test("an error that the runtime made quotes nobody, and a chain of causes may be a circle", async () => {
    const sink = collecting();
    const log = createLogger(sink, json);
    const circle = new Error("ours");
    circle.cause = circle;
    const told = () => JSON.parse(sink.text.trimEnd().split("\n").at(-1)!).error as string;
    try {
      JSON.parse("[hello]");
    } catch (error) {
      log.error("x", { error: new Error("outer", { cause: error }) });
    }
    await log.flush();
    expect(told()).toContain('SyntaxError: JSON Parse error: Unexpected identifier "…"\n    at ');
    log.error("x", { error: circle });
    await log.flush();
    expect(told().split("Error: ours").length).toBe(10);
  });

  test("an outage is one sentence, whatever it is the cause of; what is wrong with the program has its stack", async () => {
    const away = new StorageError("away", "db:5432", "The database db:5432 can't be reached (57P03): check it.");
    const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
    const closed = Object.assign(new Error("Connection closed"), { code: "ERR_POSTGRES_CONNECTION_CLOSED" });
    const outages: [Error, string][] = [
      [away, away.message],
      [asUnavailable(away) as Error, away.message],
      [new Error("a", { cause: new Error("b", { cause: refused }) }), "connect ECONNREFUSED"],
      [closed, "Connection closed"],
    ];
    const puzzles = [
      new StorageError("unusable", "db:5432", "syntax error"),
      Object.assign(new Error("constraint"), { code: "ERR_POSTGRES_SERVER_ERROR" }),
      new Error("a bug"),
    ];
    const lineOf = async (error: Error, pretty: boolean) => {
      const sink = collecting();
      const log = createLogger(sink, { ...json, pretty });
      log.error("failed", { error });
      await log.flush();
      return sink.text;
    };
    for (const pretty of [false, true]) {
      for (const [error, sentence] of outages) {
        const line = await lineOf(error, pretty);
        expect(line).toContain(sentence);
        expect(line).not.toContain("caused by");
        expect(line).not.toMatch(/\bat .*\.ts/);
      }
      for (const error of puzzles) {
        const line = await lineOf(error, pretty);
        expect(line).toMatch(/\bat .*log\.test\.ts/);
      }
    }
  });

  test("much is written at once, little waits for more", async () => {
    const sink = collecting();
    const log = createLogger(sink, json);
    log.info("x".repeat(1000));
    expect(sink.text).toBe("");
    for (let line = 0; line < 40; line += 1) log.info("x".repeat(1000));
    expect(sink.text.length).toBeGreaterThan(32_000);
    await log.flush();
    expect(sink.text.split("\n")).toHaveLength(42);
  });

  test("a reader who does not read costs lines, counted, and no more memory", async () => {
    const sink = { ...collecting(), flush: () => new Promise<void>(() => {}) };
    const log = createLogger(sink, json);
    log.info("first");
    void log.flush();
    for (let line = 0; line < 3000; line += 1) log.info("x".repeat(1000));
    expect(log.dropped).toBeGreaterThan(1500);
    expect(log.dropped).toBeLessThan(2500);
  });
});

describe("a log that several processes write", () => {
  test("leaves in whole lines, as many as the system writes in one piece", async () => {
    const pieces: string[] = [];
    const sink = inWholeLines({ write: (text) => pieces.push(text), flush: () => {} });
    const lines = [
      ...Array.from({ length: 30 }, (_, at) => `${at}${"é".repeat(200)}\n`),
      `${"x".repeat(5_000)}\n`,
      "end\n",
    ];
    sink.write(lines.slice(0, 10).join(""));
    sink.write(lines.slice(10).join(""));
    await sink.flush();
    expect(pieces.join("")).toBe(lines.join(""));
    for (const piece of pieces) {
      expect(piece).toEndWith("\n");
      expect(Buffer.byteLength(piece) <= 4096 || piece === lines[30]).toBe(true);
    }
    expect(pieces.length).toBeLessThan(10);
  });

  test("says in each line who wrote it", async () => {
    const written: string[] = [];
    const sink = { write: (text: string) => written.push(text), flush: () => {} };
    const log = withFields(createLogger(sink, { level: "info", pretty: false, now: () => 0 }), { worker: 3 });
    log.debug("no");
    log.info("a");
    log.warn("b", { status: 1 });
    log.error("c", { worker: "own" });
    await log.flush();
    const lines = written
      .join("")
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.map(({ level, message, worker, status }) => [level, message, worker, status])).toEqual([
      ["info", "a", 3, undefined],
      ["warn", "b", 3, 1],
      ["error", "c", "own", undefined],
    ]);
  });
});
