/**
 * Finds out why no connection to a Valkey or Redis server comes about. Of a wrong password, a certificate that is not trusted, a name that does
 * not exist and a closed port Bun's client says one and the same; so its greeting is sent here once more, on a socket of our own that has the reason.
 */
import { connect as connectPlain } from "node:net";
import { connect as connectSecurely } from "node:tls";
import type { Clock } from "../../lib/time/clock.ts";
import { setDeadline } from "../../lib/time/clock.ts";
import { tlsFailure } from "../tls-failure.ts";
import { meaningOf } from "./errors.ts";

/** True if the address asks for TLS. */
export const isSecure = (url: string): boolean => /^(rediss|valkeys):/i.test(url);

/** Words for a server that says nothing; one that speaks TLS alone does so too. */
export const wasEnded = "it ended the connection";

/** Most bytes of the server's answers, as its greeting is short. */
const maxReceived = 16_384;

/** @returns words for people, without anything secret; undefined where the greeting works now, or nothing was found out in time */
export function whyRefused(url: string, clock: Clock, deadlineMs: number): Promise<string | undefined> {
  const { hostname, port, pathname } = new URL(url);
  const address = { host: hostname.replace(/^\[(.*)\]$/, "$1"), port: Number(port || 6379) };
  const secure = isSecure(url);
  const hello = greeting(url);
  const { promise, resolve } = Promise.withResolvers<string | undefined>();
  const socket = secure ? connectSecurely({ ...address, rejectUnauthorized: true }) : connectPlain(address);
  let received = "";
  const cancel = setDeadline(clock, deadlineMs, () => resolve(undefined));
  socket.once(secure ? "secureConnect" : "connect", () => socket.write(hello));
  socket.on("data", (bytes) => {
    received += bytes.toString("latin1");
    const answer = answerIn(received, selected(pathname) !== undefined);
    if (answer !== undefined || received.length > maxReceived) resolve(answer?.refusal);
  });
  socket.on("error", (error: NodeJS.ErrnoException) => resolve(causeOf(error) ?? wasEnded));
  socket.on("close", () => resolve(wasEnded));
  return promise.finally(() => {
    cancel();
    socket.destroy();
  });
}

/** @returns undefined where the server ended it */
function causeOf({ code = "", message }: NodeJS.ErrnoException): string | undefined {
  const certificate = tlsFailure(code);
  if (certificate !== undefined) return `${certificate} (${code})`;
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") return "there is no host of that name now";
  if (code === "ECONNREFUSED") return "nothing listens on that port";
  if (code === "ECONNRESET" || code === "EPIPE") return undefined;
  return code === "" ? message.slice(0, 100) : code.slice(0, 100);
}

/** The number of the database that the address names. */
const selected = (pathname: string): string | undefined => /^\/(\d+)$/.exec(pathname)?.[1];

/** Greeting, as the client sends it. Source: https://valkey.io/commands/hello/ */
function greeting(url: string): string {
  const { username, password, pathname } = new URL(url);
  const hello = ["HELLO", "3"];
  if (username !== "" || password !== "")
    hello.push("AUTH", username === "" ? "default" : decodeURIComponent(username), decodeURIComponent(password));
  const database = selected(pathname);
  return [hello, ...(database === undefined ? [] : [["SELECT", database]])].map(command).join("");
}

const command = (words: readonly string[]): string =>
  `*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join("")}`;

/** @returns undefined while more is to come. Source: https://valkey.io/topics/protocol/ */
export function answerIn(received: string, isSelecting: boolean): { readonly refusal: string | undefined } | undefined {
  if (!/^[-%*+$]/.test(received)) return { refusal: "what answers there is no Valkey or Redis" };
  const error = /(?:^|\n)-([^\r\n]*)\r\n/.exec(received)?.[1];
  if (error !== undefined) return { refusal: meaningOf(error)?.words ?? `it said ${error.slice(0, 100)}` };
  const isGreeted = /^[%*]/.test(received) && (isSelecting ? received.endsWith("+OK\r\n") : received.endsWith("\r\n"));
  return isGreeted ? { refusal: undefined } : undefined;
}
