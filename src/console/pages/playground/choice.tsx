/** The choice of a model, a persona, or one of its versions. */
import { useEffect, useState } from "preact/hooks";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Field, Select, TextInput } from "../../ui/form.tsx";
import { Bar } from "../../ui/layout.tsx";
import { loadAll } from "../personas/list.tsx";
import { type Listed, type Persona, pathOf, type Version } from "../personas/types.ts";

export type Known = {
  readonly personas: readonly Persona[];
  readonly models: readonly { readonly id: string }[];
  readonly aliases: readonly string[];
};

export async function loadKnown(signal: AbortSignal): Promise<Known> {
  const [personas, { data: models }, { values }] = await Promise.all([
    loadAll(signal),
    get<Listed<{ readonly id: string }>>("v1/models", { limit: "1000" }, { signal }),
    get<{ readonly values: { readonly aliases?: object } }>("v1/configuration", {}, { signal }),
  ]);
  return { personas, models, aliases: Object.keys(values.aliases ?? {}) };
}

/** @returns undefined: it is no persona */
export const personaOf = ({ personas }: Pick<Known, "personas">, model: string): Persona | undefined =>
  personas.find(({ id }) => id === model.split("@")[0]);

export const suggestionsId = "playground-models";
export const Suggestions = ({ known: { personas, models, aliases } }: { readonly known: Known }) => (
  <datalist id={suggestionsId}>
    {personas.map(({ id }) => (
      <option key={id} value={id} label="persona" />
    ))}
    {aliases.map((name) => (
      <option key={name} value={name} label="alias" />
    ))}
    {models.map(({ id }) => (
      <option key={id} value={id} />
    ))}
  </datalist>
);

function VersionChoice({
  id,
  model,
  onChange,
}: {
  readonly id: string;
  readonly model: string;
  readonly onChange: (model: string) => void;
}) {
  const versions = useResource(
    (signal) => get<Listed<Version>>(`${pathOf(id)}/versions`, { limit: "100" }, { signal }),
    [id],
  );
  const known = (versions.data?.data ?? []).flatMap(({ id: version, labels, in_service: inService }) => [
    ...labels.map((label) => ({ value: label, title: `${label} (${version})` })),
    { value: version, title: `${version}${inService ? ", in service" : ""}` },
  ]);
  const current = model.split("@")[1] ?? "";
  const options = [{ value: "", title: "in service" }, ...known];
  if (!options.some(({ value }) => value === current)) options.push({ value: current, title: current });
  return (
    <Field label="Version">
      <Select value={current} options={options} onChange={(value) => onChange(value === "" ? id : `${id}@${value}`)} />
    </Field>
  );
}

export function Choice({
  label,
  model,
  known,
  error,
  onChange,
}: {
  readonly label: string;
  readonly model: string;
  readonly known: Known;
  readonly error?: string | undefined;
  readonly onChange: (model: string) => void;
}) {
  const [text, setText] = useState(model);
  useEffect(() => setText(model), [model]);
  const persona = personaOf(known, model);
  const choose = () => text.trim() !== model && onChange(text.trim());
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        choose();
      }}
      onChange={choose}
    >
      <Bar>
        <Field label={label} error={error}>
          <TextInput
            value={text}
            onInput={setText}
            list={suggestionsId}
            placeholder="provider/model or namespace/persona"
          />
        </Field>
        {persona !== undefined && <VersionChoice id={persona.id} model={model} onChange={onChange} />}
        {persona !== undefined && <a href={href("personas", [persona.id])}>Its page</a>}
      </Bar>
    </form>
  );
}
