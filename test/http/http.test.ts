/** Requests as no client library writes them, but as HTTP and JSON allow, and some that they do not. */
import { describe, expect, test } from "bun:test";
import { type RawAnswer, sendRaw } from "../helpers/raw-http.ts";
import { untilEnd } from "../helpers/served.ts";
import { Troupe } from "../helpers/troupe.ts";

const troupe = untilEnd(await Troupe.start());

const path = "/v1/chat/completions";
const body = '{"model":"troupe/tutor","messages":[{"role":"user","content":"hi"}]}';
const json = "Content-Type: application/json";
const size = (of: string | Uint8Array) => `Content-Length: ${Buffer.byteLength(of)}`;
const bearer = () => `Authorization: Bearer ${troupe.key}`;
const head = (start: string, ...lines: string[]) =>
  [`${start}`, "Host: localhost", "Connection: close", ...lines, "", ""].join("\r\n");
const send = (start: string, lines: string[], ...rest: (string | Uint8Array)[]) =>
  sendRaw(troupe.url, head(start, ...lines), ...rest);
/** A JSON body to the orchestrator. */
const post = (text: string | Uint8Array) => send(`POST ${path} HTTP/1.1`, [bearer(), json, size(text)], text);
/** The body with one more field. */
const also = (field: string) => `${body.slice(0, -1)},${field}}`;
const saying = (content: string) => `{"model":"builtin/echo","messages":[{"role":"user","content":${content}}]}`;

type Answered = { choices: { message: { content: string } }[]; error: { code: string; param: string } };
const read = (answer: RawAnswer) => JSON.parse(answer.body) as Answered;

describe("a request", () => {
  test.each<[string, () => Promise<RawAnswer>]>([
    ["in HTTP/1.0", () => send(`POST ${path} HTTP/1.0`, [bearer(), json, size(body)], body)],
    [
      "in HTTP/1.0 without a Host",
      () => sendRaw(troupe.url, `POST ${path} HTTP/1.0\r\n${bearer()}\r\n${json}\r\n${size(body)}\r\n\r\n`, body),
    ],
    [
      "in chunks with an extension and a trailer",
      () => {
        const [a, b] = [body.slice(0, 7), body.slice(7)];
        const chunks = `7;name=value\r\n${a}\r\n${b.length.toString(16).toUpperCase()}\r\n${b}\r\n0\r\nX-Sum: 1\r\n\r\n`;
        return send(`POST ${path} HTTP/1.1`, [bearer(), json, "Transfer-Encoding: chunked"], ...chunks);
      },
    ],
    ["byte for byte", () => sendRaw(troupe.url, ...head(`POST ${path} HTTP/1.1`, bearer(), json, size(body)), ...body)],
    ["with a query", () => send(`POST ${path}?api-version=1 HTTP/1.1`, [bearer(), json, size(body)], body)],
    ["with the whole URL", () => send(`POST http://troupe${path} HTTP/1.1`, [bearer(), json, size(body)], body)],
    ["without a content type", () => send(`POST ${path} HTTP/1.1`, [bearer(), size(body)], body)],
    ["with an empty content type", () => send(`POST ${path} HTTP/1.1`, [bearer(), "Content-Type:", size(body)], body)],
    ["with white space around it", () => post(` \r\n\t${body}\n\n`)],
    ["with a byte order mark", () => post(`\uFEFF${body}`)],
    ["with null for what is absent", () => post(also('"temperature":null,"stream":null,"stop":null,"tools":null'))],
    ["with a whole number written as a decimal", () => post(also('"max_tokens":7.0'))],
    ["at the ends of a range", () => post(also('"temperature":2,"top_p":0,"presence_penalty":-2.0e0'))],
    ["with a minus zero", () => post(also('"temperature":-0'))],
    ["with a number beyond all doubles in a field of nobody's", () => post(also('"custom":1e400'))],
    [
      "with fields named like parts of objects",
      () => post(also('"__proto__":{"model":"x"},"constructor":1,"toString":2')),
    ],
    ["with 60 levels of somebody's data", () => post(also(`"custom":${"[".repeat(60)}${"]".repeat(60)}`))],
  ])("is taken %s", async (_name, ask) => {
    const answer = await ask();
    expect(answer.status).toBe(200);
    expect(answer.headers.get("x-ratelimit-remaining")).toMatch(/^\d+$/);
    expect(answer.body).toContain('"object":"chat.completion"');
  });

  test.each([
    "application/json; charset=utf-8",
    'application/json;charset="UTF-8"',
    "APPLICATION/JSON",
    "application/vnd.acme.chat+json",
  ])("is taken as %s", async (type) => {
    expect((await send(`POST ${path} HTTP/1.1`, [bearer(), `Content-Type: ${type}`, size(body)], body)).status).toBe(
      200,
    );
  });

  test.each(["bearer KEY", "BEARER KEY", "Bearer    KEY", "  Bearer KEY  "])("is taken with %p", async (value) => {
    const authorization = `Authorization: ${value.replace("KEY", troupe.key)}`;
    expect((await send("GET /v1/models HTTP/1.1", [authorization])).status).toBe(200);
  });

  test.each(["x-api-key", "x-goog-api-key", "api-key"])("is taken with its key in %s", async (name) => {
    expect((await send("GET /v1/models HTTP/1.1", [`${name}: ${troupe.key}`])).status).toBe(200);
    expect((await send(`POST ${path} HTTP/1.1`, [`${name}: ${troupe.key}`, json, size(body)], body)).status).toBe(200);
    expect((await send("GET /v1/models HTTP/1.1", [`${name}: Bearer ${troupe.key}`])).status).toBe(401);
  });

  test.each(["KEY", "Basic KEY", "Bearer", "Bearer KEY x", "Bearer KEY, Bearer KEY", "Bearer  "])(
    "is not taken with %p",
    async (value) => {
      const authorization = `Authorization: ${value.replaceAll("KEY", troupe.key)}`;
      const answer = await send("GET /v1/models HTTP/1.1", [authorization]);
      expect(answer.status).toBe(401);
      expect(read(answer).error.code).toBe("invalid_api_key");
    },
  );

  test("is taken after 100 Continue, where the client waits for it", async () => {
    const answer = await send(`POST ${path} HTTP/1.1`, [bearer(), json, size(body), "Expect: 100-continue"], body);
    expect([answer.interim, answer.status]).toEqual([[100], 200]);
  });

  test("in HTTP/1.0 has its stream as the events alone, ended by the end of the connection", async () => {
    const text = also('"stream":true');
    const answer = await send(`POST ${path} HTTP/1.0`, [bearer(), json, size(text)], text);
    expect(answer.headers.get("transfer-encoding")).toBeNull();
    expect(answer.body).toStartWith('data: {"id":"chatcmpl-');
    expect(answer.body).toEndWith("data: [DONE]\n\n");
  });

  test("behind another on one connection is answered after it", async () => {
    const first = `GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n`;
    const answer = await sendRaw(troupe.url, first + head("GET /version HTTP/1.1"));
    expect(answer.body.indexOf("ok")).toBe(0);
    expect(answer.body).toContain('"api_version":"v1"');
  });
});

describe("a text arrives as it was sent", () => {
  test.each([
    ['""', ""],
    ['"\\u0000\\u001f\\b\\f"', "\u0000\u001f\b\f"],
    ['"😀👩\u200D🚀\\ud83c\\udfad"', "😀👩\u200D🚀🎭"],
    ['"\\ud83d and \\udc00"', "\ud83d and \udc00"],
    ['"\\u2028\\u2029</script>\\/"', "\u2028\u2029</script>/"],
    ['"data: [DONE]\\n\\ndata: x"', "data: [DONE]\n\ndata: x"],
  ])("%s", async (literal, text) => {
    const whole = await send(`POST /gateway${path} HTTP/1.1`, [bearer(), json, size(saying(literal))], saying(literal));
    expect(read(whole).choices[0]!.message.content).toBe(text);
    const streaming = `${saying(literal).slice(0, -1)},"stream":true}`;
    const stream = await (await troupe.post(`/gateway${path}`, streaming)).text();
    const events = stream.split("\n").filter((line) => line.startsWith("data: {"));
    const fragments = events.map((line) => {
      const chunk = JSON.parse(line.slice("data: ".length)) as { choices: { delta: { content?: string } }[] };
      return chunk.choices[0]?.delta.content;
    });
    expect(fragments.join("")).toBe(text);
  });
});

describe("a body that is refused", () => {
  test.each<[string, string, string]>([
    ["", "invalid_json", ""],
    [" \n", "invalid_json", ""],
    ["null", "invalid_json", ""],
    ["[]", "invalid_json", ""],
    ['"x"', "invalid_json", ""],
    ["{", "invalid_json", ""],
    ["{'a':1}", "invalid_json", ""],
    ['{"a":NaN}', "invalid_json", ""],
    ['{"a":1,}', "invalid_json", ""],
    ["// c\n{}", "invalid_json", ""],
    [`${body}${body}`, "invalid_json", ""],
    ["{}", "missing_field", "model"],
    ['{"model":"troupe/tutor"}', "missing_field", "messages"],
    ['{"model":5,"messages":[]}', "invalid_value", "model"],
    ['{"model":"","messages":[{"role":"user","content":"x"}]}', "invalid_value", "model"],
    ['{"model":"a/b","messages":[]}', "invalid_value", "messages"],
    ['{"model":"a/b","messages":{}}', "invalid_value", "messages"],
    ['{"model":"a/b","messages":[1]}', "invalid_value", "messages[0]"],
    ['{"model":"a/b","messages":[{}]}', "missing_field", "messages[0].role"],
    ['{"model":"a/b","messages":[{"role":"User","content":"x"}]}', "invalid_value", "messages[0].role"],
    ['{"model":"a/b","messages":[{"role":"user"}]}', "missing_field", "messages[0].content"],
    ['{"model":"a/b","messages":[{"role":"user","content":7}]}', "invalid_value", "messages[0].content"],
    ['{"model":"a/b","messages":[{"role":"tool","content":"x"}]}', "missing_field", "messages[0].tool_call_id"],
    [also('"temperature":2.01'), "invalid_value", "temperature"],
    [also('"temperature":-0.01'), "invalid_value", "temperature"],
    [also('"temperature":"1"'), "invalid_value", "temperature"],
    [also('"temperature":1e400'), "invalid_value", "temperature"],
    [also('"temperature":1,"temperature":3'), "invalid_value", "temperature"],
    [also('"max_tokens":0'), "invalid_value", "max_tokens"],
    [also('"max_tokens":1.5'), "invalid_value", "max_tokens"],
    [also('"stream":"true"'), "invalid_value", "stream"],
    [also('"stream":1'), "invalid_value", "stream"],
    [also('"n":0'), "invalid_value", "n"],
    [also(`"custom":${"[".repeat(100_000)}${"]".repeat(100_000)}`), "invalid_json", ""],
    [also(`"custom":${'{"a":'.repeat(100)}1${"}".repeat(100)}`), "invalid_json", ""],
  ])("names what is wrong: %.60s, %s %s", async (text, code, param) => {
    const answer = await post(text);
    expect(answer.status).toBe(400);
    expect(read(answer).error).toMatchObject({ type: "invalid_request_error", code, param });
  });

  test.each(["gzip", "br", "deflate"])("because it is in %s", async (encoding) => {
    const answer = await send(
      `POST ${path} HTTP/1.1`,
      [bearer(), json, size(body), `Content-Encoding: ${encoding}`],
      body,
    );
    expect(answer.status).toBe(415);
    expect(read(answer).error.code).toBe("unsupported_media_type");
  });

  test("because it announces more than it may have, before it comes", async () => {
    const answer = await send(`POST ${path} HTTP/1.1`, [bearer(), json, "Content-Length: 99999999999999"]);
    expect(answer.status).toBe(413);
    expect(answer.headers.get("x-ratelimit-limit")).not.toBeNull();
  });
});

describe("an id in the path", () => {
  test.each(["troupe/tutor", "troupe%2Ftutor", "troupe%2ftutor", "troupe/%74utor", "troupe/tutor?x=1"])(
    "%s is troupe/tutor",
    async (id) => {
      const answer = await send(`GET /v1/models/${id} HTTP/1.1`, [bearer()]);
      expect(answer.status).toBe(200);
      expect(JSON.parse(answer.body)).toMatchObject({ id: "troupe/tutor", object: "model" });
    },
  );

  test.each([
    "troupe",
    "troupe/",
    "troupe/tutor/",
    "/tutor",
    "troupe//tutor",
    "TROUPE/TUTOR",
    "troupe%252Ftutor",
    "%zz",
    "%00",
    "%ff",
  ])("%s is none", async (id) => {
    const answer = await send(`GET /v1/models/${id} HTTP/1.1`, [bearer()]);
    expect(answer.status).toBe(404);
    expect(read(answer).error).toMatchObject({ code: "model_not_found", param: "model" });
  });
});

describe("a method", () => {
  test.each(["/v1/models", "/v1/models/troupe/tutor", "/health", "/healthz", "/version", "/metrics"])(
    "HEAD %s has the headers of GET and no body",
    async (target) => {
      const [whole, bare] = await Promise.all([
        send(`GET ${target} HTTP/1.1`, [bearer()]),
        send(`HEAD ${target} HTTP/1.1`, [bearer()]),
      ]);
      expect([bare.status, bare.body]).toEqual([200, ""]);
      expect(bare.headers.get("content-type")).toBe(whole.headers.get("content-type"));
      expect(bare.headers.get("x-ratelimit-limit")).toBe(whole.headers.get("x-ratelimit-limit"));
    },
  );

  test.each(["OPTIONS", "TRACE", "PROPFIND", "PATCH"])("%s is none of ours", async (method) => {
    const answer = await send(`${method} /v1/models HTTP/1.1`, [bearer()]);
    expect(answer.status).toBe(405);
    expect(answer.headers.get("allow")).toBe("GET, HEAD");
    expect(read(answer).error.code).toBe("method_not_allowed");
  });
});

test.each([
  ["contradictory lengths", ["Content-Length: 5", `Content-Length: ${body.length}`]],
  ["a length beside chunks", ["Content-Length: 5", "Transfer-Encoding: chunked"]],
  ["a length that is no number", ["Content-Length: five"]],
  ["a negative length", ["Content-Length: -5"]],
])("%s: refused by the runtime, never run", async (_name, lines) => {
  const before = troupe.server.services.running;
  expect((await send(`POST ${path} HTTP/1.1`, [bearer(), json, ...lines], body)).status).toBe(400);
  expect(troupe.server.services.running).toBe(before);
});
