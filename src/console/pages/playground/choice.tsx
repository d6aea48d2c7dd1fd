/** The choice of a model, a persona, or one of its versions. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Field, Select, TextInput } from "../../ui/form.tsx";
import { Failure } from "../../ui/states.tsx";
import type { Listed } from "../personas/types.ts";

type Known = {
  readonly id: string;
  readonly kind: "persona" | "version" | "alias" | "model";
  readonly title: string;
  readonly persona: string | null;
};

/** Shown at once, of however many there are. */
const maxShown = "30";
const maxVersions = "1000";
const typedMs = 150;

const find = (search: string, limit: string, signal: AbortSignal) =>
  get<Listed<Known>>("v1/playground/models", { search, limit }, { signal }).then(({ data }) => data);

/** @returns the id of the persona that would answer; undefined: a model would, or nobody */
export async function personaOf(model: string, signal: AbortSignal): Promise<string | undefined> {
  if (model === "") return undefined;
  // A version may be of a persona that is gone, and a label may be gone.
  const name = model.split("@")[0]!;
  const [known] = await find(name, "1", signal);
  return (known?.id === name ? known.persona : undefined) ?? undefined;
}

/** A field for the name of a model or persona, with those that fit what is typed. */
export function ModelInput({
  label,
  model,
  error,
  onChange,
}: {
  readonly label: string;
  readonly model: string;
  readonly error?: string | undefined;
  readonly onChange: (model: string) => void;
}) {
  const [text, setText] = useState(model);
  const [search, setSearch] = useState(model);
  const listId = useId();
  const shown = useRef(model);
  useEffect(() => {
    // What was typed before the first paint stays.
    if (shown.current !== model) setText(model);
    shown.current = model;
  }, [model]);
  useEffect(() => {
    const timer = setTimeout(() => setSearch(text), typedMs);
    return () => clearTimeout(timer);
  }, [text]);
  const found = useResource((signal) => find(search, maxShown, signal), [search]);
  return (
    <>
      <Field label={label} error={error}>
        <TextInput
          value={text}
          onInput={setText}
          onChange={(chosen) => onChange(chosen.trim())}
          list={listId}
          placeholder="provider/model or namespace/persona"
        />
      </Field>
      <datalist id={listId}>
        {found.data?.map(({ id, kind, title }) => (
          <option key={id} value={id} label={kind === "model" ? undefined : `${kind}${title && `: ${title}`}`} />
        ))}
      </datalist>
      {found.error !== undefined && <Failure error={found.error} retry={found.reload} />}
    </>
  );
}

function VersionChoice({
  id,
  model,
  onChange,
}: {
  readonly id: string;
  readonly model: string;
  readonly onChange: (model: string) => void;
}) {
  const versions = useResource((signal) => find(`${id}@`, maxVersions, signal), [id]);
  const known = (versions.data ?? []).map((one) => ({
    value: one.id,
    title: `${one.id.slice(id.length + 1)}${one.title && ` (${one.title})`}`,
  }));
  const options = [{ value: id, title: "in service" }, ...known];
  if (!options.some(({ value }) => value === model)) options.push({ value: model, title: model.slice(id.length + 1) });
  return (
    <Field label="Version">
      <Select value={model} options={options} onChange={onChange} />
    </Field>
  );
}

export function Choice({
  label,
  model,
  persona,
  error,
  onChange,
}: {
  readonly label: string;
  readonly model: string;
  /** The id of the persona that it is. */
  readonly persona: string | undefined;
  readonly error?: string | undefined;
  readonly onChange: (model: string) => void;
}) {
  return (
    <div class="bar choice">
      <ModelInput label={label} model={model} error={error} onChange={onChange} />
      {persona !== undefined && model.startsWith(persona) && (
        <VersionChoice id={persona} model={model} onChange={onChange} />
      )}
      {persona !== undefined && <a href={href("personas", [persona])}>Its page</a>}
    </div>
  );
}
