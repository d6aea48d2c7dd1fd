/** `troupe health`: whether the server that this configuration starts takes requests, for containers without other tools. */
import type { ListenerConfig } from "../../config/config.ts";
import { formatAddress } from "../../config/listeners.ts";
import { isObject, objectOf, parseJson } from "../../lib/json/json.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "../context.ts";
import { printJson } from "../print/print-json.ts";

const patienceMs = 3000;

/** The body of `/health`. */
type Health = {
  readonly status: string;
  readonly checks: Readonly<Record<string, { readonly status: string; readonly message?: string }>>;
};

/**
 * Writes the server's `/health` on stdout: `ok`, or `degraded` and each check that is not well; on stderr why it can't be reached.
 * @returns 0 while it takes calls, as the status of `/health` says
 */
export function checkHealth(context: Context, { json }: { readonly json?: boolean }): Promise<ExitCode> {
  return withConfig(context, async ({ listen }) => {
    const { health, status } = await probe(listen[0]!);
    if (json) printJson(context.io, health);
    else {
      const unwell = Object.entries(health.checks).filter(([, one]) => one.status !== "ok");
      const lines = unwell.map(
        ([name, one]) => `${name}: ${one.status}${one.message === undefined ? "" : `: ${one.message}`}\n`,
      );
      context.io.stdout.write(`${health.status}\n${lines.join("")}`);
    }
    return status === 200 ? 0 : 1;
  });
}

/** @throws CommandError where no server takes calls there */
async function probe({ address, tls }: ListenerConfig): Promise<{ health: Health; status: number }> {
  const at = formatAddress(address);
  if (address.kind === "tcp" && address.port === 0)
    throw new CommandError(
      `The configuration lets the server take any free port (${at}); name the one it took with --port.`,
    );
  const host = address.kind === "unix" ? "localhost" : `${reachable(address.host)}:${address.port}`;
  const ask = async (path: string) => {
    const answer = await fetch(`${tls === undefined ? "http" : "https"}://${host}${path}`, {
      ...(address.kind === "unix" && { unix: address.path }),
      // The certificate is made for another name than this one.
      tls: { rejectUnauthorized: false },
      redirect: "manual",
      signal: AbortSignal.timeout(patienceMs),
    });
    return { status: answer.status, text: await answer.text() };
  };
  const failing = (error: Error & { readonly code?: string }) => {
    throw new CommandError(unreachable(at, error));
  };
  const ready = await ask("/healthz").catch(failing);
  const problem = unwellness(at, ready.status, ready.text);
  if (problem !== undefined) throw new CommandError(problem);
  const { status, text } = await ask("/health").catch(failing);
  const health = parsed(text);
  if (health === undefined) throw new CommandError(noTroupe(at, status));
  return { health, status };
}

function parsed(text: string): Health | undefined {
  const value = objectOf(parseJson(text));
  return typeof value?.["status"] === "string" && isObject(value["checks"]) ? (value as Health) : undefined;
}

const noTroupe = (at: string, status: number) =>
  `What answers at ${at} is no Troupe: status ${status}. Is it another program's address?`;

function unwellness(at: string, status: number, text: string): string | undefined {
  if (status === 200 && text === "ok") return undefined;
  if (status === 503) return `The server at ${at} takes no new requests: it is stopping.`;
  return noTroupe(at, status);
}

function unreachable(at: string, { name, code, message }: Error & { readonly code?: string }): string {
  if (name === "TimeoutError") return `The server at ${at} did not answer within ${patienceMs / 1000} s.`;
  if (code === "ECONNREFUSED" || code === "ENOENT" || code === "FailedToOpenSocket")
    return `No server listens at ${at}. Does it run, and with this configuration?`;
  return `The server at ${at} can't be asked (${code ?? message}).`;
}

/** The host at which a server that listens everywhere is found. */
export function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  const inner = host === "::" ? "::1" : host;
  return inner.includes(":") ? `[${inner}]` : inner;
}
