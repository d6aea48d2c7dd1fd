/** Checks the configured providers, with one small call each where that is wanted. */
import type { BoundAccount } from "../../upstream/accounts.ts";
import type { Upstream } from "../../upstream/client.ts";
import { membersOf } from "../../upstream/pool/pools.ts";
import { testCall } from "../../upstream/test-call.ts";
import { type Check, failure, ok, warning } from "./check.ts";

type Examined = {
  /** Accounts of providers, compiled in or not. */
  readonly accounts: readonly BoundAccount[];
  readonly upstream: Upstream;
  /** Whether the sources of credentials are asked, where an account has no key. */
  readonly asksSources: boolean;
  /** Whether each is sent one small request, which costs a few tokens. */
  readonly call: boolean;
};

export async function examineUpstreams({ accounts: all, upstream, asksSources, call }: Examined): Promise<Check[]> {
  const accounts = all.filter(({ provider }) => provider.kind === "remote");
  if (accounts.length === 0) {
    return [
      warning(
        "providers",
        "none is set up: only builtin/echo and builtin/eliza answer",
        "Set a key such as OPENAI_API_KEY. See docs/providers.md.",
      ),
    ];
  }
  const signed = asksSources ? (await Promise.all(accounts.map(examineCredentials))).flat() : [];
  if (!call) {
    const uncalled = accounts.map(({ account, pool }) =>
      ok(`provider ${account.name}`, `${account.baseUrl}${keysOf(pool)}, not called (--call does)`),
    );
    return [...signed, ...uncalled];
  }
  const calls = accounts.flatMap((bound) => {
    const members = membersOf(bound);
    return members.map((member) => callOnce(upstream, member, members.length > 1));
  });
  return [...signed, ...(await Promise.all(calls))];
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

/** Names several keys by their fingerprints. */
function keysOf(pool: BoundAccount["pool"]): string {
  if (pool === undefined) return "";
  const keys = new Set(pool.members.flatMap(({ member }) => member.fingerprint || []));
  const endpoints = new Set(pool.members.map(({ account }) => account.baseUrl));
  const more = endpoints.size > 1 ? ` and ${endpoints.size - 1} more` : "";
  return keys.size > 1 ? `${more}, ${keys.size} keys: ${[...keys].join(", ")}` : more;
}

/** @param bound one key at one endpoint */
async function callOnce(upstream: Upstream, bound: BoundAccount, isOneOfSeveral: boolean): Promise<Check> {
  const { account, provider, member, keyName } = bound;
  const key = isOneOfSeveral ? `, key ${[member.fingerprint, keyName].filter(Boolean).join(" ")}` : "";
  const what = `provider ${account.name}${key}`;
  const model = (bound.has ?? account.models)[0];
  if (provider.kind !== "remote" || model === undefined) {
    return warning(what, "no model of it is known to call", `Name one under providers.${account.name}.models.`);
  }
  const { answered, status, message = "" } = await testCall(upstream, bound, model);
  if (answered) return ok(what, `${model} answered`);
  if (status === undefined)
    return failure(what, message, "Look at its base_url, the network and, behind a proxy, HTTPS_PROXY.");
  const found = `${account.baseUrl} answered ${status}: ${message}`;
  if (status === 401 || status === 403)
    return failure(what, found, "Its key is refused: see where 'troupe config print' says it comes from.");
  return warning(
    what,
    found,
    `It is reached; read what it says. Another model can be named under providers.${account.name}.models.`,
  );
}
