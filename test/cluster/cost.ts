/**
 * Measures what a call takes on SQLite and on PostgreSQL, one after the other, with and without an id: medians of calls in turn.
 *
 *     bun test/cluster/cost.ts
 */
import { PostgresServer } from "../helpers/postgres.ts";
import { TempFolder } from "../helpers/temp-folder.ts";
import { TroupeProcess } from "../helpers/troupe-process.ts";

const calls = 150;

async function call({ url, key }: TroupeProcess, id?: string): Promise<number> {
  const startedAt = performance.now();
  const response = await fetch(`${url}/gateway/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key}`,
      "content-type": "application/json",
      ...(id !== undefined && { "service-request-id": id }),
    },
    body: JSON.stringify({ model: "builtin/echo", messages: [{ role: "user", content: "x" }] }),
  });
  await response.text();
  if (response.status !== 200) throw new Error(`status ${response.status}`);
  return performance.now() - startedAt;
}

const median = (times: readonly number[]) => times.toSorted((a, b) => a - b)[Math.floor(times.length / 2)]!.toFixed(2);

await using server = await PostgresServer.start();
using folders = new DisposableStack();
const nodes = await Promise.all(
  [{}, { TROUPE_STORE: await server.createDatabase() }].map((env) =>
    TroupeProcess.start(folders.use(new TempFolder()).path, "http://127.0.0.1:1", {
      env: { ...env, TROUPE_GATEWAY_PER_MINUTE: "1000000" },
    }),
  ),
);
const times = nodes.map(() => ({ plain: [] as number[], withId: [] as number[] }));
// In turn, so that what else the machine does falls on all of them.
for (let at = 0; at < calls; at += 1) {
  for (const [place, node] of nodes.entries()) {
    times[place]!.plain.push(await call(node));
    times[place]!.withId.push(await call(node, `c${at}`));
  }
}
for (const [place, name] of ["SQLite", "PostgreSQL"].entries()) {
  const { plain, withId } = times[place]!;
  console.log(`${name}: plain ${median(plain)} ms, with an id ${median(withId)} ms`);
}
await Promise.all(nodes.map((node) => node.kill()));
