import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isLongForm } from "../helpers/long-form.ts";
import { kinds } from "./compare-kinds.ts";

const canRun =
  isLongForm && process.platform === "linux" && ["cc", "gcc", "clang"].some((name) => Bun.which(name) !== null);
const source = `${process.execPath} ${join(import.meta.dir, "../../src/main.ts")}`;
const short = ["--rounds", "1", "--seconds", "0.05", "--first", "50", "--warm", "0.02", "--callers", "4"];

const folder = mkdtempSync(join(tmpdir(), "compare-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

async function run(...words: readonly string[]) {
  const child = Bun.spawn([process.execPath, join(import.meta.dir, "compare.ts"), ...words], {
    stdout: "pipe",
    stderr: "pipe",
  });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, rows: rowsOf(output), errors };
}

/** The cells of each row by kind and server. */
function rowsOf(output: string): Record<string, Record<string, readonly string[]>> {
  const tables = output.split(/\n(?=[\w-]+: )/).slice(1);
  return Object.fromEntries(
    tables.map((table) => {
      const rows = table.split("\n").filter((line) => /^\| (?!server|---)/.test(line));
      const cells = rows.map((row) => row.slice(2, -2).split(" | "));
      return [table.slice(0, table.indexOf(":")), Object.fromEntries(cells.map(([name, ...rest]) => [name, rest]))];
    }),
  );
}

/** A file of peers that hand on what the mock answers, each spoiled in its way. */
function proxies(...ways: readonly string[]): string {
  const file = join(folder, "peers.json");
  const command = [process.execPath, join(import.meta.dir, "spoiling-proxy.ts"), "{port}", "http://127.0.0.1:{mock}"];
  writeFileSync(file, JSON.stringify(ways.map((way) => ({ name: `it ${way}`, command: [...command, way] }))));
  return file;
}

const number = /^[\d.]+$/;
const range = /^[\d.]+ \([\d.]+–[\d.]+\)$/;
const ratio = /^[\d.]+×$/;
const both = /^[\d.]+ \+ [\d.]+$/;
const time = /^[\d.]+( \([+−][\d.]+\))?$/;

/** What stands in a row of each shape of table. */
function cellsOf({ load, cold, opening }: (typeof kinds)[number]) {
  if (load.by === "open streams") return [/^-?[\d.]+ \(-?[\d.]+–-?[\d.]+\)$/, /^-?[\d.]+×$/, number, /^0$/];
  const times = load.by === "rate" || opening ? [time, time] : [];
  return [...(cold ? [number] : []), range, ratio, ...times, number, both, number, /^0$/];
}

/** Side by side, as streams and calls at a rate take their time. */
const partOf = ({ load, call }: (typeof kinds)[number]) =>
  load.by !== "callers" ? "at a rate, and open streams" : call.shape.endsWith("-i10") ? "paced streams" : "at once";
const parts = Object.entries(Object.groupBy(kinds, partOf));

for (const [what, chosen] of parts)
  test
    .skipIf(!canRun)
    .concurrent(`builds are compared beside the bare proxy, every answer of theirs checked: ${what}`, async () => {
      const names = chosen.map(({ name }) => name);
      const { code, rows, errors } = await run(...short, "--kinds", names.join(), `this=${source}`);
      expect({ code, errors, kinds: Object.keys(rows) }, JSON.stringify(rows)).toEqual({
        code: 0,
        errors: "",
        kinds: names,
      });
      for (const kind of chosen) {
        const { direct, "bare proxy": bare, this: own, ...others } = rows[kind.name]!;
        const cells = cellsOf(kind).map((cell) => expect.stringMatching(cell));
        expect({ bare, own, others }, kind.name).toEqual({ bare: cells, own: cells, others: {} });
        expect(direct?.at(-1), kind.name).toBe("0");
      }
    });

test
  .skipIf(!canRun)
  .concurrent(
    "a gateway's wrong answers are counted, and told instead of numbers where all are wrong; other spellings are right",
    async () => {
      const ways = ["loses", "reorders", "changes", "cuts", "miscounts", "not", "respells", "loses at times"];
      const { code, rows, errors } = await run(
        ...[...short, "--kinds", "plain,burst", "--peers", proxies(...ways), `broken=/bin/false`],
      );
      expect({ code, errors }).toEqual({ code: 1, errors: "" });
      const plain = (way: string) => rows["plain"]![`it ${way}`]!;
      const burst = (way: string) => rows["burst"]![`it ${way}`]!;
      expect(plain("changes")[0]).toMatch(/^failed: another text: \{'id':'chatcmpl-/);
      expect(plain("cuts")[0]).toBe("failed: no JSON: ");
      expect(plain("miscounts")[0]).toBe("failed: wrong usage: 18 and 42 instead of 17 and 42");
      expect(burst("loses")[0]).toMatch(/^failed: fragment 4 is '000005 /);
      expect(burst("reorders")[0]).toMatch(/^failed: fragment 4 is '000005 /);
      expect(burst("changes")[0]).toMatch(/^failed: fragment 0 is '000000 0000000000000000 the naiv'/);
      expect(burst("cuts")[0]).toBe("failed: the stream ends within an event");
      expect(burst("loses at times").at(-1)).toMatch(/^[1-9]\d*: fragment 4 is '000005 /);
      for (const way of ["not", "respells"])
        expect([plain(way).at(-1), burst(way).at(-1)], `${JSON.stringify(rows)}`).toEqual(["0", "0"]);
      expect(rows["plain"]!["broken"]![0]).toStartWith("failed: it ended at once");
    },
  );

test
  .skipIf(!canRun)
  .concurrent(
    "words that name no build or kind, and numbers that are none, are told before anything starts",
    async () => {
      const failed = async (...words: readonly string[]) => {
        const { code, errors } = await run(...words);
        return { code, errors };
      };
      expect(await failed("nothing")).toEqual({ code: 2, errors: "'nothing' is no <name>=<command>; see --help\n" });
      const numbers = "--rounds must be a number above zero, not 'none'\n";
      expect(await failed("--rounds", "none", "a=b")).toEqual({ code: 2, errors: numbers });
      const unknown = "--kinds: no kind is called 'fast'; see --help\n";
      expect(await failed("--kinds", "plain,fast", "a=b")).toEqual({ code: 2, errors: unknown });
    },
  );
