/**
 * A gateway in a process of its own, so that only what it holds is counted: writes where it listens and its key as JSON, and for each
 * number that it reads how many objects and lists are alive beside those of its start, once they are no more than that, or will not be.
 * @param upstream by the first argument
 */
import { heapStats } from "bun:jsc";
import { Troupe } from "../../helpers/troupe.ts";

const upstream = process.argv[2]!;
await using troupe = await Troupe.start({
  nativeEndpoints: true,
  providers: { openai: { baseUrl: `${upstream}/v1` }, anthropic: { baseUrl: upstream } },
});
troupe.setTargets("troupe/tutor", ["openai/gpt-4o"]);

/** What a register or a running turn still names is gone after one of the next collections; on a busy machine the turns come late. */
async function alive(most: number): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  const tries = most === 0 ? 20 : 300;
  for (let tried = 0; tried < tries && least > most; tried += 1) {
    Bun.gc(true);
    const { Object: objects = 0, Array: lists = 0 } = heapStats().objectTypeCounts;
    least = Math.min(least, objects + lists);
    await Bun.sleep(tried < 20 ? 1 : 10);
  }
  return least;
}

const before = await alive(0);
console.log(JSON.stringify({ url: troupe.url, key: troupe.key }));
for await (const most of console) {
  if (most === "") break;
  console.log(JSON.stringify((await alive(before + Number(most))) - before));
}
