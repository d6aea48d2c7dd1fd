/** Calls over TLS, from a process of its own: which authorities one trusts is decided at its start. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { networkInterfaces } from "node:os";
import { createServer, type Server, type TLSSocket } from "node:tls";

const fixture = (name: string) => `test/fixtures/tls/upstream-${name}.pem`;
const MiB = 1024 * 1024;

/** One call, and what came of it. */
type Step = { url: string; upload?: number; pauses?: boolean; askMeanwhile?: string };
type Outcome = {
  status?: number;
  body?: string;
  size?: number;
  hash?: string;
  heldAt?: number;
  meanwhile?: string;
  /** Whether the body's end is certain without a look at it. */
  isProven?: boolean;
  error?: string;
};

const caller = `
  const { HttpClient } = await import(process.cwd() + "/src/lib/http/client.ts");
  const { systemClock } = await import(process.cwd() + "/src/lib/time/clock.ts");
  const client = new HttpClient(systemClock);
  const call = ({ url, upload = 2, pauses, askMeanwhile }) => new Promise((resolve) => {
    const outcome = {};
    const hash = new Bun.CryptoHasher("sha1");
    let size = 0;
    let text = "";
    const body = new Uint8Array(upload).fill(7);
    const transfer = client.send({ method: "POST", url, headers: {}, body }, {
      connected() {},
      head(status) {
        outcome.status = status;
        if (!pauses) return;
        transfer.pause();
        setTimeout(async () => {
          outcome.heldAt = size;
          if (askMeanwhile) outcome.meanwhile = (await call({ url: askMeanwhile })).body;
          transfer.resume();
        }, 100);
      },
      push(bytes) {
        size += bytes.byteLength;
        hash.update(bytes);
        if (size < 1000) text += Buffer.from(bytes).toString();
      },
      end: (isProven) => resolve({ ...outcome, isProven, size, body: text, hash: hash.digest("hex") }),
      fail: (error) => resolve({ ...outcome, size, error: error.code ?? error.message }),
    }, 3000);
  });
  const outcomes = [];
  for (const step of JSON.parse(process.argv[1])) outcomes.push(await call(step));
  client.close();
  console.log(JSON.stringify(outcomes));
`;

/** @param authority a file of certificates that are trusted besides the usual ones */
async function calling(steps: readonly Step[], authority: string | undefined): Promise<Outcome[]> {
  const { NODE_EXTRA_CA_CERTS: _, ...env } = process.env;
  const child = Bun.spawn([process.execPath, "-e", caller, JSON.stringify(steps)], {
    env: { ...env, ...(authority !== undefined && { NODE_EXTRA_CA_CERTS: authority }) },
    stderr: "inherit",
  });
  return JSON.parse(await child.stdout.text()) as Outcome[];
}

const ok = (body: string) => `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

/** Answers by path. */
class SecureServer {
  connections = 0;
  /** All that came, decrypted. */
  heard = 0;
  readonly protocols = new Set<unknown>();
  /** As which each connection was told to answer. */
  readonly names: unknown[] = [];
  #server: Server;
  #host: string;
  #sent = 0;

  private constructor(server: Server, host: string) {
    this.#server = server;
    this.#host = host;
  }

  static async start(certificate: string, host = "127.0.0.1", protocols = ["h2", "http/1.1"]): Promise<SecureServer> {
    const pem = readFileSync(fixture(certificate));
    const server = createServer({ cert: pem, key: pem, ALPNProtocols: protocols });
    const secure = new SecureServer(server, host);
    server.on("secureConnection", (socket) => secure.#serve(socket));
    server.on("tlsClientError", () => {});
    await new Promise<void>((listening) => server.listen(0, host, listening));
    return secure;
  }

  url(path = "", host = this.#host): string {
    const { port } = this.#server.address() as { port: number };
    return `https://${host.includes(":") ? `[${host}]` : host}:${port}/${path}`;
  }

  stop(): void {
    this.#server.close();
  }

  #serve(socket: TLSSocket): void {
    this.connections += 1;
    this.protocols.add(socket.alpnProtocol);
    this.names.push((socket as TLSSocket & { servername: unknown }).servername);
    let head = "";
    let left = 0;
    let hash = new Bun.CryptoHasher("sha1");
    socket.on("error", () => {});
    socket.on("data", (bytes: Buffer) => {
      this.heard += bytes.length;
      if (left === 0) {
        head += bytes.toString("latin1");
        const end = head.indexOf("\r\n\r\n");
        if (end < 0) return;
        left = Number(/content-length: (\d+)/.exec(head)![1]);
        hash = new Bun.CryptoHasher("sha1");
        bytes = Buffer.from(head.slice(end + 4), "latin1");
      }
      hash.update(bytes);
      left -= bytes.length;
      if (left > 0) return;
      const path = head.split(" ")[1]!.slice(1);
      head = "";
      this.#answer(path, socket, hash.digest("hex"));
    });
  }

  #answer(path: string, socket: TLSSocket, hash: string): void {
    const [what, size] = path.split("-");
    if (what === "hash") socket.write(ok(hash));
    else if (what === "sent") socket.write(ok(String(this.#sent)));
    else if (what === "stream") this.#stream(socket, Number(size));
    else if (what === "cut") socket.end("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf");
    else if (what === "torn") {
      socket.write("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf", () => socket.destroy());
    } else if (what === "closing") socket.end("HTTP/1.1 200 OK\r\n\r\nall of it");
    else socket.write(ok("yes"));
  }

  #stream(socket: TLSSocket, size: number): void {
    socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${size}\r\n\r\n`);
    const piece = Buffer.alloc(256 * 1024, "x");
    this.#sent = 0;
    const write = () => {
      while (this.#sent < size) {
        const part = piece.subarray(0, Math.min(piece.length, size - this.#sent));
        this.#sent += part.length;
        if (!socket.write(part)) {
          socket.once("drain", write);
          return;
        }
      }
    };
    write();
  }
}

const hashOf = (bytes: Uint8Array) => new Bun.CryptoHasher("sha1").update(bytes).digest("hex");
const servers: SecureServer[] = [];
const start = async (...how: Parameters<typeof SecureServer.start>) => {
  const server = await SecureServer.start(...how);
  servers.push(server);
  return server;
};
let local: SecureServer;
beforeAll(async () => {
  local = await start("local");
});
afterAll(() => {
  for (const server of servers) server.stop();
});

describe("who is there", () => {
  test("is asked for HTTP/1.1 alone, by name or address, and called again on the same connection", async () => {
    const hasIpv6 = Object.values(networkInterfaces()).some((all) => all?.some(({ address }) => address === "::1"));
    const six = await start("local", hasIpv6 ? "::1" : "127.0.0.1");
    const urls = [
      local.url("a"),
      local.url("b"),
      local.url("c", "localhost"),
      local.url("d", "localhost"),
      six.url("e"),
    ];
    const outcomes = await calling(
      urls.map((url) => ({ url })),
      fixture("ca"),
    );
    expect(outcomes.map(({ body }) => body)).toEqual(["yes", "yes", "yes", "yes", "yes"]);
    expect(outcomes.every(({ isProven }) => isProven)).toBe(true);
    expect([local.connections, six.connections]).toEqual([2, 1]);
    expect([...local.protocols]).toEqual(["http/1.1"]);
    // A server is told a name, never an address.
    expect([local.names, six.names]).toEqual([[false, "localhost"], [false]]);
  });

  test("must be known, be who it says, and be it now: else it hears nothing", async () => {
    const [elsewhere, expired, newer] = await Promise.all([
      start("elsewhere"),
      start("expired"),
      start("local", "127.0.0.1", ["h2"]),
    ]);
    const strangers = [elsewhere.url(), elsewhere.url("", "localhost"), expired.url(), newer.url()];
    const outcomes = await calling(
      strangers.map((url) => ({ url, upload: 100_000 })),
      fixture("ca"),
    );
    expect(outcomes.map(({ error }) => error)).toEqual([
      "ERR_TLS_CERT_ALTNAME_INVALID",
      "ERR_TLS_CERT_ALTNAME_INVALID",
      "CERT_HAS_EXPIRED",
      expect.any(String),
    ]);
    const unknown = await start("local");
    const url = unknown.url();
    expect(await calling([{ url }, { url }], undefined)).toEqual(
      new Array(2).fill({ size: 0, error: "UNABLE_TO_VERIFY_LEAF_SIGNATURE" }),
    );
    for (const server of [elsewhere, expired, newer, unknown]) expect(server.heard).toBe(0);
  });
});

test.each(["subject", "address"])(
  "a name that stands in a certificate's subject alone is nobody's, whatever else it holds: upstream-%s.pem",
  async (certificate) => {
    const server = await start(certificate);
    const outcomes = await calling([{ url: server.url("", "localhost") }, { url: server.url() }], fixture(certificate));
    const refused = expect.objectContaining({ error: "ERR_TLS_CERT_ALTNAME_INVALID" });
    expect(outcomes).toEqual([refused, certificate === "address" ? expect.objectContaining({ body: "yes" }) : refused]);
    expect(server.heard > 0).toBe(certificate === "address");
  },
);

test("a large request and a large answer arrive whole, the answer when it is wanted", async () => {
  const [up, down] = await calling(
    [
      { url: local.url("hash"), upload: 30 * MiB },
      { url: local.url(`stream-${32 * MiB}`), pauses: true, askMeanwhile: local.url("sent") },
    ],
    fixture("ca"),
  );
  expect(up).toMatchObject({ status: 200, body: hashOf(new Uint8Array(30 * MiB).fill(7)) });
  expect(down).toMatchObject({ size: 32 * MiB, hash: hashOf(Buffer.alloc(32 * MiB, "x")) });
  expect(down!.heldAt).toBeLessThan(2 * MiB);
  expect(Number(down!.meanwhile)).toBeLessThan(24 * MiB);
});

test("an answer that is cut off is told, whether its end was announced or not, read at once or later", async () => {
  const steps = ["cut", "torn", "closing"].flatMap((path) => [
    { url: local.url(path) },
    { url: local.url(path), pauses: true },
  ]);
  const broken = { status: 200, size: 4, error: "the connection was closed within the answer" };
  // Anybody on the way could have ended the connection.
  const whole = { status: 200, size: 9, body: "all of it", isProven: false };
  const outcomes = await calling(steps, fixture("ca"));
  expect(outcomes).toEqual([broken, broken, broken, broken, whole, whole].map((one) => expect.objectContaining(one)));
});
