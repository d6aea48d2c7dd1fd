/** Many calls at once to a server that does everything wrong that a server can, and callers who change their minds. */
import { expect, test } from "bun:test";
import type { Socket } from "bun";
import { HttpClient } from "../../../src/lib/http/client.ts";
import type { Flow } from "../../../src/lib/streams/flow.ts";
import { systemClock } from "../../../src/lib/time/clock.ts";
import { Random } from "../../helpers/random.ts";

const chosen = Random.fromEnvironment("SOAK_SEED");
const calls = 4000;
const atOnce = 48;

const answerTo = (id: string, size: number) => `${id};`.repeat(Math.ceil(size / (id.length + 1))).slice(0, size);

/** What is done after that many bytes of an answer, instead of the rest of it. */
type Fault = "none" | "reset" | "end" | "nonsense";

test(`every call gets its own answer, all of it, or an error, or nothing once it is cancelled (SOAK_SEED=${chosen.seed})`, async () => {
  const below = (end: number) => chosen.below(end);
  const pick = <T>(items: readonly T[]) => chosen.pick(items);
  const chance = (part: number) => chosen.chance(part * 100);
  const open = new Set<Socket<{ heard: string }>>();
  let allClosed = () => {};
  const served = new Map<string, number>();

  const wireOf = (id: string, size: number): string => {
    const body = answerTo(id, size);
    let head = chance(0.1) ? "HTTP/1.1 103 Early Hints\r\n\r\n" : "";
    head += `HTTP/1.1 200 OK\r\nx-id: ${id}\r\n`;
    if (chance(0.1)) head += "connection: close\r\n";
    const framing = below(3);
    if (framing === 0) return `${head}content-length: ${size}\r\n\r\n${body}`;
    if (framing === 1 && chance(0.3)) return `${head}\r\n${body}<close>`;
    let wire = `${head}transfer-encoding: chunked\r\n\r\n`;
    for (let at = 0; at < size; ) {
      const part = body.slice(at, at + 1 + below(chance(0.2) ? 20_000 : 200));
      wire += `${part.length.toString(16)}\r\n${part}\r\n`;
      at += part.length;
    }
    return `${wire}0\r\n\r\n`;
  };

  const serve = async (socket: Socket<{ heard: string }>, id: string, size: number) => {
    served.set(id, (served.get(id) ?? 0) + 1);
    let wire = wireOf(id, size);
    const closes = wire.endsWith("<close>");
    if (closes) wire = wire.slice(0, -7);
    const fault = chance(0.7) ? "none" : pick<Fault>(closes ? ["none", "reset"] : ["reset", "end", "nonsense"]);
    const until = fault === "none" ? wire.length : fault === "nonsense" ? 0 : below(wire.length);
    for (let at = 0; at < until; ) {
      const size = Math.min(until - at, chance(0.5) ? wire.length : 1 + below(5000));
      const taken = socket.write(wire.slice(at, at + size));
      if (taken < 0) return;
      at += taken;
      if (at < until && (taken === 0 || chance(0.3))) await new Promise(setImmediate);
    }
    if (fault === "reset") socket.terminate();
    else if (fault === "end" || closes) socket.end();
    else if (fault === "nonsense") socket.write("\0HTTP/1.1 200 OK\r\nx-id: nobody\r\ncontent-length: 6\r\n\r\nnobody");
    // An answer that nobody asked for, in the same packet, later, or an end while the connection idles.
    else if (chance(0.05)) socket.write(`HTTP/1.1 200 OK\r\nx-id: nobody\r\ncontent-length: 6\r\n\r\nnobody`);
    else if (chance(0.1)) setImmediate(() => (chance(0.5) ? socket.end() : socket.terminate()));
  };

  using server = Bun.listen<{ heard: string }>({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.data = { heard: "" };
        open.add(socket);
      },
      close(socket) {
        open.delete(socket);
        if (open.size === 0) allClosed();
      },
      data(socket, bytes) {
        socket.data.heard += bytes.toString("latin1");
        const [, length, id, size] = /content-length: (\d+)\r\n\r\n(\d+) (\d+) /.exec(socket.data.heard) ?? [];
        if (id === undefined) return;
        const { heard } = socket.data;
        if (heard.length < heard.indexOf("\r\n\r\n") + 4 + Number(length)) return;
        socket.data.heard = "";
        void serve(socket, id, Number(size));
      },
    },
  });

  const client = new HttpClient(systemClock);
  const ends = { whole: 0, failed: 0, cancelled: 0 };
  const faults: string[] = [];

  const call = (number: number) =>
    new Promise<void>((resolve) => {
      const id = String(number);
      const size = chance(0.1) ? below(400_000) : below(2000);
      const expected = answerTo(id, size);
      const leavesAt = chance(0.25) ? pick(["at once", "connected", "head", "data", "end", "soon"]) : "never";
      const pauses = chance(0.3);
      let over: keyof typeof ends | undefined;
      let got = 0;
      let heads = 0;
      const finish = (how: keyof typeof ends) => {
        over = how;
        ends[how] += 1;
        // What is told later still is told to nobody.
        setImmediate(resolve);
      };
      const tell = (what: string): boolean => {
        if (over !== undefined) faults.push(`${id}: ${what} after it was ${over}`);
        if (leavesAt !== what) return false;
        transfer.cancel();
        if (what !== "end") finish("cancelled");
        return what !== "end";
      };
      const filler = chance(0.05) ? "x".repeat(below(3_000_000)) : "";
      const transfer: Flow = client.send(
        { method: "POST", url: `http://127.0.0.1:${server.port}/`, headers: {}, body: [`${id} ${size} `, filler] },
        {
          connected: () => void tell("connected"),
          head(status, headers) {
            heads += 1;
            if (status !== 200 || headers.get("x-id") !== id || heads > 1) faults.push(`${id}: another head`);
            if (tell("head") || !pauses) return;
            transfer.pause();
            setTimeout(() => transfer.resume(), below(4));
          },
          push(bytes) {
            const text = Buffer.from(bytes).toString("latin1");
            if (text !== expected.slice(got, got + text.length)) faults.push(`${id}: other bytes at ${got}`);
            got += text.length;
            if (tell("data") || !pauses || chance(0.7)) return;
            transfer.pause();
            if (chance(0.5)) transfer.resume();
            else setTimeout(() => transfer.resume(), below(4));
          },
          end() {
            if (tell("end")) return;
            if (got !== size) faults.push(`${id}: ended after ${got} of ${size}`);
            finish("whole");
          },
          fail() {
            tell("fail");
            finish("failed");
          },
        },
        5000,
      );
      if (leavesAt === "at once") {
        transfer.cancel();
        finish("cancelled");
      } else if (leavesAt === "soon") {
        setTimeout(() => {
          transfer.cancel();
          if (over === undefined) finish("cancelled");
        }, below(3));
      }
      // Whoever changes his mind late must not meet another call.
      if (chance(0.2))
        setTimeout(() => over !== undefined && pick([() => transfer.cancel(), () => transfer.pause()])(), 5);
    });

  let next = 0;
  const worker = async () => {
    while (next < calls) {
      next += 1;
      await call(next);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  client.close();
  if (open.size > 0) await new Promise<void>((resolve) => (allClosed = resolve));

  expect(faults).toEqual([]);
  expect(ends.whole + ends.failed + ends.cancelled).toBe(calls);
  for (const count of Object.values(ends)) expect(count).toBeGreaterThan(calls / 20);
  for (const times of served.values()) expect(times).toBe(1);
});
