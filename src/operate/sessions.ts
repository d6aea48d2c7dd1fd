/** Acts on sessions of people who signed in with a key, to the console or to `/account`. */
import type { Caller } from "../auth/keys.ts";
import { beginSession, findSession, type SignInPage } from "../auth/sessions.ts";
import type { SessionRow } from "../store/contract/sessions.ts";
import { type Done, done, type Operator } from "./act.ts";

type SignIn = {
  readonly caller: Caller;
  /** As it was given, known to be good. */
  readonly key: string;
  readonly userAgent: string | null;
  readonly page: SignInPage;
  /** Secret of the session that the browser has, in whose place it begins. */
  readonly old: string | undefined;
};

/** What the audit tells of a session. */
type Told = { readonly client: string; readonly key?: string; readonly page?: SignInPage };

/** @property secret the cookie's value, which is kept nowhere */
type Started = Done<undefined, Told> & { readonly secret: string; readonly row: SessionRow };

/** Begins a session for a key. @throws StorageError */
export async function startSession(operator: Operator, { page, old, ...signIn }: SignIn): Promise<Started> {
  const { sessions } = operator.store;
  const own = old === undefined ? undefined : await findSession(operator, old, false, page);
  if (own !== undefined) await sessions.remove(own.row.id);
  const { secret, row } = await beginSession(operator, signIn);
  const after = { client: row.client, ...(page !== "console" && { page }) };
  return { secret, row, ...(await done(operator, "session.create", row.id, undefined, after)) };
}

/** Ends a session, from the next request on. @param isOwn whether it is the session that asks @throws StorageError */
export async function endSession(
  operator: Operator,
  { id, key, client }: SessionRow,
  isOwn: boolean,
): Promise<Done<Told, undefined>> {
  await operator.store.sessions.remove(id);
  return done(operator, isOwn ? "session.sign_out" : "session.end", id, { key, client }, undefined);
}
