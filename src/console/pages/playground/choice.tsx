/** The choice of a model, a persona, or one of its versions. */

import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { PlaygroundModel } from "../../../api/playground.ts";
import type { Listed } from "../../../api/shape.ts";
import { get } from "../../api.ts";
import { useResource } from "../../data.ts";
import { href } from "../../router.ts";
import { Field, Select } from "../../ui/form.tsx";
import { type Option, Options, stepped } from "../../ui/options.tsx";
import { Failure } from "../../ui/states.tsx";

/** Shown at once, of however many there are. */
const maxShown = "30";
const maxVersions = "1000";
const typedMs = 150;

const find = (search: string, limit: string, signal: AbortSignal, first?: string) =>
  get<Listed<PlaygroundModel>>("v1/playground/models", { search, limit, first }, { signal }).then(({ data }) => data);

const maxRecent = 8;
const recentName = "troupe.recent";
/** Whom this browser asked last. */
const recent = () => (localStorage.getItem(recentName) ?? "").split(",").filter((id) => id !== "");
/** @param model a name, which has no comma */
export function keepRecent(model: string): void {
  const kept = [model, ...recent().filter((id) => id !== model)].slice(0, maxRecent);
  localStorage.setItem(recentName, kept.join());
}

/** @returns the id of the persona that would answer; undefined: a model would, or nobody */
export async function personaOf(model: string, signal: AbortSignal): Promise<string | undefined> {
  if (model === "") return undefined;
  // A version may be of a persona that is gone, and a label may be gone.
  const name = model.split("@")[0]!;
  const [known] = await find(name, "1", signal);
  return (known?.id === name ? known.persona : undefined) ?? undefined;
}

const dollars = (number: number) => `$${Number(number.toPrecision(3))}`;

function noteOf({ id, kind, title, pricing }: PlaygroundModel, asked: readonly string[]): string {
  const price = pricing && `${dollars(pricing.input)} in, ${dollars(pricing.output)} out a million`;
  const words = kind === "model" ? price : `${kind}${title && `: ${title}`}`;
  return [asked.includes(id) ? "recent" : "", words ?? ""].filter((one) => one !== "").join(" · ");
}

/** A field for the name of a model or persona, with those that fit what is typed; before that, with all, those that were asked last first. */
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
  /** Undefined: it is closed. Empty: nothing was typed since it was opened. */
  const [typed, setTyped] = useState<string>();
  const [search, setSearch] = useState("");
  const [at, setAt] = useState(-1);
  const listId = useId();
  const shown = useRef(model);
  useEffect(() => {
    // What was typed before the first paint stays.
    if (shown.current !== model) setText(model);
    shown.current = model;
  }, [model]);
  useEffect(() => {
    const timer = setTimeout(() => setSearch(typed ?? ""), typed ? typedMs : 0);
    return () => clearTimeout(timer);
  }, [typed]);
  const isOpen = typed !== undefined;
  const asked = recent();
  const found = useResource(
    async (signal) => (isOpen ? find(search, maxShown, signal, asked.join() || undefined) : []),
    [search, isOpen],
  );
  const close = () => {
    setTyped(undefined);
    setAt(-1);
  };
  const options = (found.data ?? []).map(
    (one): Option => ({
      ...{ id: one.id, words: one.id, note: noteOf(one, asked) },
      take: () => {
        setText(one.id);
        close();
        onChange(one.id);
      },
    }),
  );
  const press = (event: KeyboardEvent) => {
    const to = stepped(event, at < 0 && event.key === "ArrowUp" ? 0 : at, options.length);
    if (to !== undefined) {
      if (isOpen) setAt(to);
      else setTyped("");
    } else if (event.key === "Escape" && isOpen) close();
    else if (event.key === "Enter" && isOpen) {
      // What is typed is taken as it is, where nothing of the list was gone to.
      if (options[at] === undefined) {
        close();
        return;
      }
      options[at].take();
    } else return;
    event.preventDefault();
  };
  return (
    <div class="field-with-options">
      <Field label={label} error={error}>
        <input
          type="text"
          role="combobox"
          autocomplete="off"
          spellcheck={false}
          aria-autocomplete="list"
          aria-expanded={isOpen}
          aria-controls={listId}
          aria-activedescendant={options[at] && `${listId}-${options[at].id}`}
          placeholder="provider/model or namespace/persona"
          value={text}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setTyped(event.currentTarget.value);
            setAt(-1);
          }}
          onChange={(event) => onChange(event.currentTarget.value.trim())}
          onFocus={() => setTyped("")}
          onClick={() => setTyped((before) => before ?? "")}
          onBlur={close}
          onKeyDown={press}
        />
      </Field>
      <Options
        {...{ id: listId, label: "Models and personas that fit", options, at, isShown: isOpen }}
        none={found.data === undefined ? "Looking…" : "None is called so: a provider may know it all the same."}
      />
      {found.error !== undefined && <Failure error={found.error} retry={found.reload} />}
    </div>
  );
}

/** There from the beginning, so that nothing moves once it is known that a persona answers. */
function VersionChoice({
  id,
  model,
  onChange,
}: {
  /** Of the persona; undefined: none answers. */
  readonly id: string | undefined;
  readonly model: string;
  readonly onChange: (model: string) => void;
}) {
  const versions = useResource(async (signal) => (id === undefined ? [] : find(`${id}@`, maxVersions, signal)), [id]);
  if (id === undefined)
    return (
      <Field label="Version">
        <Select value="" options={[{ value: "", title: "–" }]} onChange={() => {}} disabled />
      </Field>
    );
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
      <VersionChoice
        id={persona !== undefined && model.startsWith(persona) ? persona : undefined}
        model={model}
        onChange={onChange}
      />
      {persona !== undefined && <a href={href("personas", [persona])}>Its page</a>}
    </div>
  );
}
