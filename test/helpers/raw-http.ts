/** One request on a socket of its own, byte for byte as a test writes it. */
import { connect } from "node:net";
import { connect as connectSecurely } from "node:tls";

export type RawAnswer = {
  readonly status: number;
  /** The answers that came before it: `100 Continue`. */
  readonly interim: readonly number[];
  readonly headers: Headers;
  /** As it came, chunk marks included. */
  readonly body: string;
};

/**
 * @param pieces written one after the other, each in a packet of its own
 * @returns the answer, once the server has closed the connection: ask it to
 */
export async function sendRaw(url: string, ...pieces: (string | Uint8Array)[]): Promise<RawAnswer> {
  const { protocol, hostname: host, port } = new URL(url);
  const received = await new Promise<Buffer>((resolve, reject) => {
    const parts: Buffer[] = [];
    const send = async () => {
      for (const piece of pieces) await new Promise((written) => socket.write(piece, written));
    };
    const to = { port: Number(port), host, noDelay: true };
    const socket =
      protocol === "https:" ? connectSecurely({ ...to, rejectUnauthorized: false }, send) : connect(to, send);
    socket.on("data", (part: Buffer) => parts.push(part));
    socket.on("error", reject);
    socket.on("close", () => resolve(Buffer.concat(parts)));
  });
  return parseAnswer(received.toString("utf8"));
}

function parseAnswer(text: string, interim: number[] = []): RawAnswer {
  const end = text.indexOf("\r\n\r\n");
  const [statusLine = "", ...lines] = text.slice(0, end).split("\r\n");
  const status = Number(/^HTTP\/1\.[01] (\d{3}) /.exec(statusLine)?.[1]);
  const rest = text.slice(end + 4);
  if (status >= 100 && status < 200) return parseAnswer(rest, [...interim, status]);
  const headers = new Headers(
    lines.map((line): [string, string] => {
      const colon = line.indexOf(":");
      return [line.slice(0, colon), line.slice(colon + 1).trim()];
    }),
  );
  return { status, interim, headers, body: rest };
}
