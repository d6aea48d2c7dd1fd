/** `troupe health`: whether the server that this configuration starts takes requests, for containers without other tools. */
import type { ListenerConfig } from "../config/config.ts";
import { formatAddress } from "../config/listeners.ts";
import { CommandError, type Context, type ExitCode, withConfig } from "./context.ts";

const patienceMs = 3000;

/** `ok` on stdout, or on stderr what is wrong, and where. @returns 0 when it answers ok */
export function checkHealth(context: Context): Promise<ExitCode> {
  return withConfig(context, async ({ listen }) => {
    const error = await probe(listen[0]!);
    if (error !== undefined) throw new CommandError(error);
    context.io.stdout.write("ok\n");
    return 0;
  });
}

async function probe({ address, tls }: ListenerConfig): Promise<string | undefined> {
  const at = formatAddress(address);
  if (address.kind === "tcp" && address.port === 0)
    return `The configuration lets the server take any free port (${at}); name the one it took with --port.`;
  const host = address.kind === "unix" ? "localhost" : `${reachable(address.host)}:${address.port}`;
  try {
    const answer = await fetch(`${tls === undefined ? "http" : "https"}://${host}/healthz`, {
      ...(address.kind === "unix" && { unix: address.path }),
      // The certificate is made for another name than this one.
      tls: { rejectUnauthorized: false },
      redirect: "manual",
      signal: AbortSignal.timeout(patienceMs),
    });
    return unwellness(at, answer.status, await answer.text());
  } catch (error) {
    return unreachable(at, error as Error & { readonly code?: string });
  }
}

function unwellness(at: string, status: number, text: string): string | undefined {
  if (status === 200 && text === "ok") return undefined;
  if (status === 503) return `The server at ${at} takes no new requests: it is stopping.`;
  return `What answers at ${at} is no Troupe: status ${status}. Is it another program's address?`;
}

function unreachable(at: string, { name, code, message }: Error & { readonly code?: string }): string {
  if (name === "TimeoutError") return `The server at ${at} did not answer within ${patienceMs / 1000} s.`;
  if (code === "ECONNREFUSED" || code === "ENOENT" || code === "FailedToOpenSocket")
    return `No server listens at ${at}. Does it run, and with this configuration?`;
  return `The server at ${at} can't be asked (${code ?? message}).`;
}

/** Where a server that listens everywhere is found. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  const inner = host === "::" ? "::1" : host;
  return inner.includes(":") ? `[${inner}]` : inner;
}
