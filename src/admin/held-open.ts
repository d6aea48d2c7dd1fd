/** Ends streams with the sign-in that began them: a key that is revoked, or a session that has ended, sees nothing more. */
import { sessionCounts } from "../auth/sessions.ts";
import { callerOf } from "../call/admit/admit.ts";
import type { RequestContext } from "../call/context.ts";
import type { Services } from "../call/services.ts";
import { type SignedIn, signedIn } from "./act.ts";

const everyMs = 15_000;

/** @param left is aborted once the request would not be let in any more; the watch ends with it */
export function endWithSignIn(services: Services, context: RequestContext, left: AbortController): void {
  const one = signedIn(context);
  if (one.by === "proxy") return;
  const look = async () => {
    // What can't be asked may be so still: the next look will know.
    const counts = await stillCounts(services, context, one).catch(() => true);
    if (left.signal.aborted) return;
    if (counts) cancel = services.clock.setTimer(everyMs, () => void look());
    else left.abort();
  };
  let cancel = services.clock.setTimer(everyMs, () => void look());
  left.signal.addEventListener("abort", () => cancel(), { once: true });
}

async function stillCounts(services: Services, context: RequestContext, one: SignedIn): Promise<boolean> {
  await services.keys.refresh();
  if (one.by === "session") return sessionCounts(services, one.row.hash);
  return callerOf(services, context)?.surfaces.has("admin") === true;
}
