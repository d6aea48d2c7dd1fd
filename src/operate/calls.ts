/** Calls as operators look them up: the lines of a request's attempts, and what was said. */
import type { SurfaceName } from "../config/config.ts";
import type { Conversations } from "../conversations/conversations.ts";
import { hourMs } from "../lib/time/duration.ts";
import { chat } from "../protocols/chat/chat.ts";
import type { Message } from "../protocols/chat/schema.ts";
import { responses } from "../protocols/responses/responses.ts";
import type { LedgerLine, LedgerRepository } from "../store/contract/usage.ts";

/** The time before and behind the one in a request's id at which its attempts may have begun. */
const aroundMs = { before: 60_000, behind: 6 * hourMs };

/** When a request came, by its id. Source: https://www.rfc-editor.org/rfc/rfc9562#name-uuid-version-7 */
const timeOf = (requestId: string): number | undefined =>
  /^req_[0-9a-f]{12}7[0-9a-f]{19}$/.test(requestId) ? Number.parseInt(requestId.slice(4, 16), 16) : undefined;

/** What is written of the attempts to answer a request, the first first; none for what is no request's id. */
export async function attemptsOf(
  ledger: Pick<LedgerRepository, "lines">,
  requestId: string,
  signal = new AbortController().signal,
): Promise<LedgerLine[]> {
  const at = timeOf(requestId);
  if (at === undefined) return [];
  const time = { since: at - aroundMs.before, until: at + aroundMs.behind };
  return (await ledger.lines({ ...time, requestId, limit: 100, signal })).toReversed();
}

/** The id under which a call's answer is stored, where its format stores any: it is made of the request's. */
const storedIdOf = ({ requestId, callOf, format }: LedgerLine) =>
  [chat, responses]
    .find(({ name }) => name === format)
    ?.answerIdPrefix.concat((callOf ?? requestId).slice("req_".length));

/**
 * What was said in a call and answered.
 * @param reach `turn`: in the call alone; `saidUntil`: in all turns up to its answer
 * @returns undefined where it is not stored
 */
export async function storedMessages(
  conversations: Conversations,
  line: LedgerLine,
  reach: "turn" | "saidUntil",
): Promise<readonly Message[] | undefined> {
  const { keyId, surface } = line;
  const id = storedIdOf(line);
  return id === undefined ? undefined : conversations[reach]({ keyId, surface: surface as SurfaceName }, id);
}
