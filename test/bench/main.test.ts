import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isLongForm } from "../helpers/long-form.ts";

const folder = mkdtempSync(join(tmpdir(), "bench-test-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Performs the short form of two scenarios with proxies that spoil answers, each in its way. */
async function benchOf(...ways: readonly string[]) {
  const file = join(folder, `${ways.join("-")}.json`);
  const command = [process.execPath, join(import.meta.dir, "spoiling-proxy.ts"), "{port}", "http://127.0.0.1:{mock}"];
  writeFileSync(file, JSON.stringify(ways.map((way) => ({ name: `it ${way}`, command: [...command, way] }))));
  const bench = [process.execPath, join(import.meta.dir, "main.ts"), "--quick", "--only", "plain,stream"];
  const child = Bun.spawn([...bench, "--without", "troupe", "--peers", file], { stdout: "pipe", stderr: "pipe" });
  const [output, errors] = await Promise.all([new Response(child.stdout).text(), new Response(child.stderr).text()]);
  return { code: await child.exited, errors, faults: output.split("\n").filter((line) => line.startsWith("FAULT")) };
}

test.skipIf(!isLongForm || process.platform !== "linux")(
  "the short form fails when an answer is broken, and says whose and how",
  async () => {
    const { code, errors, faults } = await benchOf("loses", "reorders", "changes", "cuts", "miscounts", "not");
    expect(faults.map((fault) => fault.replace(/\d+ of \d+ calls/, "calls"))).toEqual([
      expect.stringMatching(/^FAULT plain, it changes: calls: broken: the answer is the naive/),
      expect.stringMatching(/^FAULT plain, it cuts: calls: broken: SyntaxError: /),
      "FAULT plain, it miscounts: calls: wrong usage: 18,42,59,5 instead of 17,42,59,5",
      "FAULT stream, it loses: calls: lost or reordered: fragment 5 came where 4 was due",
      "FAULT stream, it reorders: calls: lost or reordered: fragment 5 came where 4 was due",
      'FAULT stream, it changes: calls: broken: fragment 0 is "000000 0000000000000000 the naiv"',
      expect.stringMatching(/^FAULT stream, it cuts: calls: broken: the stream ends within an event/),
    ]);
    expect(code, errors).toBe(1);
  },
);

test.skipIf(!isLongForm || process.platform !== "linux")("the short form passes when all is well", async () =>
  expect(await benchOf("not")).toMatchObject({ code: 0, faults: [] }),
);
