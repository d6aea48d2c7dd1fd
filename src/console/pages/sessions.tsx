/** Browsers that are signed in: a part of the System page. */

import { useState } from "preact/hooks";
import type { Session, SessionPage } from "../../api/sessions.ts";
import { ApiFailure, get, remove } from "../api.ts";
import { useResource } from "../data.ts";
import { href, route } from "../router.ts";
import { signOut } from "../sign-in.tsx";
import { Curl } from "../ui/copy.tsx";
import { Time } from "../ui/format.tsx";
import { Badge, Panel } from "../ui/layout.tsx";
import { ListPage } from "../ui/list-page.tsx";
import { Failure } from "../ui/states.tsx";
import type { Column } from "../ui/table.tsx";
import { useUndo } from "../ui/undo.tsx";

const byTime = (name: "created_at" | "last_used_at" | "expires_at") => (a: Session, b: Session) =>
  a[name].localeCompare(b[name]);

export function SessionsPanel() {
  const listed = { limit: "100", after: route.value.query.get("after") ?? undefined };
  const sessions = useResource((signal) => get<SessionPage>("v1/sessions", listed, { signal }), [listed], {
    everyMs: 60_000,
  });
  const [ending, setEnding] = useState<string>();
  const [failure, setFailure] = useState<ApiFailure>();
  const { notice, offer } = useUndo();
  const endSoon = (row: Session) => {
    if (row.is_current) return void end(row);
    offer({
      words: `The session of ${row.key.name}, ${row.client}, ends in ten seconds.`,
      undo: () => setEnding(undefined),
      atEnd: () => end(row),
    });
    setEnding(row.id);
  };
  const end = async ({ id, is_current }: Session) => {
    setEnding(id);
    setFailure(undefined);
    try {
      if (is_current) return await signOut();
      await remove(`v1/sessions/${id}`);
    } catch (error) {
      // One that has ended meanwhile is what was asked for.
      if (error instanceof ApiFailure && error.status !== 404) setFailure(error);
    } finally {
      setEnding(undefined);
    }
    sessions.reload();
  };
  const endOf = (row: Session) => ({
    title: row.is_current ? "Sign out" : "End it",
    run: () => endSoon(row),
    isDanger: !row.is_current,
  });
  const columns: readonly Column<Session>[] = [
    {
      id: "key",
      title: "Key",
      cell: ({ key, is_current }) => (
        <>
          {key.name} {is_current && <Badge tone="quiet">this browser</Badge>}
        </>
      ),
      sort: (a, b) => a.key.name.localeCompare(b.key.name),
    },
    { id: "client", title: "Browser", cell: ({ client }) => client, sort: (a, b) => a.client.localeCompare(b.client) },
    { id: "created", title: "Signed in", cell: (row) => <Time at={row.created_at} />, sort: byTime("created_at") },
    { id: "used", title: "Last used", cell: (row) => <Time at={row.last_used_at} />, sort: byTime("last_used_at") },
    { id: "expires", title: "Ends if unused", cell: (row) => <Time at={row.expires_at} />, sort: byTime("expires_at") },
    { id: "ends", title: "Ends at the latest", cell: (row) => <Time at={row.ends_at} />, hidden: true },
  ];
  return (
    <Panel
      title="Sessions"
      note="An hour without a click, a key or a scroll ends one, and so does its key's end."
      actions={<Curl path="v1/sessions" query={listed} />}
    >
      {failure !== undefined && <Failure error={failure} />}
      {notice}
      <ListPage
        list={sessions}
        caption="Browsers that are signed in"
        choose="sessions"
        columns={columns}
        rowKey={({ id }) => id}
        rowHref={({ key }) => href("keys", [key.id])}
        actions={(row) => ({
          of: `the session of ${row.key.name}, ${row.client}`,
          all: ending === row.id ? [] : [endOf(row)],
        })}
        none={{
          title: "No browser is signed in.",
          hint: "Who comes by a key in a header, or through a proxy that names its user, has no session.",
        }}
      />
    </Panel>
  );
}
