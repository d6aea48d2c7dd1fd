/** The room of answers that are kept: conversations, those made once for an id, those made in the background; and nodes that compare what they serve. */
import { BackgroundAnswers } from "../../call/background-answers.ts";
import { configVersion } from "../../config/version.ts";
import { Conversations } from "../../conversations/conversations.ts";
import { Idempotency } from "../../idempotency/idempotency.ts";
import { NodeComparison } from "../../observability/node-versions.ts";
import type { Opening } from "./opening.ts";
import type { PersonaParts } from "./personas.ts";
import type { Stored } from "./stored.ts";

export function openAnswers(
  { own, opened, current, build, clock, log }: Opening,
  { store }: Stored,
  { personas }: PersonaParts,
) {
  const conversations = new Conversations(store, clock, () => current().conversations.retentionDays);
  // Closed in reverse: what the records' end cancels is written by the answers' own.
  const closingBackground = () => background.close();
  opened.defer(closingBackground);
  const idempotency = own(new Idempotency(store, clock, () => current().idempotency, log));
  const background = opened.adopt(new BackgroundAnswers(idempotency, conversations, clock, log), (one) =>
    one.closing(),
  );
  const comparison =
    store.nodes &&
    own(
      new NodeComparison({
        nodes: store.nodes,
        clock,
        log,
        versions: () => ({
          program: `${build.version} ${build.commit}`,
          configuration: configVersion(current()),
          personas: personas.version,
        }),
      }),
    );
  return { conversations, idempotency, background, comparison };
}
