/** Checks the configured providers, with one small call each where that is wanted. */
import type { Config } from "../../config/config.ts";
import type { Environment } from "../../config/variables.ts";
import { systemClock } from "../../lib/clock.ts";
import { FetchTransport } from "../../lib/http/fetch-transport.ts";
import { isBehindForwardProxy } from "../../lib/http/forward-proxy.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts, type BoundAccount } from "../../upstream/accounts.ts";
import { Upstream } from "../../upstream/client.ts";
import { openCredentialSources } from "../../upstream/credentials/open.ts";
import { type Check, failure, ok, warning } from "./check.ts";

/** @param call whether each is sent one small request, which costs a few tokens */
export async function examineUpstreams(config: Config, call: boolean, env: Environment): Promise<Check[]> {
  const transport = isBehindForwardProxy(env) ? new FetchTransport() : undefined;
  const sources = openCredentialSources({ clock: systemClock, log: { warn: () => {} }, env, transport });
  const accounts = new Accounts(config.providers, providers, (auth, account) => sources.signer(auth, account))
    .list()
    .filter(({ provider }) => provider.kind === "remote");
  if (accounts.length === 0) {
    return [
      warning(
        "providers",
        "none is set up: only builtin/echo and builtin/eliza answer",
        "Set a key such as OPENAI_API_KEY. See docs/providers.md.",
      ),
    ];
  }
  const signed = (await Promise.all(accounts.map(examineCredentials))).flat();
  if (!call) {
    const uncalled = accounts.map(({ account }) =>
      ok(`provider ${account.name}`, `${account.baseUrl}, not called (--call does)`),
    );
    return [...signed, ...uncalled];
  }
  const upstream = new Upstream(systemClock);
  return [...signed, ...(await Promise.all(accounts.map((account) => callOnce(upstream, account))))];
}

/** Names the source of an account's credentials, where it has no key. */
async function examineCredentials({ account, credentials }: BoundAccount): Promise<Check[]> {
  const what = `credentials of ${account.name}`;
  try {
    const source = await credentials.source();
    return source === undefined ? [] : [ok(what, source)];
  } catch (error) {
    return [failure(what, (error as Error).message, "See docs/providers.md for the sources, in their order.")];
  }
}

const deadlineMs = 30_000;

/** Sends the smallest request there is: the answer shows whether the address is reached and the key is accepted. */
async function callOnce(upstream: Upstream, bound: BoundAccount): Promise<Check> {
  const { account, provider } = bound;
  const what = `provider ${account.name}`;
  const model = account.models[0];
  if (provider.kind !== "remote" || model === undefined) {
    return warning(what, "no model of it is known to call", `Name one under providers.${account.name}.models.`);
  }
  try {
    const messages = [{ role: "user" as const, content: "Say ok." }];
    const request = { model: `${account.name}/${model}`, messages, max_tokens: 16 };
    const sent = provider.encode({ model, request, extras: {}, account, media: new Map() });
    const answer = await upstream.send(sent, bound, AbortSignal.timeout(deadlineMs));
    const text = new TextDecoder().decode(await answer.bytes()).slice(0, 300);
    if (answer.status < 300) return ok(what, `${model} answered`);
    const found = `${account.baseUrl} answered ${answer.status}: ${text.replaceAll(/\s+/g, " ")}`;
    if (answer.status === 401 || answer.status === 403)
      return failure(what, found, "Its key is refused: see where 'troupe config print' says it comes from.");
    return warning(
      what,
      found,
      `It is reached; read what it says. Another model can be named under providers.${account.name}.models.`,
    );
  } catch (error) {
    return failure(
      what,
      (error as Error).message,
      "Look at its base_url, the network and, behind a proxy, HTTPS_PROXY.",
    );
  }
}
