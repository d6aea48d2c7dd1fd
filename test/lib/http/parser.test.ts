import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AnswerParser, type HeaderFields, HttpFault } from "../../../src/lib/http/parser.ts";
import { runs } from "../../helpers/long-form.ts";

const bytesOf = (text: string) => Buffer.from(text, "latin1");

/** All that one parser told, and how it ended. */
type Told = {
  status: number;
  headers: HeaderFields | undefined;
  body: string;
  ended: boolean;
  fault: string | undefined;
  lasts: boolean;
};

/**
 * @param cuts lengths of the packets, the last one is the rest
 * @param takesWhole whether a body that came with its head is taken as a part of the packet, where it is offered
 */
function parsed(wire: string, cuts: readonly number[] = [], closes = false, takesWhole = true): Told {
  const told: Told = { status: 0, headers: undefined, body: "", ended: false, fault: undefined, lasts: false };
  const onlyOpen = () => {
    if (told.ended || told.fault !== undefined) throw new Error("told something after the end");
  };
  const parser = new AnswerParser({
    head(status, headers) {
      onlyOpen();
      if (told.headers !== undefined) throw new Error("two heads");
      told.status = status;
      told.headers = headers;
    },
    whole(bytes, from, end) {
      onlyOpen();
      if (told.headers === undefined || told.body !== "" || end <= from) throw new Error("a whole body out of place");
      if (!takesWhole) return false;
      told.body = bytes.toString("latin1", from, end);
      told.ended = true;
      return true;
    },
    push(bytes) {
      onlyOpen();
      if (told.headers === undefined || bytes.byteLength === 0) throw new Error("data out of place");
      told.body += Buffer.from(bytes).toString("latin1");
    },
    end() {
      onlyOpen();
      if (told.headers === undefined) throw new Error("an end without a head");
      told.ended = true;
    },
  });
  try {
    let at = 0;
    for (const cut of [...cuts, wire.length]) {
      if (at < wire.length) parser.push(bytesOf(wire.slice(at, at + cut)));
      at += cut;
    }
    if (closes) parser.close();
  } catch (error) {
    if (!(error instanceof HttpFault)) throw error;
    told.fault = error.message;
  }
  told.lasts = parser.ended && parser.lasts;
  expect(parser.ended).toBe(told.ended);
  return told;
}

const oddCase = (text: string, seed: number) =>
  [...text].map((letter, at) => ((seed >> (at % 30)) & 1 ? letter.toUpperCase() : letter)).join("");

const eol = fc.constantFrom("\r\n", "\r\n", "\n");
const token = fc.stringMatching(/^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,12}$/);
const value = fc.stringMatching(/^[\x21-\x7e\x80-\xff]([\t\x20-\x7e\x80-\xff]{0,20}[\x21-\x7e\x80-\xff])?$/);
const body = fc.oneof(
  fc.constantFrom("", "x", "\r\n", "0\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", "x".repeat(5000)),
  fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
);
const blank = fc.constantFrom("", " ", "\t ");
const extras = fc.array(fc.tuple(fc.stringMatching(/^x-[a-z]{1,8}$/), value), { maxLength: 4 });

const chunksOf = (text: string) =>
  fc
    .tuple(
      fc.array(fc.integer({ min: 1, max: 60 }), { maxLength: 12 }),
      fc.array(
        fc.record({
          eol,
          pad: fc.constantFrom("", "0", "0000"),
          upper: fc.boolean(),
          extension: fc.constantFrom("", "", "", ";a", ' ;a="b c"', "; n=1;m", "\t", ";x\rx"),
        }),
        { minLength: 14, maxLength: 14 },
      ),
      fc.array(fc.tuple(token, value), { maxLength: 3 }),
    )
    .map(([sizes, forms, trailers]) => {
      let wire = "";
      let at = 0;
      for (const [number, size] of [...sizes, text.length].entries()) {
        const part = text.slice(at, at + size);
        if (part === "") break;
        const { eol: end, pad, upper, extension } = forms[number]!;
        const digits = part.length.toString(16);
        wire += `${pad}${upper ? digits.toUpperCase() : digits}${extension}${end}${part}${end}`;
        at += size;
      }
      const { eol: end, pad, extension } = forms[13]!;
      wire += `0${pad}${extension}${end}`;
      for (const [name, field] of trailers) wire += `${name}: ${field}${end}`;
      return wire + end;
    });

type Answer = {
  wire: string;
  status: number;
  extras: [string, string][];
  body: string;
  lasts: boolean;
  closes: boolean;
};

const framings = ["length", "same length twice", "chunked", "chunked and length", "close", "no body"] as const;

/** Any legal answer to a POST, and what is in it. */
const answer: fc.Arbitrary<Answer> = fc
  .record({
    framing: fc.constantFrom(...framings),
    minor: fc.constantFrom("1", "1", "1", "0"),
    status: fc.integer({ min: 200, max: 599 }),
    reason: fc.constantFrom(" OK", " ", "", " I'm a t\xe9apot"),
    body,
    extras,
    eol,
    blank,
    seed: fc.nat(),
    connection: fc.constantFrom(undefined, "close", "keep-alive", "Upgrade , Close", "x-close"),
    before: fc.constantFrom("", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\nlink: </a>\n\n"),
  })
  .chain((made) => {
    const isEmpty = made.framing === "no body";
    const status = isEmpty
      ? made.status % 2 === 0
        ? 204
        : 304
      : made.status === 204 || made.status === 304
        ? 200
        : made.status;
    const text = isEmpty ? "" : made.body;
    const isChunked = made.framing.startsWith("chunked");
    return (isChunked ? chunksOf(text) : fc.constant(text)).map((framed) => {
      const { minor, connection, eol: end } = made;
      const name = (text: string) => oddCase(text, made.seed);
      const line = (key: string, field: string) => `${name(key)}:${made.blank}${field}${made.blank}${end}`;
      const length = line("content-length", String(isEmpty ? 17 : text.length));
      let head = `HTTP/1.${minor} ${status}${made.reason}${end}`;
      for (const [key, field] of made.extras) head += line(key, field);
      if (connection !== undefined) head += line("connection", connection);
      if (made.framing !== "close" && made.framing !== "chunked") head += length;
      if (made.framing === "same length twice") head += length;
      if (isChunked) head += line("transfer-encoding", name("chunked"));
      const options = (connection ?? "").toLowerCase().split(/[ ,]+/);
      const wanted = minor === "1" ? !options.includes("close") : options.includes("keep-alive");
      const isUnclear =
        made.framing === "close" || made.framing === "chunked and length" || (isChunked && minor === "0");
      return {
        wire: `${made.before}${head}${end}${framed}`,
        status,
        extras: made.extras,
        body: text,
        lasts: wanted && !isUnclear,
        closes: made.framing === "close",
      };
    });
  });

const cuts = fc.oneof(
  fc.array(fc.integer({ min: 1, max: 30 }), { maxLength: 60 }),
  fc.array(fc.integer({ min: 1, max: 400 }), { maxLength: 10 }),
  fc.constant(new Array<number>(400).fill(1)),
);

/** Repeated fields are one, as a list. */
const joined = (fields: readonly (readonly [string, string])[]) => {
  const all = new Map<string, string>();
  for (const [name, field] of fields) all.set(name, all.has(name) ? `${all.get(name)}, ${field}` : field);
  return all;
};

describe("a legal answer", () => {
  test("says the same, wherever it is cut", () => {
    fc.assert(
      fc.property(answer, cuts, (made, cut) => {
        for (const told of [
          parsed(made.wire, [], made.closes),
          parsed(made.wire, [], made.closes, false),
          parsed(made.wire, cut, made.closes),
        ]) {
          expect(told.fault).toBeUndefined();
          expect(told).toMatchObject({ status: made.status, body: made.body, ended: true, lasts: made.lasts });
          for (const [name, field] of joined(made.extras)) expect(told.headers!.get(name)).toBe(field);
          expect(told.headers!.get("x-not-there")).toBeNull();
        }
      }),
      { numRuns: runs(1500) },
    );
  });

  test("ends where it ends: what follows in the same bytes is not its own, and ends the connection", () => {
    fc.assert(
      fc.property(answer, answer, cuts, (first, second, cut) => {
        fc.pre(!first.closes);
        const told = parsed(first.wire + second.wire, cut);
        expect(told).toMatchObject({ status: first.status, body: first.body, ended: true, lasts: false });
      }),
      { numRuns: runs(500) },
    );
  });

  test("that is cut off says so, and gives what came before", () => {
    fc.assert(
      fc.property(answer, fc.double({ min: 0, max: 1, noNaN: true }), cuts, (made, where, cut) => {
        fc.pre(!made.closes);
        const end = made.wire.length - (made.body === "" && made.wire.endsWith("\r\n") ? 2 : 1);
        const told = parsed(made.wire.slice(0, Math.floor(end * where)), cut, true);
        expect(made.body.startsWith(told.body)).toBe(true);
        // What is behind the last chunk's size is nothing that an answer could be without.
        expect(told).toMatchObject({
          ended: false,
          fault:
            Math.floor(end * where) === 0 ? "the connection was closed" : "the connection was closed within the answer",
        });
      }),
      { numRuns: runs(500) },
    );
  });

  test("is read as Bun's own client reads it", async () => {
    let wire = "";
    using server = Bun.listen({
      hostname: "127.0.0.1",
      port: 0,
      socket: {
        data(socket) {
          socket.write(bytesOf(wire));
          socket.end();
        },
      },
    });
    const plain = answer.filter(
      // Not what Bun takes for faulty, or reads otherwise: a bare line feed, both framings, anything behind a chunk's
      // size. And the Fetch standard wants no body in a 205.
      ({ wire: text, status }) =>
        status !== 205 && !/[^\r]\n|content-length.*transfer-encoding|\r\n[0-9a-f]+[\t ;]/is.test(text),
    );
    await fc.assert(
      fc.asyncProperty(plain, async (made) => {
        wire = made.wire;
        const response = await fetch(`http://127.0.0.1:${server.port}`, { keepalive: false, redirect: "manual" });
        const told = parsed(made.wire, [], true);
        expect(told.status).toBe(response.status);
        expect(told.body).toBe(Buffer.from(await response.arrayBuffer()).toString("latin1"));
        for (const [name] of made.extras) expect(told.headers!.get(name)).toBe(response.headers.get(name));
      }),
      { numRuns: runs(150) },
    );
  });
});

/** The same by plain patterns: what is no head, and a field's value. */
const plainly = {
  statusLine: /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [^\r\n]*)?\r?\n/,
  fields: /^(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0-\x08\n-\x1f\x7f]*\r?\n)*\r?\n$/,
  fault(text: string): string | undefined {
    const [line, , status] = this.statusLine.exec(text) ?? [];
    if (line === undefined) return "no status line";
    if (status === "101") return "the other side changed the protocol";
    if (Number(status) < 200 || this.fields.test(text.slice(line.length))) return undefined;
    return "a line of the head is no header field";
  },
  field(text: string, name: string): string | null {
    const pattern = new RegExp(`^${RegExp.escape(name)}:[ \\t]*(.*[^ \\t\\r\\n])?`, "gim");
    const values = [...text.matchAll(pattern)].map(([, value = ""]) => value);
    return values.length === 0 ? null : values.join(", ");
  },
};

const names = ["a", "x-a", "X-A", "x_a", "x~^", "content-type", "Content-Type", "x a", ""];
const oddText = fc.string({ unit: fc.constantFrom(..."\0\t\n\r :@A[a`{_\x7f\x80\xa0\xff"), maxLength: 6 });
const oddLine = fc
  .tuple(fc.constantFrom(...names), fc.constantFrom(":", ":", ":", " :", ""), oddText, fc.constantFrom("\r\n", "\n"))
  .map((parts) => parts.join(""));
const oddStatusLine = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom("HTTP/1.1 200 OK\r\n", "HTTP/1.0 404\n", "HTTP/1.1 103 Hints\r\n") },
  fc.tuple(fc.constantFrom("HTTP/1.1 200", "HTTP/1.1 101 ", "HTTP/1.2 200"), oddText).map((parts) => parts.join("")),
);

test("any head is taken or refused as its patterns say, and each field read as by them", () => {
  fc.assert(
    fc.property(oddStatusLine, fc.array(oddLine, { maxLength: 4 }), cuts, (line, lines, cut) => {
      const wire = `${line}${lines.join("")}\r\n`;
      const end = /\n\r?\n/.exec(wire);
      if (end === null) return;
      const text = wire.slice(0, end.index + end[0].length);
      const told = parsed(text, cut);
      expect(told.fault).toBe(plainly.fault(text));
      if (told.headers === undefined) return;
      const all = new Map(told.headers.entries());
      for (const name of names.map((name) => name.toLowerCase())) {
        expect(told.headers.get(name)).toBe(plainly.field(text, name));
        expect(all.get(name) ?? null).toBe(plainly.field(text, name));
      }
    }),
    { numRuns: runs(3000) },
  );
});

const head = "HTTP/1.1 200 OK\r\n";
const chunked = `${head}transfer-encoding: chunked\r\n\r\n`;

describe("what is no answer", () => {
  test.each([
    ["another protocol", "SSH-2.0-OpenSSH_9\r\n\r\n", "no status line"],
    ["HTTP/0.9", "<html>\n\n", "no status line"],
    ["HTTP/2", "HTTP/2 200 OK\r\n\r\n", "no status line"],
    ["a status of two digits", "HTTP/1.1 20 OK\r\n\r\n", "no status line"],
    ["a status of four digits", "HTTP/1.1 2000\r\n\r\n", "no status line"],
    ["a status above all classes", "HTTP/1.1 600 Odd\r\n\r\n", "no status line"],
    ["a status below all classes", "HTTP/1.1 099 Odd\r\n\r\n", "no status line"],
    ["an empty status line", `\r\n${head}\r\n`, "no status line"],
    [
      "another protocol from here on",
      "HTTP/1.1 101 Switching Protocols\r\n\r\n",
      "the other side changed the protocol",
    ],
    ["a field without a colon", `${head}nothing\r\n\r\n`, "a line of the head is no header field"],
    ["a field without a name", `${head}: x\r\n\r\n`, "a line of the head is no header field"],
    ["a space before the colon", `${head}content-length : 0\r\n\r\n`, "a line of the head is no header field"],
    ["a continued line", `${head}x-a: b\r\n c: d\r\n\r\n`, "a line of the head is no header field"],
    ["a zero byte", `${head}x-a: b\0c\r\n\r\n`, "a line of the head is no header field"],
    ["a bare carriage return", `${head}x-a: b\rx-c: d\r\n\r\n`, "a line of the head is no header field"],
    ["a length below zero", `${head}content-length: -1\r\n\r\n`, "no content length: -1"],
    ["a length with a sign", `${head}content-length: +1\r\n\r\n`, "no content length: +1"],
    ["no length at all", `${head}content-length:\r\n\r\n`, "no content length: "],
    ["a length in hexadecimal digits", `${head}content-length: 0x5\r\n\r\n`, "no content length: 0x5"],
    ["a huge length", `${head}content-length: ${"9".repeat(20)}\r\n\r\n`, `no content length: ${"9".repeat(20)}`],
    ["lengths that differ", `${head}content-length: 5\r\ncontent-length: 6\r\n\r\nhello`, "no content length: 5, 6"],
    ["a list of lengths that differ", `${head}content-length: 5,5,6\r\n\r\nhello`, "no content length: 5,5,6"],
    [
      "a compressing transfer",
      `${head}transfer-encoding: gzip, chunked\r\n\r\n`,
      "an unsupported transfer coding: gzip, chunked",
    ],
    [
      "chunks in chunks",
      `${head}transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n`,
      "an unsupported transfer coding: chunked, chunked",
    ],
    ["an endless head", `${head}${"x-a: b\r\n".repeat(9000)}`, "the answer's head is too large"],
    ["an endless field", `${head}x-a: ${"b".repeat(66_000)}`, "the answer's head is too large"],
  ])("%s", (_, wire, fault) => {
    for (const cut of [[], [1, 2, 3], new Array<number>(100).fill(7)]) {
      expect(parsed(wire, cut)).toMatchObject({ status: 0, body: "", ended: false, fault });
    }
  });

  test.each([
    ["a size below zero", "-1\r\n", "no chunk size"],
    ["a size with a prefix", "0x5\r\nhello", "no chunk size"],
    ["no size", "\r\n", "no chunk size"],
    ["no size but an extension", ";a=b\r\n", "no chunk size"],
    ["a size that is none", "hello\r\n", "no chunk size"],
    ["two sizes", "5 5\r\nhello", "no chunk size"],
    ["a size beyond all numbers", `${"f".repeat(14)}\r\n`, "no chunk size"],
    ["a size beyond all floats", `${"f".repeat(600)}\r\n`, "no chunk size"],
    ["more than the size said", "3\r\nhello\r\n", "a chunk is longer than it said"],
    ["a chunk without its line's end", "5\r\nhello5\r\nhello\r\n", "a chunk is longer than it said"],
    ["an endless extension", `5;${"x".repeat(5000)}`, "a line between chunks is too long"],
    ["an endless line of zeros", "0".repeat(5000), "a line between chunks is too long"],
    ["an endless line behind a chunk", `1\r\nx${"y".repeat(5000)}`, "a line between chunks is too long"],
    ["an endless trailer", `0\r\nx: ${"y".repeat(5000)}`, "a line between chunks is too long"],
    ["endless trailers", `0\r\n${"x: y\r\n".repeat(20_000)}`, "the answer's trailers are too large"],
  ])("%s, and what came before it is given", (_, wire, fault) => {
    const before = `${chunked}4\r\nmore\r\n2\r\n, \r\n`;
    const told = parsed(before + wire);
    expect(told).toMatchObject({ status: 200, ended: false, fault });
    expect(told.body).toStartWith("more, ");
    const inPieces = parsed(before + wire, new Array<number>(200).fill(3));
    expect({ ...inPieces, headers: undefined }).toEqual({ ...told, headers: undefined });
  });

  test.each([
    ["before anything", "", "the connection was closed", ""],
    ["within the status line", "HTTP/1.1 2", "the connection was closed within the answer", ""],
    ["within the head", `${head}content-le`, "the connection was closed within the answer", ""],
    ["behind an early hint", "HTTP/1.1 103 Early Hints\r\n\r\n", "the connection was closed within the answer", ""],
    ["within a body", `${head}content-length: 9\r\n\r\nhalf`, "the connection was closed within the answer", "half"],
    ["within a chunk's size", `${chunked}1\r\nx\r\n1`, "the connection was closed within the answer", "x"],
    ["within a chunk", `${chunked}9\r\nhalf`, "the connection was closed within the answer", "half"],
    ["behind a chunk", `${chunked}4\r\nhalf`, "the connection was closed within the answer", "half"],
    ["before the last chunk", `${chunked}4\r\nhalf\r\n`, "the connection was closed within the answer", "half"],
    ["within the trailers", `${chunked}0\r\nx: y\r\n`, "the connection was closed within the answer", ""],
  ])("one that is closed %s", (_, wire, fault, text) => {
    expect(parsed(wire, [], true)).toMatchObject({ body: text, ended: false, fault });
  });

  test("one whose body ends with the connection is whole once that is closed", () => {
    expect(parsed(`${head}\r\nall of it`, [3, 20], true)).toMatchObject({
      body: "all of it",
      ended: true,
      lasts: false,
    });
    expect(parsed(`${head}\r\nall of it`)).toMatchObject({ body: "all of it", ended: false });
  });
});

test("a head or a line that comes byte by byte costs no more than its bound", () => {
  const drip = new Array<number>(70_000).fill(1);
  expect(parsed(`${head}x-a: ${"b".repeat(70_000)}`, drip).fault).toBe("the answer's head is too large");
});

test("a receiver that has enough hears nothing more", () => {
  const wires = [`${head}content-length: 4\r\n\r\nmore`, `${chunked}4\r\nmore\r\n0\r\n\r\n`, `${head}\r\nmore`];
  for (const wire of wires) {
    for (const enough of ["head", "data"]) {
      const told: string[] = [];
      const tell = (what: string) => {
        told.push(what);
        if (what === enough) parser.stop();
      };
      const parser = new AnswerParser({ head: () => tell("head"), push: () => tell("data"), end: () => tell("end") });
      parser.push(bytesOf(wire));
      parser.push(bytesOf("and more"));
      parser.close();
      expect(told).toEqual(enough === "head" ? ["head"] : ["head", "data"]);
      expect(parser.ended).toBe(false);
    }
  }
});

test.each([
  ["timeout=5, max=100", 5],
  ["max=100,timeout=72", 72],
  ["Timeout=0", 0],
  ["max=5", undefined],
  ["x-timeout=5", undefined],
  ["timeout=99999999999", 999999999],
])("what the other side says of idle connections is known: %s", (field, seconds) => {
  const parser = new AnswerParser({ head() {}, push() {}, end() {} });
  parser.push(bytesOf(`${head}keep-alive: ${field}\r\ncontent-length: 0\r\n\r\n`));
  expect(parser.idleSeconds).toBe(seconds);
});
