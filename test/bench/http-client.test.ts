import { expect, test } from "bun:test";
import { Connection } from "./http-client.ts";

const head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n";

/** Asks a server that answers with these bytes, however they are cut. @returns what was told of the answer, in turn */
async function told(answer: string, { cut = answer.length, closes = false } = {}): Promise<string[]> {
  const server = Bun.listen({
    hostname: "127.0.0.1",
    port: 0,
    socket: {
      open(socket) {
        socket.setNoDelay(true);
      },
      async data(socket) {
        for (let at = 0; at < answer.length; at += cut) {
          socket.write(answer.slice(at, at + cut));
          await Bun.sleep(0);
        }
        if (closes) socket.end();
      },
    },
  });
  const events: string[] = [];
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  const tell = (event: string) => {
    events.push(event);
    if (/^(end|fail|stray)/.test(event)) resolve();
  };
  const connection = await Connection.open(server.port, (fault) => tell(`stray: ${fault}`));
  connection.send(Buffer.from("GET / HTTP/1.1\r\n\r\n"), {
    head: (status) => tell(`head ${status}`),
    data: (bytes) => tell(`data ${bytes}`),
    end: () => tell(`end, ${connection.usable ? "kept" : "not kept"}`),
    fail: (reason) => tell(`fail: ${reason}`),
  });
  await ended;
  connection.close();
  server.stop(true);
  return events;
}

const whole = (events: readonly string[]) =>
  events
    .filter((event) => event.startsWith("data"))
    .map((event) => event.slice(5))
    .join("");

test("an answer with a length, cut anywhere", async () => {
  for (const cut of [1, 7, 1000]) {
    const events = await told(`${head}content-length: 5\r\n\r\nhello`, { cut });
    expect([events[0], whole(events), events.at(-1)]).toEqual(["head 200", "hello", "end, kept"]);
  }
});

test("an answer in chunks, cut anywhere", async () => {
  for (const cut of [1, 7, 1000]) {
    const events = await told(`${head}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n`, { cut });
    expect([events[0], whole(events), events.at(-1)]).toEqual(["head 200", "hello!", "end, kept"]);
  }
});

test("bytes after an answer's end are told", async () =>
  expect(await told(`${head}content-length: 5\r\n\r\nhello, world`)).toEqual([
    "head 200",
    "data hello",
    "end, kept",
    "stray: 7 bytes after an answer's end",
  ]));

test("a connection that closes says where in the answer it was", async () => {
  expect(await told("", { closes: true })).toEqual(["fail: the connection was closed, before an answer"]);
  expect((await told(`${head}content-length: 9\r\n\r\nhello`, { closes: true })).at(-1)).toBe(
    "fail: the connection was closed, within an answer",
  );
});

test("a connection that is to be closed is not used again", async () =>
  expect((await told(`${head}content-length: 0\r\nconnection: close\r\n\r\n`)).at(-1)).toBe("end, not kept"));

test("what is no HTTP is told", async () => {
  expect((await told(`${head}\r\n`)).at(-1)).toStartWith("fail: an answer without a length");
  expect((await told(`${head}transfer-encoding: chunked\r\n\r\nno\r\n`)).at(-1)).toBe("fail: no chunk size: no");
  expect((await told(`${head}transfer-encoding: chunked\r\n\r\n2\r\nhello\r\n`)).at(-1)).toStartWith(
    "fail: a chunk longer",
  );
});
