/** A persona's file: edited with the checker's faults at their lines, and saved where the server lets it be. What is not saved is kept. */
import { signal } from "@preact/signals";
import { useEffect, useId, useState } from "preact/hooks";
import { type ApiFailure, get, post, put } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Copy, Curl } from "../../ui/copy.tsx";
import { Diff } from "../../ui/diff.tsx";
import { Button } from "../../ui/form.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Empty, Failure, Loaded } from "../../ui/states.tsx";
import { type Cursor, Editor } from "./editor.tsx";
import { type Finding, pathOf, type Source } from "./types.ts";

/** @property base the text that it was made of, and its hash */
type Draft = { readonly text: string; readonly base: string; readonly hash: string | null };

const stored = (id: string) => `troupe.draft.${id}`;

function storedDraft(id: string): Draft | undefined {
  try {
    return JSON.parse(sessionStorage.getItem(stored(id)) ?? "") as Draft;
  } catch {
    return undefined;
  }
}

/** What is not saved yet, by persona: it outlives the page that shows it, and a reload of the tab. */
const drafts = signal<ReadonlyMap<string, Draft>>(new Map());

function keep(id: string, draft: Draft | undefined): void {
  const next = new Map(drafts.value);
  if (draft === undefined) next.delete(id);
  else next.set(id, draft);
  drafts.value = next;
  try {
    if (draft === undefined) sessionStorage.removeItem(stored(id));
    else sessionStorage.setItem(stored(id), JSON.stringify(draft));
  } catch {
    // A browser without room keeps it as long as the page is open.
  }
}

const checkAfterMs = 400;

/** What the checker finds in a text, a moment after the last change. */
function useFindings(
  id: string,
  text: string,
  known: Source,
): { readonly findings: readonly Finding[]; readonly error?: ApiFailure } {
  const [state, setState] = useState<{
    readonly text: string;
    readonly findings: readonly Finding[];
    readonly error?: ApiFailure;
  }>({
    text: known.text,
    findings: known.findings,
  });
  useEffect(() => {
    if (text === known.text) return setState({ text, findings: known.findings });
    const left = new AbortController();
    const timer = setTimeout(() => {
      post<{ readonly findings: readonly Finding[] }>("v1/personas/check", { id, text }, { signal: left.signal }).then(
        ({ findings }) => setState({ text, findings }),
        (error) => !left.signal.aborted && setState((before) => ({ ...before, error })),
      );
    }, checkAfterMs);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [id, text, known]);
  return state;
}

const reasons = {
  write_off: (
    <p class="notice">
      Read-only: set <code>console.write: true</code> in the server's configuration to save here. Until then, edit below
      and copy the text.
    </p>
  ),
  in_executable: (
    <p class="notice">
      This persona is inside the executable, and the folder of personas has files with errors. Mend those; they then
      take the place of the personas inside.
    </p>
  ),
};

function Findings({
  id,
  findings,
  onGo,
}: {
  readonly id: string;
  readonly findings: readonly Finding[];
  readonly onGo: (to: Cursor) => void;
}) {
  return (
    <ul id={id} class="findings" aria-live="polite">
      {findings.length === 0 && <li class="muted">The checker finds nothing.</li>}
      {findings.map(({ severity, line, column, path, message, file }, at) => (
        <li key={at}>
          <Badge tone={severity === "error" ? "bad" : "warn"}>{severity}</Badge>{" "}
          {line === null ? (
            file.slice(file.lastIndexOf("/") + 1)
          ) : (
            <Button onClick={() => onGo({ line, column: column ?? 1 })}>{`Line ${line}, column ${column}`}</Button>
          )}{" "}
          {path !== "" && <code>{path}</code>} {message}
        </li>
      ))}
    </ul>
  );
}

/** Two people changed the file: theirs is in it, ours is kept until we choose. */
function Conflict({
  theirs,
  draft,
  onTake,
  onDrop,
}: {
  readonly theirs: Source;
  readonly draft: Draft;
  readonly onTake: () => void;
  readonly onDrop: () => void;
}) {
  return (
    <div class="notice warn" role="alert">
      <p>The file has changed since you began. Your text is kept; nothing was saved over theirs.</p>
      <details open>
        <summary>What they changed</summary>
        <Diff before={draft.base} after={theirs.text} />
      </details>
      <details>
        <summary>From theirs to yours</summary>
        <Diff before={theirs.text} after={draft.text} />
      </details>
      <Bar>
        <Button onClick={onTake}>Go on with my text, in place of theirs</Button>
        <Button tone="danger" onClick={onDrop}>
          Drop my text, and show theirs
        </Button>
        <Copy text={draft.text} label="Copy my text" />
      </Bar>
    </div>
  );
}

function SourceEditor({
  source,
  isFresh = false,
  onLoad,
  onSaved,
}: {
  readonly source: Source;
  /** Whether it was saved a moment ago. */
  readonly isFresh?: boolean;
  readonly onLoad: () => void;
  readonly onSaved: (saved: Source) => void;
}) {
  const { id, read_only: readOnly } = source;
  const draft = drafts.value.get(id);
  const text = draft?.text ?? source.text;
  const { findings, error: checkError } = useFindings(id, text, source);
  const [cursor, setCursor] = useState<Cursor>();
  const [isSaved, setSaved] = useState(isFresh);
  const { busy, error, run } = useAction();
  const findingsId = useId();
  const errors = findings.filter(({ severity }) => severity === "error");
  const hasChanged = draft !== undefined && draft.text !== source.text;
  const isConflict = draft !== undefined && draft.hash !== source.hash && draft.text !== source.text;
  const change = (next: string) => {
    setSaved(false);
    const { base, hash } = draft ?? { base: source.text, hash: source.hash };
    keep(id, next === base && hash === source.hash ? undefined : { text: next, base, hash });
  };
  const body = { text, if_hash: draft?.hash ?? source.hash };
  const save = async () => {
    const isDone = await run(async () => {
      const saved = await put<Source>(`${pathOf(id)}/source`, body);
      // What was typed while it was being saved is a change of what was saved.
      const now = drafts.value.get(id);
      keep(
        id,
        now === undefined || now.text === text ? undefined : { text: now.text, base: saved.text, hash: saved.hash },
      );
      onSaved(saved);
    });
    setSaved(isDone);
    if (!isDone) onLoad();
  };
  return (
    <Panel
      title={source.file.slice(source.file.lastIndexOf("/") + 1)}
      note={
        <>
          {source.file} {hasChanged && <Badge tone="warn">not saved</Badge>}
          {!source.is_served && !hasChanged && <Badge tone="bad">an older text is served</Badge>}
        </>
      }
      actions={
        <>
          <Copy text={text} />
          {readOnly === null ? (
            <Curl method="PUT" path={`${pathOf(id)}/source`} body={body} />
          ) : (
            <Curl path={`${pathOf(id)}/source`} />
          )}
        </>
      }
    >
      {readOnly !== null && reasons[readOnly]}
      {isConflict && (
        <Conflict
          theirs={source}
          draft={draft}
          onTake={() => {
            keep(id, { text: draft.text, base: source.text, hash: source.hash });
            // The refusal is answered.
            void run(async () => {});
          }}
          onDrop={() => keep(id, undefined)}
        />
      )}
      <Editor
        label={`Text of ${source.file}`}
        value={text}
        onInput={change}
        readOnly={false}
        findings={findings}
        cursor={cursor}
        describedBy={findingsId}
      />
      <Findings id={findingsId} findings={findings} onGo={(to) => setCursor({ ...to })} />
      {checkError !== undefined && <Failure error={checkError} />}
      {error !== undefined && !isConflict && <Failure error={error} />}
      <Bar>
        {readOnly === null && (
          <Button tone="primary" busy={busy} disabled={!hasChanged || isConflict || errors.length > 0} onClick={save}>
            Save
          </Button>
        )}
        {hasChanged && !isConflict && <Button onClick={() => keep(id, undefined)}>Undo all changes</Button>}
        {errors.length > 0 && hasChanged && <span class="muted">Mend the errors to save.</span>}
        {isSaved && !hasChanged && (
          <span role="status">
            Saved, and served as <code>{source.version}</code>.{" "}
            <a href={href("personas", [id, "versions"])}>See what changed</a>
          </span>
        )}
      </Bar>
      {hasChanged && !isConflict && (
        <details>
          <summary>Your changes</summary>
          <Diff before={source.text} after={text} />
        </details>
      )}
    </Panel>
  );
}

const template = `description: What it does, in a sentence.
model: [openai/gpt-5.4-mini, anthropic/claude-sonnet-5]
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
  const session = useResource((signal) => get<{ readonly write: boolean }>("v1/session", {}, { signal }), []);
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
  useEffect(() => {
    const found = drafts.value.has(id) ? undefined : storedDraft(id);
    if (found !== undefined) keep(id, found);
  }, [id]);
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
