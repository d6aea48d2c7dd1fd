/** Browsers that are signed in: a part of the System page. */

import { useState } from "preact/hooks";
import type { Session, SessionPage } from "../../api/sessions.ts";
import { ApiFailure, get, remove } from "../api.ts";
import { useResource } from "../data.ts";
import { href } from "../router.ts";
import { signOut } from "../sign-in.tsx";
import { Curl } from "../ui/copy.tsx";
import { Button } from "../ui/form.tsx";
import { Time } from "../ui/format.tsx";
import { Badge, Panel } from "../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../ui/states.tsx";
import { type Column, Table } from "../ui/table.tsx";
import { useUndo } from "../ui/undo.tsx";

const byTime = (name: "created_at" | "last_used_at" | "expires_at") => (a: Session, b: Session) =>
  a[name].localeCompare(b[name]);

const listed = { limit: "100" };

export function SessionsPanel() {
  const sessions = useResource((signal) => get<SessionPage>("v1/sessions", listed, { signal }), [], {
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
  const columns: readonly Column<Session>[] = [
    {
      id: "key",
      title: "Key",
      cell: ({ key, is_current }) => (
        <span class="among-words">
          <a href={href("keys", [key.id])} title={key.id}>
            {key.name}
          </a>{" "}
          {is_current && <Badge tone="ok">this browser</Badge>}
        </span>
      ),
      sort: (a, b) => a.key.name.localeCompare(b.key.name),
    },
    { id: "client", title: "Browser", cell: ({ client }) => client, sort: (a, b) => a.client.localeCompare(b.client) },
    { id: "created", title: "Signed in", cell: (row) => <Time at={row.created_at} />, sort: byTime("created_at") },
    { id: "used", title: "Last used", cell: (row) => <Time at={row.last_used_at} />, sort: byTime("last_used_at") },
    { id: "expires", title: "Ends if unused", cell: (row) => <Time at={row.expires_at} />, sort: byTime("expires_at") },
    { id: "ends", title: "Ends at the latest", cell: (row) => <Time at={row.ends_at} />, hidden: true },
    {
      id: "end",
      title: "End",
      cell: (row) => (
        <Button
          tone={row.is_current ? "plain" : "danger"}
          busy={ending === row.id}
          onClick={() => endSoon(row)}
          label={row.is_current ? "Sign out" : `End the session of ${row.key.name}, ${row.client}`}
        >
          {row.is_current ? "Sign out" : "End"}
        </Button>
      ),
    },
  ];
  return (
    <Panel
      title="Sessions"
      note="An hour without a click, a key or a scroll ends one, and so does its key's end."
      actions={<Curl path="v1/sessions" query={listed} />}
    >
      {failure !== undefined && <Failure error={failure} />}
      {notice}
      <Loaded resource={sessions}>
        {({ data, has_more }) => (
          <>
            <Table
              columns={columns}
              rows={data}
              isPart={has_more}
              rowKey={({ id }) => id}
              caption="Browsers that are signed in"
              choose="sessions"
              empty={
                <Empty title="No browser is signed in.">
                  Who comes by a key in a header, or through a proxy that names its user, has no session.
                </Empty>
              }
            />
            {has_more && <p class="muted">These are the newest 100.</p>}
          </>
        )}
      </Loaded>
    </Panel>
  );
}
