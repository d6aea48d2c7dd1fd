/** The live tail of calls for readers that are slow, and lists that grow while they are read. */
import { expect, test } from "bun:test";
import { connect } from "node:net";
import type { Config } from "../../src/config/config.ts";
import { AnswerParser } from "../../src/lib/http/parser.ts";
import type { LedgerPage } from "../../src/store/contract/usage.ts";
import { ledgerLine } from "../helpers/ledger-line.ts";
import { ManualClock } from "../helpers/manual-clock.ts";
import { Troupe } from "../helpers/troupe.ts";

const listen: Config["listen"] = [
  { address: { kind: "tcp", host: "127.0.0.1", port: 0 }, surfaces: ["orchestrator", "gateway", "admin"] },
];

async function open() {
  const clock = new ManualClock();
  const troupe = await Troupe.start({ clock, config: { listen } });
  const key = await troupe.createKey({ name: "admin", tier: "pro", perMinute: 1_000_000, surfaces: ["admin"] });
  const { ledger } = troupe.server.services.store;
  let count = 0;
  return {
    clock,
    troupe,
    key,
    ledger,
    /** Calls that have ended just now. @returns how many there are */
    async end(calls: number): Promise<number> {
      const lines = Array.from({ length: calls }, () => {
        count += 1;
        return ledgerLine(`req_${String(count).padStart(8, "0")}`, { at: clock.now() });
      });
      await ledger.append(lines);
      return count;
    },
    [Symbol.asyncDispose]: () => troupe[Symbol.asyncDispose](),
  };
}

const turns = async (many: number) => {
  for (let at = 0; at < many; at += 1) await new Promise(setImmediate);
};

test("nothing is held for a reader that stands still, who is told later that calls are missing, and then of each", async () => {
  await using house = await open();
  const { clock, ledger, troupe, key } = house;
  let looks = 0;
  const { search } = ledger;
  Object.assign(ledger, {
    search: (page: LedgerPage, most?: number) => {
      looks += 1;
      return search(page, most);
    },
  });
  const { hostname, port } = new URL(troupe.url);
  const socket = connect({ host: hostname, port: Number(port) });
  let text = "";
  const begun = Promise.withResolvers<void>();
  const parser = new AnswerParser({
    head() {},
    push: (bytes) => {
      text += bytes.toString("latin1");
      if (text.includes(": here")) begun.resolve();
    },
    end() {},
  });
  socket.on("data", (bytes: Buffer) => parser.push(bytes));
  socket.write(`GET /admin/v1/calls/stream HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${key}\r\n\r\n`);
  await begun.promise;
  socket.pause();
  // Whatever lies between the two takes some of them.
  let still = 0;
  for (let rounds = 0; still < 5; rounds += 1) {
    expect(rounds).toBeLessThan(100);
    const before = looks;
    await house.end(500);
    clock.advance(1000);
    await turns(50);
    still = looks === before ? still + 1 : 0;
  }
  socket.resume();
  const told = () => [...text.matchAll(/^id: \d+\.req_(\d+)\.1$/gm)].map(([, number]) => Number(number));
  let all = 0;
  do {
    all = await house.end(1);
    clock.advance(1000);
    await turns(50);
  } while (told().at(-1) !== all);
  const numbers = told();
  expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b));
  // One look takes 2000 calls, and tells that there were more.
  const missing = numbers.flatMap((number, at) => (at > 0 && number !== numbers[at - 1]! + 1 ? [number] : []));
  expect(missing).toHaveLength(1);
  expect(text.split("event: gap")).toHaveLength(2);
  expect(text.indexOf("event: gap")).toBeLessThan(text.indexOf(`.req_${String(missing[0]).padStart(8, "0")}.1\n`));
  expect(text.indexOf("event: gap")).toBeGreaterThan(text.indexOf(".req_00000500.1\n"));
  socket.destroy();
});

test("a call that took long is told as it ends, however many began after it; of more than a look takes the latest are", async () => {
  await using house = await open();
  const { clock, ledger, troupe, key } = house;
  const left = new AbortController();
  const answer = await troupe.fetch("/admin/v1/calls/stream?limit=3", { key, signal: left.signal });
  const reader = answer.body!.getReader();
  let text = "";
  const until = async (words: string) => {
    while (!text.includes(words)) text += new TextDecoder().decode((await reader.read()).value);
  };
  await until(": here");
  const begun = clock.now();
  clock.advance(20_000);
  await turns(50);
  for (let at = 0; at < 5; at += 1) await house.end(500);
  await turns(50);
  // Not one second after another: a look is under way while the clock stands still.
  clock.advance(1_000);
  await until("req_00002500.1");
  clock.advance(10_000);
  await turns(50);
  await ledger.append([ledgerLine("req_slow", { at: begun, totalMs: clock.now() - begun })]);
  clock.advance(1_000);
  await until("req_slow.1");
  expect([...text.matchAll(/^id: \d+\.(\w+)\.1$/gm)].map(([, id]) => id)).toEqual([
    ...["req_00002498", "req_00002499", "req_00002500", "req_slow"],
  ]);
  expect(text.split("event: gap")).toHaveLength(2);
  left.abort();
});

test("pages that are read while calls and keys are added have each of the earlier ones once", async () => {
  await using house = await open();
  const { clock, troupe, key } = house;
  const read = async (path: string, add: () => Promise<unknown>) => {
    const ids: string[] = [];
    let after = "";
    for (;;) {
      const answer = await troupe.fetch(`/admin/v1/${path}?limit=7${after}`, { key });
      const { data, has_more, last_id } = (await answer.json()) as {
        data: { id: string }[];
        has_more: boolean;
        last_id: string;
      };
      ids.push(...data.map(({ id }) => id));
      await add();
      if (!has_more) return ids;
      after = `&after=${encodeURIComponent(last_id)}`;
    }
  };
  await house.end(50);
  // Of the same moment, and of later ones.
  const added = [async () => void (await house.end(3)), async () => clock.advance(10)];
  let turn = 0;
  const calls = await read("calls", async () => {
    for (const add of added.slice(0, (turn % 2) + 1)) await add();
    turn += 1;
  });
  const expected = Array.from({ length: 50 }, (_, at) => `req_${String(at + 1).padStart(8, "0")}`);
  const seen = calls.map((id) => id.split(".")[1]!);
  expect(new Set(seen).size).toBe(seen.length);
  expect(expected.filter((id) => !seen.includes(id))).toEqual([]);
  const { keys } = troupe.server.services;
  for (let at = 0; at < 20; at += 1) await keys.create({ name: `before ${at}`, tier: "pro" });
  const before = (await keys.list()).map(({ id }) => id);
  const listed = await read("keys", () => keys.create({ name: "later", tier: "pro" }));
  expect(new Set(listed).size).toBe(listed.length);
  expect(listed.filter((id) => before.includes(id)).toSorted()).toEqual(before.toSorted());
});
