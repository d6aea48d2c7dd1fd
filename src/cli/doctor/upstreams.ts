/** Checks the configured providers, with one small call each where that is wanted. */
import type { Config } from "../../config/config.ts";
import { systemClock } from "../../lib/clock.ts";
import { providers } from "../../providers/registry.ts";
import { Accounts, type BoundAccount } from "../../upstream/accounts.ts";
import { Upstream } from "../../upstream/client.ts";
import { type Check, failure, ok, warning } from "./check.ts";

/** @param call whether each is sent one small request, which costs a few tokens */
export async function examineUpstreams(config: Config, call: boolean): Promise<Check[]> {
  const accounts = new Accounts(config.providers, providers)
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
  if (!call)
    return accounts.map(({ account }) =>
      ok(`provider ${account.name}`, `${account.baseUrl}, not called (--call does)`),
    );
  const upstream = new Upstream(systemClock);
  return Promise.all(accounts.map((account) => callOnce(upstream, account)));
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
