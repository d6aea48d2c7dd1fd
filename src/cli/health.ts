/** `troupe health`: whether the server that this configuration starts takes requests, for containers without other tools. */
import type { Listener } from "../config/config.ts";
import { type Context, type ExitCode, withConfig } from "./context.ts";

const patienceMs = 3000;

/** @returns 0 when it answers ok */
export function checkHealth(context: Context): Promise<ExitCode> {
  return withConfig(context, async ({ listen }) => {
    const answer = await ask(listen[0]!).catch((error: Error) => error.message);
    context.io.stdout.write(`${answer}\n`);
    return answer === "ok" ? 0 : 1;
  });
}

async function ask({ address, tls }: Listener): Promise<string> {
  const path = `://${address.kind === "unix" ? "localhost" : `${reachable(address.host)}:${address.port}`}/healthz`;
  const answer = await fetch((tls === undefined ? "http" : "https") + path, {
    ...(address.kind === "unix" && { unix: address.path }),
    // The certificate is made for another name than this one.
    tls: { rejectUnauthorized: false },
    signal: AbortSignal.timeout(patienceMs),
  });
  return answer.text();
}

/** Where a server that listens everywhere is found. */
function reachable(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  const inner = host === "::" ? "::1" : host;
  return inner.includes(":") ? `[${inner}]` : inner;
}
