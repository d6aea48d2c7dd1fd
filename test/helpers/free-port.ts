/**
 * A port of 127.0.0.1 that is free, at random below those that systems give to connections and to servers that name none (from 32768 on), so
 * that none of these takes it before it is used. Should somebody else, then the start fails and says so.
 */
export function freePort(): number {
  for (let tries = 0; ; tries += 1) {
    const port = 10_000 + Math.floor(Math.random() * 19_000);
    try {
      Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } }).stop(true);
      return port;
    } catch (error) {
      if (tries === 100) throw error;
    }
  }
}
