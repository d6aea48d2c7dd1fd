/** So many ports in turn for each process, so that two that run at once hardly ever choose the same one before either uses it. */
const perProcess = 64;
const first = 10_000 + (process.pid % 296) * perProcess;
let turn = Math.floor(Math.random() * perProcess);

/**
 * A port of 127.0.0.1 that is free, below those that systems give to connections and to servers that name none (from 32768 on), so
 * that none of these takes it before it is used. Should somebody else, then the start fails and says so.
 */
export function freePort(): number {
  for (let tries = 0; ; tries += 1) {
    turn = (turn + 1) % perProcess;
    const port = first + turn;
    try {
      Bun.listen({ hostname: "127.0.0.1", port, socket: { data() {} } }).stop(true);
      return port;
    } catch (error) {
      if (tries === perProcess) throw error;
    }
  }
}
