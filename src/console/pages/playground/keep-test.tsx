/** Keeps an answer as a test of a persona: the question that was asked, and what the next answer has to be. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { PersonaTestDraft } from "../../../api/persona-sources.ts";
import { get, post, put } from "../../api.ts";
import { useAction, useResource } from "../../data.ts";
import { go, href } from "../../router.ts";
import { Copy } from "../../ui/copy.tsx";
import { Diff } from "../../ui/diff.tsx";
import { Button, Check, Dialog, Field, TextArea, TextInput } from "../../ui/form.tsx";
import { Bar } from "../../ui/layout.tsx";
import { Failure } from "../../ui/states.tsx";
import { drafts, keep, takeUp } from "../personas/drafts.ts";
import { Findings, readOnlyReasons } from "../personas/file-editor.tsx";
import { testsName } from "../personas/test-source.tsx";
import { type FileText, pathOf } from "../personas/types.ts";
import type { Answer, Json } from "./call.ts";
import { ModelInput } from "./choice.tsx";

/** An assertion that can be chosen. Its values are as they are written. */
type Row = {
  readonly type: string;
  readonly on: boolean;
  readonly value?: string;
  readonly threshold?: string;
  readonly provider?: string;
  /** What the value is. */
  readonly words: string;
};

function isJson(text: string): boolean {
  try {
    return typeof (JSON.parse(text) ?? "") === "object";
  } catch {
    return false;
  }
}

/** Characters of an answer that is expected as a whole. */
const maxWhole = 80;

/** @param selected a part of the answer that somebody has marked */
function suggested({ text, tools, totalMs = 0, usage }: Answer, selected: string): readonly Row[] {
  const isData = isJson(text);
  const called = tools.map(({ name }) => name).join(", ");
  // A long answer is never the same again: which part of it matters has to be said.
  const part = selected || (text.length <= maxWhole ? text.trim() : "");
  return [
    { type: "icontains", on: !isData && part !== "", value: part, words: "holds, in any case of letters" },
    { type: "not-icontains", on: false, value: "", words: "does not hold" },
    { type: "equals", on: isData && !selected, value: text, words: isData ? "is JSON that equals" : "is exactly" },
    { type: "regex", on: false, value: "", words: "fits the regular expression" },
    { type: "is-json", on: false, words: "is JSON" },
    ...(called === "" ? [] : [{ type: "trajectory:tool-used", on: true, value: called, words: "calls the tools" }]),
    { type: "llm-rubric", on: false, value: "", provider: "", words: "does, as a model judges" },
    { type: "latency", on: false, threshold: String(Math.ceil(totalMs / 500) * 1_000), words: "milliseconds at most" },
    {
      type: "cost",
      on: false,
      threshold: String(Number(((usage?.cost ?? 0) * 2).toPrecision(2))),
      words: "dollars at most",
    },
  ];
}

/** What is written as a text, as the assertion has it: names in a list, and JSON that an answer equals as what it says. */
function writtenValue(type: string, value: string): unknown {
  if (type === "trajectory:tool-used") return value.split(/\s*,\s*/);
  return type === "equals" && isJson(value) ? JSON.parse(value) : value;
}

function assertionOf({ type, value, threshold, provider }: Row): Json {
  return {
    type,
    ...(value !== undefined && { value: writtenValue(type, value) }),
    ...(threshold !== undefined && { threshold: Number(threshold) }),
    ...(provider && { provider }),
  };
}

function Assertion({ row, onChange }: { readonly row: Row; readonly onChange: (row: Row) => void }) {
  const { type, on, value, threshold, provider, words } = row;
  const set = (changes: Partial<Row>) => onChange({ ...row, on: true, ...changes });
  return (
    <div class="assertion">
      <Check label={`${type}: ${words}`} checked={on} onChange={(next) => set({ on: next })} />
      {on && value !== undefined && (
        <TextArea aria-label={`${type}: value`} rows={1} value={value} onInput={(next) => set({ value: next })} />
      )}
      {on && threshold !== undefined && (
        <TextInput
          type="number"
          aria-label={`${type}: threshold`}
          min={0}
          step="any"
          value={threshold}
          onInput={(next) => set({ threshold: next })}
        />
      )}
      {on && provider !== undefined && (
        <ModelInput label="The model that judges" model={provider} onChange={(next) => set({ provider: next })} />
      )}
    </div>
  );
}

const typedMs = 300;

function KeepForm({ answer, persona, selected }: KeepProps & { readonly selected: string }) {
  const [id, setId] = useState(persona ?? "");
  const [description, setDescription] = useState("");
  const [rows, setRows] = useState(() => suggested(answer, selected));
  const [keptAs, setKeptAs] = useState<string>();
  const { busy, error, run } = useAction();
  const { model: _, messages, variables, ...fields } = answer.body;
  const name = testsName(id);
  useEffect(() => void takeUp(name), [name]);
  // What is written there already and not saved goes along.
  const begun = drafts.value.get(name);
  const body = {
    messages: (messages as readonly Json[]).filter(({ role }) => role !== "system"),
    ...{ fields, assert: rows.filter(({ on }) => on).map(assertionOf) },
    ...(variables !== undefined && { variables }),
    ...(description !== "" && { description }),
    ...(begun && { text: begun.text }),
  };
  const path = `${pathOf(id)}/tests`;
  const drafted = useResource(
    async (signal) => {
      await new Promise((resolve) => setTimeout(resolve, typedMs));
      if (signal.aborted || !id.includes("/")) return undefined;
      return Promise.all([
        post<PersonaTestDraft>(`${path}/draft`, body, { signal }),
        get<FileText>(`${path}/source`, {}, { signal }),
      ]);
    },
    [id, body],
  );
  // What was made before stays while the next is on its way.
  const shown = useRef(drafted.data);
  shown.current = drafted.data ?? (drafted.error === undefined ? shown.current : undefined);
  const [made, source] = shown.current ?? [];
  const isFit = !drafted.loading && made !== undefined && !made.findings.some(({ severity }) => severity === "error");
  const isChanged = error?.code === "persona_changed";
  const save = async () => {
    const isDone = await run(async () => {
      await put(`${path}/source`, { text: made!.text, if_hash: begun === undefined ? made!.hash : begun.hash });
      keep(name, undefined);
    });
    if (isDone) setKeptAs(id);
    else drafted.reload();
  };
  if (keptAs !== undefined)
    return (
      <p role="status">
        Kept. <a href={href("personas", [keptAs, "tests"])}>See the tests of {keptAs}, and run them</a>
      </p>
    );
  return (
    <div class="keep">
      <ModelInput
        label="Test of the persona"
        model={id}
        onChange={setId}
        error={id === "" ? "Choose one." : undefined}
      />
      <Field label="What it tests" hint="Empty: how the question begins.">
        <TextInput value={description} onInput={setDescription} />
      </Field>
      <fieldset>
        <legend>The answer …</legend>
        {body.assert.length === 0 && (
          <p class="muted">Choose what it has to be. What you mark in the answer before is suggested.</p>
        )}
        {rows.map((row, at) => (
          <Assertion key={row.type} row={row} onChange={(next) => setRows(rows.with(at, next))} />
        ))}
      </fieldset>
      {drafted.error !== undefined && <Failure error={drafted.error} />}
      {made !== undefined && source !== undefined && (
        <div class="keep" aria-busy={drafted.loading}>
          {begun !== undefined && (
            <p class="notice">It is put into what you have written in that file and not saved.</p>
          )}
          <Diff before={begun?.text ?? source.text} after={made.text} />
          <Findings findings={made.findings} />
          {source.read_only !== null && readOnlyReasons[source.read_only]}
          {isChanged && (
            <p class="notice warn" role="alert">
              Somebody has changed the file meanwhile; nothing was saved. This is your test in the file as it is now.
            </p>
          )}
          {error !== undefined && !isChanged && <Failure error={error} />}
          <Bar>
            {source.read_only === null && (
              <Button tone="primary" busy={busy} disabled={!isFit || body.assert.length === 0} onClick={save}>
                Save
              </Button>
            )}
            <Button
              disabled={drafted.loading}
              onClick={() => {
                keep(name, {
                  text: made.text,
                  base: begun?.base ?? source.text,
                  hash: begun === undefined ? made.hash : begun.hash,
                });
                go(href("personas", [id, "tests"]));
              }}
            >
              Edit it in the file
            </Button>
            <Copy text={made.text} label="Copy the file" />
          </Bar>
        </div>
      )}
    </div>
  );
}

type KeepProps = { readonly answer: Answer; readonly persona: string | undefined };

export function KeepTest(props: KeepProps) {
  const { text } = props.answer;
  const [selected, setSelected] = useState<string>();
  const open = () => {
    const marked = String(getSelection()).trim();
    setSelected(text.includes(marked) ? marked.slice(0, 1_000) : "");
  };
  return (
    <>
      <Button onClick={open}>Keep as a test</Button>
      <Dialog title="Keep as a test" open={selected !== undefined} onClose={() => setSelected(undefined)}>
        <KeepForm {...props} selected={selected ?? ""} />
      </Dialog>
    </>
  );
}
