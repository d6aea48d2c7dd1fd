/** A persona's own file. */

import { useEffect, useState } from "preact/hooks";
import type { SignedIn } from "../../../api/sessions.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Copy } from "../../ui/copy.tsx";
import { Button } from "../../ui/form.tsx";
import { Badge, Bar } from "../../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { drafts, keep, takeUp } from "./drafts.ts";
import { FileEditor } from "./file-editor.tsx";
import { type Finding, pathOf, type Source } from "./types.ts";

type EditorProps = {
  readonly source: Source;
  readonly isFresh?: boolean;
  readonly onLoad: () => void;
  readonly onSaved: (saved: Source) => void;
};

function SourceEditor({ source, ...rest }: EditorProps) {
  const { id, is_served: isServed, version } = source;
  return (
    <FileEditor
      of={{ name: id, path: `${pathOf(id)}/source`, check: "v1/personas/check", with: { id } }}
      source={source}
      note={!isServed && <Badge tone="bad">an older text is served</Badge>}
      saved={
        <>
          Saved, and served as <code>{version}</code>. <a href={href("personas", [id, "versions"])}>See what changed</a>
        </>
      }
      {...rest}
    />
  );
}

const template = `description: What it does, in a sentence.
# <provider>/<model>, or several of them, which are tried in turn
model: builtin/eliza
system: |
  You are
`;

/** There is no such file: it can be begun where files can be saved. */
function Missing({
  id,
  onLoad,
  onSaved,
}: {
  readonly id: string;
  readonly onLoad: () => void;
  readonly onSaved: (saved: Source) => void;
}) {
  const session = useResource((signal) => get<SignedIn>("v1/session", {}, { signal }), []);
  const draft = drafts.value.get(id);
  if (draft !== undefined && session.data?.write === true)
    return <SourceEditor source={nothing(id)} onLoad={onLoad} onSaved={onSaved} />;
  return (
    <Empty title={`There is no persona ${id} yet.`}>
      <Bar>
        {session.data?.write === true && (
          <Button tone="primary" onClick={() => keep(id, { text: template, base: "", hash: null })}>
            Begin its file
          </Button>
        )}
        {draft !== undefined && <Copy text={draft.text} label="Copy what you wrote" />}
        <a href={href("personas")}>All personas</a>
      </Bar>
      {session.data?.write === false && (
        <p>
          Files can be saved here where <code>console.write: true</code> is in the server's configuration.
        </p>
      )}
    </Empty>
  );
}

const noFindings: readonly Finding[] = [];
const nothings = new Map<string, Source>();

/** What stands in a file that there is not; the same for each look at it. */
function nothing(id: string): Source {
  const found = nothings.get(id) ?? {
    ...{ id, file: `${id}.yaml`, text: "", hash: null, version: null, is_served: true, read_only: null },
    findings: noFindings,
  };
  nothings.set(id, found);
  return found;
}

export function SourceTab({ id, onSaved }: { readonly id: string; readonly onSaved: () => void }) {
  const source = useResource((signal) => get<Source>(`${pathOf(id)}/source`, {}, { signal }), [id]);
  const [saved, setSaved] = useState<Source>();
  useEffect(() => void takeUp(id), [id]);
  // What was loaded after the last save goes before it.
  useEffect(() => setSaved(undefined), [source.at]);
  if (source.error?.status === 404 && saved === undefined)
    return (
      <Missing
        id={id}
        onLoad={source.reload}
        onSaved={(next) => {
          setSaved(next);
          source.reload();
          onSaved();
        }}
      />
    );
  const shown = saved ?? source.data;
  if (shown === undefined) return <Loaded resource={source}>{() => null}</Loaded>;
  return (
    <>
      {source.error !== undefined && source.error.status !== 404 && (
        <Failure error={source.error} retry={source.reload} />
      )}
      <SourceEditor
        source={shown}
        isFresh={saved !== undefined}
        onLoad={source.reload}
        onSaved={(next) => {
          setSaved(next);
          onSaved();
        }}
      />
    </>
  );
}
