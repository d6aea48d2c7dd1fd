/** The file of a persona's tests. */
import { useEffect, useState } from "preact/hooks";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Button } from "../../ui/form.tsx";
import { Bar } from "../../ui/layout.tsx";
import { Empty, Loaded } from "../../ui/states.tsx";
import { drafts, keep, takeUp } from "./drafts.ts";
import { FileEditor } from "./file-editor.tsx";
import { type FileText, pathOf } from "./types.ts";

const example = `prompts: ["{{question}}"]
tests:
  - description: answers in one sentence
    vars: { question: Where is my parcel? }
    assert: [{ type: icontains, value: parcel }]
`;

/** Under which the draft of a persona's tests is kept. */
export const testsName = (id: string): string => `${id}.test`;

export function TestSource({ id, onSaved }: { readonly id: string; readonly onSaved: () => void }) {
  const [name, path] = [testsName(id), `${pathOf(id)}/tests`];
  const source = useResource((signal) => get<FileText>(`${path}/source`, {}, { signal }), [id]);
  const [saved, setSaved] = useState<FileText>();
  useEffect(() => void takeUp(name), [name]);
  // What was loaded after the last save goes before it.
  useEffect(() => setSaved(undefined), [source.at]);
  return (
    <Loaded resource={source}>
      {(loaded) => {
        const shown = saved ?? loaded;
        if (shown.hash === null && !drafts.value.has(name))
          return (
            <Empty title="It has no tests yet.">
              <Bar>
                <Button tone="primary" onClick={() => keep(name, { text: example, base: "", hash: null })}>
                  Write the first
                </Button>
                <span>
                  Or ask in <a href={href("playground", [], { model: id })}>the playground</a>, and keep an answer as a
                  test.
                </span>
              </Bar>
            </Empty>
          );
        return (
          <FileEditor
            of={{ name, path: `${path}/source`, check: `${path}/check` }}
            source={shown}
            isFresh={saved !== undefined}
            saved="Saved. Run the tests to see whether they pass."
            onLoad={source.reload}
            onSaved={(next) => {
              setSaved(next);
              onSaved();
            }}
          />
        );
      }}
    </Loaded>
  );
}
