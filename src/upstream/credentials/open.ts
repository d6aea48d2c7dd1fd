/** Opens the sources of credentials on this machine: its variables, files, commands and network. */
import { readFileSync } from "node:fs";
import type { Environment } from "../../config/variables.ts";
import type { Transport } from "../../lib/http/client.ts";
import type { Logger } from "../../lib/process/log.ts";
import { type Clock, withTimeout } from "../../lib/time/clock.ts";
import { Upstream } from "../client.ts";
import { Credentials } from "./credentials.ts";
import { CredentialSources } from "./sources.ts";
import type { SecretTools, TokenAnswer, TokenRequest } from "./tools.ts";

/** Seconds. A metadata service answers at once, or is not there: https://docs.aws.amazon.com/sdkref/latest/guide/feature-imds-credentials.html */
const patience = {
  local: { connectSeconds: 1, firstByteSeconds: 5, idleSeconds: 5 },
  remote: { connectSeconds: 5, firstByteSeconds: 10, idleSeconds: 10 },
};
const commandMs = 30_000;

const noCredentials = new Credentials({ headers: {}, options: { bearer: true } }, {});
const never = new AbortController().signal;

type OpenOptions = {
  readonly clock: Clock;
  readonly log: Pick<Logger, "warn">;
  readonly env: Environment;
  /** Default: connections of its own. */
  readonly transport?: Transport | undefined;
};

export function openCredentialSources({ clock, log, env, transport }: OpenOptions): CredentialSources {
  const direct = new Upstream(clock);
  const usual = transport === undefined ? direct : new Upstream(clock, transport);
  const tools: SecretTools = {
    clock,
    env,
    readFile: readIfPresent,
    run: (command) => output(clock, command),
    ask: (request) => answerOf(request.isLocal === true ? direct : usual, request),
  };
  return new CredentialSources(tools, log, () => direct.close());
}

async function answerOf(upstream: Upstream, { isLocal, headers = {}, ...request }: TokenRequest): Promise<TokenAnswer> {
  const account = { name: new URL(request.url).host, baseUrl: "", models: [], options: {}, modelRules: [] };
  const timeouts = isLocal === true ? patience.local : patience.remote;
  const sent = { ...request, headers: { "user-agent": "troupe", ...headers }, isBare: true };
  const answer = await upstream.send(sent, { account, credentials: noCredentials, timeouts }, never);
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}

/** @throws Error that shows nothing of what it wrote */
async function output(clock: Clock, command: string): Promise<string> {
  const child = Bun.spawn(["sh", "-c", command], { stdin: "ignore", stdout: "pipe", stderr: "ignore" });
  const ended = Promise.all([new Response(child.stdout).text(), child.exited]);
  const found = await withTimeout(clock, ended, commandMs);
  if (found === undefined) {
    child.kill();
    throw new Error(`credential_process took longer than ${commandMs / 1000} s`);
  }
  const [text, status] = found;
  if (status !== 0) throw new Error(`credential_process ended with status ${status}`);
  return text;
}
