/** What the platform does by itself, as docs/errors.md tells: to be read again when its version moves. */
import { describe, expect, test } from "bun:test";
import { connect } from "node:net";
import { HeldStream } from "../helpers/held-stream.ts";
import { sendRaw } from "../helpers/raw-http.ts";
import { served } from "../helpers/served.ts";

let held: HeldStream;
const { troupe, upstream } = await served(
  () => held.response(),
  (url) => ({ providers: { openai: { baseUrl: url } } }),
);

const request = (start: string, ...lines: string[]) => [start, "Host: localhost", ...lines, "", ""].join("\r\n");
const post = "POST /v1/chat/completions HTTP/1.1";

/** All that came until the other side closed. @param closesAfter after this nothing more is sent, and the connection is closed to that side */
function received(url: string, text: string, closesAfter?: Promise<void>): Promise<string> {
  return new Promise((resolve, reject) => {
    let all = "";
    const socket = connect({ port: Number(new URL(url).port), host: "127.0.0.1", allowHalfOpen: true }, () => {
      socket.write(text);
      void closesAfter?.then(() => socket.end(), reject);
    });
    socket.on("data", (bytes) => {
      all += bytes.toString("latin1");
    });
    socket.on("end", () => socket.destroy());
    socket.on("error", reject);
    socket.on("close", () => resolve(all));
  });
}

const bare = (status: string) => `HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n`;
const [bad, tooLarge, noVersion] = [
  bare("400 Bad Request"),
  bare("431 Request Header Fields Too Large"),
  bare("505 HTTP Version Not Supported"),
];

test.each<[string, string, string]>([
  ["an unknown method", request("FOO /health HTTP/1.1"), ""],
  ["a method in small letters", request("get /health HTTP/1.1"), ""],
  ["OPTIONS *", request("OPTIONS * HTTP/1.1"), bad],
  ["a target without a slash", request("GET metrics HTTP/1.1"), bad],
  ["a method with a character that it can't have", request("G@T /health HTTP/1.1"), bad],
  ["a header's name with a space", request("GET /health HTTP/1.1", "a b: c"), bad],
  ["a header with a null", request("GET /health HTTP/1.1", "a: b\0c"), bad],
  ["a header over two lines", request("GET /health HTTP/1.1", "a: b", " c"), bad],
  ["no Host", "GET /health HTTP/1.1\r\n\r\n", bad],
  ["two lengths", request(post, "Content-Length: 2", "Content-Length: 3"), bad],
  ["a length beside chunks", request(post, "Content-Length: 2", "Transfer-Encoding: chunked"), bad],
  ["another transfer coding", request(post, "Transfer-Encoding: gzip"), bad],
  ["a large header", request("GET /health HTTP/1.1", `a: ${"b".repeat(17_000)}`), tooLarge],
  ["a long target", request(`GET /${"a".repeat(17_000)} HTTP/1.1`), tooLarge],
  ["many headers", request("GET /health HTTP/1.1", ...Array.from({ length: 210 }, (_, at) => `x-${at}: 1`)), tooLarge],
  ["another version", request("GET /health HTTP/1.2"), noVersion],
  ["a space in the target", request("GET /a b HTTP/1.1"), noVersion],
  ["lines without a carriage return", "GET /health HTTP/1.1\nHost: localhost\n\n", noVersion],
])("%s is answered by the platform, and the connection is closed", async (_, text, answer) => {
  expect(await received(troupe.url, text)).toBe(answer);
});

test("a chunk without a size is answered by the platform, and the connection is closed", async () => {
  const lines = [`Authorization: Bearer ${troupe.key}`, "Content-Type: application/json", "Transfer-Encoding: chunked"];
  expect(await received(troupe.url, `${request(post, ...lines)}zz\r\n`)).toBe(bad);
});

test.each([
  ["PROPFIND /v1/models HTTP/1.1", 405],
  ["TRACE /health HTTP/1.1", 405],
  ["CONNECT a.b:443 HTTP/1.1", 404],
  ["OPTIONS /v1/models HTTP/1.1", 405],
  ["PUT /nowhere HTTP/1.1", 404],
  ["GET /health/ HTTP/1.1", 404],
])("%s is answered by Troupe, with rate headers", async (start, status) => {
  const answer = await sendRaw(troupe.url, request(start, "Connection: close"));
  expect(answer.status).toBe(status);
  for (const name of ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset", "x-request-id"])
    expect([name, answer.headers.get(name)]).toEqual([name, expect.any(String)]);
  expect(JSON.parse(answer.body)).toMatchObject({ error: { type: "invalid_request_error" } });
});

describe("a client that closes its sending side", () => {
  const body = JSON.stringify({ model: "openai/x", messages: [{ role: "user", content: "hi" }] });
  const call = (...lines: string[]) =>
    request(
      "POST /gateway/v1/chat/completions HTTP/1.1",
      `Authorization: Bearer ${troupe.key}`,
      "Content-Type: application/json",
      `Content-Length: ${body.length}`,
      ...lines,
    ) + body;

  test("counts as one that left", async () => {
    held = new HeldStream();
    expect(await received(troupe.url, call(), Promise.resolve())).toBe("");
  });

  test("finds its answer by its service-request-id", async () => {
    held = new HeldStream();
    const before = upstream.requests.length;
    const isCalled = upstream.received(before + 1);
    expect(await received(troupe.url, call("service-request-id: half"), isCalled)).toBe("");
    held.fragment("all of it");
    held.finish();
    const retried = await troupe.fetch("/gateway/v1/chat/completions", {
      method: "POST",
      headers: { "content-type": "application/json", "service-request-id": "half" },
      body,
    });
    expect([retried.status, await retried.json()]).toMatchObject([
      200,
      { choices: [{ message: { content: "all of it" } }] },
    ]);
    expect(upstream.requests).toHaveLength(before + 1);
  });
});
