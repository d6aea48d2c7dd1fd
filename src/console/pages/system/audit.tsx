/** What was done: who, what, when, and the values before and after. */
import type { AuditEntry, AuditPage } from "../../../api/audit.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { askedTime } from "../../range.ts";
import { href, route } from "../../router.ts";
import { Curl } from "../../ui/copy.tsx";
import type { Filter } from "../../ui/filter-bar.tsx";
import { count, Time } from "../../ui/format.tsx";
import { Panel } from "../../ui/layout.tsx";
import { ListPage } from "../../ui/list-page.tsx";
import type { Column } from "../../ui/table.tsx";
import { ownActor } from "../../who.ts";
import { verbs } from "./act-words.ts";
import { Sentence } from "./sentence.tsx";
import { changesOf } from "./values.ts";

const filters = ["actor", "act", "subject"] as const;
type Name = (typeof filters)[number];
/** Where what an act was done to is shown; undefined: nowhere. */
function linkOf({ act, subject }: AuditEntry): string | undefined {
  const [what] = act.split(".", 1);
  if (what === "key") return href("keys", [subject]);
  if (what === "budget") return href("keys", ["budgets"]);
  if (what === "persona" || what === "variant") return href("personas", [subject.split(/[@ ]/, 1)[0]!]);
  if (what === "provider") return href("providers", [subject]);
  if (act === "content.read") return href("calls", [subject]);
  if (act === "playground.call") return href("calls", [], { model: subject });
  return what === "session" ? href("system", ["sessions"]) : undefined;
}

function Changes({ of: { before, after } }: { readonly of: AuditEntry }) {
  const changes = changesOf(before, after);
  if (changes.length === 0) return <span class="muted">–</span>;
  const listed = (
    <dl class="changes">
      {changes.map(({ name, before: was, after: is }) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {was !== undefined && <del>{was}</del>} {is !== undefined && <ins>{is}</ins>}
          </dd>
        </div>
      ))}
    </dl>
  );
  // Of what was made or taken away all is new or gone: the sentence says most of it.
  return before !== null && after !== null ? (
    listed
  ) : (
    <details>
      <summary class="muted">
        {count(changes.length)} {changes.length === 1 ? "value" : "values"}
      </summary>
      {listed}
    </details>
  );
}

/** A link that asks for the lines of one value alone. */
const only = (name: Name, value: string, shown: string | null = null) => (
  <a href={href("system", ["audit"], { ...current(), [name]: value })} title={`Only ${value}`}>
    {shown ?? value}
  </a>
);

const current = (): Record<string, string | undefined> =>
  Object.fromEntries([...filters, "since", "until"].map((name) => [name, route.value.query.get(name) || undefined]));

const columns: readonly Column<AuditEntry>[] = [
  { id: "at", title: "When", isOrder: true, cell: ({ at }) => <Time at={at} exact="brief" /> },
  {
    id: "sentence",
    title: "What was done",
    cell: (one) => {
      const { actor, actor_name: name, act, subject, subject_name, after } = one;
      const link = linkOf(one);
      return (
        <Sentence {...{ act, subject, after }} who={only("actor", actor, actor === ownActor() ? "you" : name)}>
          {link === undefined ? (
            subject
          ) : (
            <a href={link} title={subject}>
              {subject_name ?? subject}
            </a>
          )}
        </Sentence>
      );
    },
  },
  { id: "changes", title: "Before and after", cell: (one) => <Changes of={one} /> },
  { id: "actor", title: "Who", cell: ({ actor, actor_name }) => only("actor", actor, actor_name), hidden: true },
  { id: "act", title: "Act", cell: ({ act }) => only("act", act), hidden: true },
  { id: "subject", title: "To what", cell: ({ subject }) => only("subject", subject), hidden: true },
  { id: "id", title: "Id", cell: ({ id }) => <span class="mono">{id}</span>, hidden: true },
];

/** Who did something of late. */
const actors = (signal: AbortSignal) =>
  get<AuditPage>("v1/audit", { limit: "200" }, { signal }).then(({ data }) =>
    [...new Map(data.map((one) => [one.actor, one])).values()].map(({ actor, actor_name }) => ({
      value: actor,
      title: actor_name ?? undefined,
    })),
  );
const offered: readonly Filter[] = [
  { name: "actor", title: "Who", suggest: actors },
  {
    name: "act",
    title: "What",
    suggest: () => Object.entries(verbs).map(([value, verb]) => ({ value, title: `${value}: ${verb}` })),
  },
  { name: "subject", title: "To what" },
];

export function AuditPanel() {
  const after = route.value.query.get("after") ?? undefined;
  const chosen = current();
  const asked = { ...chosen, ...askedTime(), limit: "50", after };
  const acts = useResource((signal) => get<AuditPage>("v1/audit", asked, { signal }), [asked], { everyMs: 60_000 });
  const nameOf = (name: string, value: string) =>
    (name === "actor" && acts.data?.data.find(({ actor }) => actor === value)?.actor_name) || undefined;
  return (
    <Panel title="Audit" note="the newest first; no line holds a key" actions={<Curl path="v1/audit" query={asked} />}>
      <ListPage
        list={acts}
        caption="What was done"
        choose="audit"
        columns={columns}
        filters={{ filters: offered, shown: nameOf }}
        rowKey={({ id }) => id}
        rowHref={linkOf}
        isOfTime
        none={{ title: "Nothing was done.", hint: "Each change here or by a command leaves a line." }}
        hint="Names are looked for as a whole."
      />
    </Panel>
  );
}
