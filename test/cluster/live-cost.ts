/**
 * Measures how late events of a call come to readers on two other nodes, and what that asks of PostgreSQL: by live streams, and by the
 * database alone. Twenty events a second, as a model sends them; all nodes are in this process.
 *
 *     bun test/cluster/live-cost.ts --seconds 8
 */
import { parseArgs } from "node:util";
import { LiveNode } from "../helpers/live-node.ts";
import { PostgresServer } from "../helpers/postgres.ts";
import { RedisServer } from "../helpers/redis.ts";

const everyMs = 50;
const { values } = parseArgs({ options: { seconds: { type: "string", default: "8" } } });
const events = (Number(values.seconds) * 1000) / everyMs;

await using postgres = await PostgresServer.start();
await using redis = await RedisServer.start();

async function measure(name: string, server: RedisServer | undefined): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const url = await postgres.createDatabase();
  const open = async () => stack.use(await LiveNode.open(postgres, url, server, 15));
  const [holder, ...others] = [await open(), await open(), await open()];
  const first = holder.ask("a");
  await holder.upstream.called(1);
  const call = holder.upstream.last.stream();
  call.push("data: 0\n\n");
  const statementsAlone = await counted(holder, 2_000);
  const readers = others.flatMap((node) => Array.from({ length: 5 }, () => node.ask("a")));
  for (const reader of readers) await reader.has(1);
  const before = [holder, ...others].map(({ statements }) => statements);
  const startedAt = performance.now();
  const sentAt = [0];
  for (let number = 1; number <= events; number += 1) {
    await Bun.sleep(everyMs);
    sentAt.push(performance.now());
    call.push(`data: ${number}\n\n`);
  }
  const seconds = (performance.now() - startedAt) / 1000;
  const [atHolder, ...atOthers] = [holder, ...others].map(({ statements }, at) => (statements - before[at]!) / seconds);
  for (const reader of readers) await reader.has(events + 1);
  const late = readers.flatMap(({ times }) => times.slice(1).map((at, place) => at - sentAt[place + 1]!));
  late.sort((one, other) => one - other);
  const part = (share: number) => late[Math.floor(late.length * share)]!.toFixed(1);
  const perReader = atOthers.reduce((sum, one) => sum + one, 0) / readers.length;
  const [{ rows }] = (await postgres.ask<{ rows: number }>(
    url,
    "select count(*)::int as rows from troupe.kept_events",
  )) as [{ rows: number }];
  console.log(
    `${name}: median ${part(0.5)} ms, p99 ${part(0.99)} ms; statements a second: ${perReader.toFixed(1)} for each reader, ` +
      `${(atHolder! - statementsAlone).toFixed(1)} more at the holder; ${rows} rows of events`,
  );
  call.push("[DONE]").end("finished");
  for (const reader of [first, ...readers]) await reader.ended;
}

/** Statements a second. */
async function counted(node: LiveNode, ms: number): Promise<number> {
  const before = node.statements;
  await Bun.sleep(ms);
  return ((node.statements - before) * 1000) / ms;
}

await measure("live streams", redis);
await measure("PostgreSQL alone", undefined);
