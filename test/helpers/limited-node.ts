/**
 * A node that does nothing but count: a process of its own, for tests that kill it. Hits one caller until it is told to stop, and
 * writes the times before and after each admission as a line, and `lost` once it was without the server. Arguments: the server's
 * address, the window's length, caller, limit, milliseconds between two hits.
 */
import { systemClock } from "../../src/lib/time/clock.ts";
import { StoredLimiter } from "../../src/limits/stored.ts";
import { silentLogger } from "./silent-logger.ts";
import { openTestWindows, untilAnswered } from "./stored-windows.ts";

if (import.meta.main) {
  const [url, windowMs, caller, limit, everyMs] = process.argv.slice(2);
  const windows = await untilAnswered(() => openTestWindows(url!, Number(windowMs)));
  const limiter = new StoredLimiter({
    windows,
    clock: systemClock,
    log: silentLogger,
    place: "test",
    group: () => ({ nodes: 3, rank: 0 }),
    windowMs: Number(windowMs),
  });
  process.stdout.write("ready\n");
  let isLost = false;
  for (;;) {
    // The clock that all processes of the machine share.
    const asked = performance.timeOrigin + performance.now();
    const decision = limiter.hit(caller!, Number(limit));
    if (!isLost && limiter.counts.lost > 0) {
      isLost = true;
      process.stdout.write("lost\n");
    }
    const { allowed } = decision instanceof Promise ? await decision : decision;
    if (allowed) process.stdout.write(`${asked} ${performance.timeOrigin + performance.now()}\n`);
    await Bun.sleep(Number(everyMs));
  }
}
