/** Edits a file of the folder of personas, with the checker's faults at their lines, and saves it where the server lets it be. What is not saved is kept. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useState } from "preact/hooks";
import type { PersonaSource } from "../../../api/persona-sources.ts";
import { type ApiFailure, post, put } from "../../api.ts";
import { useAction } from "../../data.ts";
import { Copy, Curl } from "../../ui/copy.tsx";
import { Diff } from "../../ui/diff.tsx";
import { Button } from "../../ui/form.tsx";
import { Badge, Bar, Panel } from "../../ui/layout.tsx";
import { Failure } from "../../ui/states.tsx";
import { type Draft, drafts, keep } from "./drafts.ts";
import { type Cursor, Editor } from "./editor.tsx";
import type { FileText, Finding } from "./types.ts";

const checkAfterMs = 400;

/** A file that can be edited. */
type Editable = {
  /** Under which its draft is kept. */
  readonly name: string;
  /** Where it is read and saved. */
  readonly path: string;
  /** Where a text of it is checked, and with what beside the text. */
  readonly check: string;
  readonly with?: object;
};

/** What the checker finds in a text, a moment after the last change. */
function useFindings({ check, with: more }: Editable, text: string, known: FileText) {
  type State = { readonly text: string; readonly findings: readonly Finding[]; readonly error?: ApiFailure };
  const [state, setState] = useState<State>({ text: known.text, findings: known.findings });
  useEffect(() => {
    if (text === known.text) return setState({ text, findings: known.findings });
    const left = new AbortController();
    const timer = setTimeout(() => {
      post<Pick<PersonaSource, "findings">>(check, { ...more, text }, { signal: left.signal }).then(
        ({ findings }) => setState({ text, findings }),
        (error) => !left.signal.aborted && setState((before) => ({ ...before, error })),
      );
    }, checkAfterMs);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [check, text, known]);
  return state;
}

export const readOnlyReasons = {
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

/** @param onGo shows a place in the text; absent: there is none to show */
export function Findings({
  id,
  findings,
  onGo,
}: {
  readonly id?: string;
  readonly findings: readonly Finding[];
  readonly onGo?: (to: Cursor) => void;
}) {
  return (
    <ul {...(id !== undefined && { id })} class="findings" aria-live="polite">
      {findings.length === 0 && <li class="muted">The checker finds nothing.</li>}
      {findings.map(({ severity, line, column, path, message, file }, at) => (
        <li key={at}>
          <Badge tone={severity === "error" ? "bad" : "warn"}>{severity}</Badge>{" "}
          {line === null ? (
            file.slice(file.lastIndexOf("/") + 1)
          ) : onGo === undefined ? (
            `Line ${line}`
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
  readonly theirs: FileText;
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

export function FileEditor<F extends FileText>({
  of,
  source,
  isFresh = false,
  note,
  saved,
  onLoad,
  onSaved,
}: {
  readonly of: Editable;
  readonly source: F;
  /** Whether it was saved a moment ago. */
  readonly isFresh?: boolean;
  readonly note?: ComponentChildren;
  /** What is said once it is saved. */
  readonly saved: ComponentChildren;
  readonly onLoad: () => void;
  readonly onSaved: (saved: F) => void;
}) {
  const { name, path } = of;
  const { read_only: readOnly, file } = source;
  const draft = drafts.value.get(name);
  const text = draft?.text ?? source.text;
  const { findings, error: checkError } = useFindings(of, text, source);
  const [cursor, setCursor] = useState<Cursor>();
  const [isSaved, setSaved] = useState(isFresh);
  const { busy, error, run } = useAction();
  const findingsId = useId();
  const errors = findings.filter(({ severity }) => severity === "error");
  const hasChanged = draft !== undefined && draft.text !== source.text;
  const isConflict = hasChanged && draft.hash !== source.hash;
  const change = (next: string) => {
    setSaved(false);
    const { base, hash } = draft ?? { base: source.text, hash: source.hash };
    keep(name, next === base && hash === source.hash ? undefined : { text: next, base, hash });
  };
  const body = { text, if_hash: draft === undefined ? source.hash : draft.hash };
  const save = async () => {
    const isDone = await run(async () => {
      const done = await put<F>(path, body);
      // What was typed while it was being saved is a change of what was saved.
      const now = drafts.value.get(name);
      keep(
        name,
        now === undefined || now.text === text ? undefined : { text: now.text, base: done.text, hash: done.hash },
      );
      onSaved(done);
    });
    setSaved(isDone);
    if (!isDone) onLoad();
  };
  return (
    <Panel
      title={file.slice(file.lastIndexOf("/") + 1)}
      note={
        <>
          {file} {hasChanged ? <Badge tone="warn">not saved</Badge> : note}
        </>
      }
      actions={
        <>
          <Copy text={text} />
          {readOnly === null ? <Curl method="PUT" path={path} body={body} /> : <Curl path={path} />}
        </>
      }
    >
      {readOnly !== null && readOnlyReasons[readOnly]}
      {isConflict && (
        <Conflict
          theirs={source}
          draft={draft}
          onTake={() => {
            keep(name, { text: draft.text, base: source.text, hash: source.hash });
            // The refusal is answered.
            void run(async () => {});
          }}
          onDrop={() => keep(name, undefined)}
        />
      )}
      <Editor
        label={`Text of ${file}`}
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
        {hasChanged && !isConflict && <Button onClick={() => keep(name, undefined)}>Undo all changes</Button>}
        {errors.length > 0 && hasChanged && <span class="muted">Mend the errors to save.</span>}
        {isSaved && !hasChanged && <span role="status">{saved}</span>}
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
