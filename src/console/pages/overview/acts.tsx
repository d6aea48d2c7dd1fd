/** What people changed in the last hour, by the audit. */
import type { AuditEntry, AuditPage } from "../../../api/audit.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { hourMs } from "../../period.ts";
import { href } from "../../router.ts";
import { count, Time } from "../../ui/format.tsx";
import { Loaded } from "../../ui/states.tsx";
import { ownActor } from "../../who.ts";
import { linkOfScope } from "../keys/budgets.tsx";
import { Sentence } from "../system/sentence.tsx";

const shown = 8;

/** An id without a name says little: its beginning does. */
const shortened = (id: string) => (/^[a-z]+_[0-9a-z]{20,}$/.test(id) ? `${id.slice(0, 12)}…` : id);

const addresses: Readonly<Record<string, (subject: string) => string>> = {
  key: (id) => href("keys", [id]),
  // <scope>/<period>
  budget: (id) => linkOfScope(id.slice(0, id.lastIndexOf("/"))),
  persona: (id) => href("personas", [id.split(/[ @]/, 1)[0]!]),
  // <persona> <variant>
  variant: (id) => href("personas", [id.split(" ", 1)[0]!, "numbers"]),
  provider: (id) => href("providers", [id]),
  content: (id) => href("calls", [id]),
  playground: (model) => href("calls", [], { client: "troupe-playground", model }),
  session: () => href("system", ["sessions"]),
  doctor: () => href("system", ["doctor"]),
};
const subjectHref = ({ act, subject }: AuditEntry): string =>
  addresses[act.split(".", 1)[0]!]?.(subject) ?? href("system", ["audit"], { act });

/** Whether something is otherwise than before: nothing is by signing in, by reading or by a call. */
const isChange = ({ act }: AuditEntry) => !/^(session|content|playground|doctor)\.|\.test$/.test(act);

export function Acts() {
  const acts = useResource((signal) => get<AuditPage>("v1/audit", { limit: "100" }, { signal }), [], {
    everyMs: 15_000,
  });
  return (
    <Loaded resource={acts}>
      {({ data }) => {
        const changes = data.filter(isChange);
        const recent = changes.filter(({ at }) => Date.parse(at) > Date.now() - hourMs);
        const listed = (recent.length > 0 ? recent : changes).slice(0, shown);
        return (
          <>
            {recent.length === 0 && (
              <p class="muted">Nobody changed anything{listed.length > 0 ? "; before that:" : " yet."}</p>
            )}
            <ul class="findings">
              {listed.map((act) => (
                <li key={act.id}>
                  <Time at={act.at} />
                  <Sentence
                    {...{ act: act.act, subject: act.subject, after: act.after }}
                    who={
                      act.actor === ownActor() ? (
                        "you"
                      ) : act.actor.startsWith("key_") ? (
                        <a href={href("keys", [act.actor])}>{act.actor_name ?? shortened(act.actor)}</a>
                      ) : (
                        shortened(act.actor)
                      )
                    }
                  >
                    <a href={subjectHref(act)} title={act.subject}>
                      {act.subject_name ?? shortened(act.subject)}
                    </a>
                  </Sentence>
                </li>
              ))}
            </ul>
            {recent.length > shown && (
              <a href={href("system", ["audit"], { since: "1h" })}>
                All {count(recent.length)}
                {recent.length === changes.length && data.length === 100 && " or more"} changes
              </a>
            )}
          </>
        );
      }}
    </Loaded>
  );
}
