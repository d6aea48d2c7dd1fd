/** What refusals taught a running server: it knows it alone, for a day. */
import type { LearnedFact } from "../../api/models.ts";
import type { Config } from "../../config/config.ts";
import { isObject } from "../../lib/json/json.ts";
import { findServer, type ServerOptions } from "../chat/server.ts";
import type { Context } from "../context.ts";

/** @property failure why a server that was found could not be asked */
export type LearnedFacts = { readonly facts: readonly LearnedFact[]; readonly failure?: string };

const deadlineMs = 5_000;

/** @returns undefined where no server is named, and none of this configuration runs whose key is known. Never rejects for what a server does. */
export async function learnedBy(
  context: Context,
  config: Config,
  options: ServerOptions,
): Promise<LearnedFacts | undefined> {
  const server = await findServer(context, config, options);
  if (server === undefined) return undefined;
  const { url, key, fetchOptions } = server;
  try {
    const answer = await fetch(`${url}/admin/v1/models?limit=1`, {
      ...fetchOptions,
      redirect: "manual",
      headers: { authorization: `Bearer ${key}` },
      signal: AbortSignal.timeout(deadlineMs),
    });
    if (answer.status === 401 || answer.status === 403)
      return { facts: [], failure: `${url} shows it to keys with admin among their surfaces alone` };
    if (!answer.ok) return { facts: [], failure: `${url} answers with the status ${answer.status}` };
    const body: unknown = await answer.json();
    return { facts: isObject(body) && Array.isArray(body["learned"]) ? (body["learned"] as LearnedFact[]) : [] };
  } catch (error) {
    return { facts: [], failure: `${url} can't be asked: ${(error as Error).message}` };
  }
}
