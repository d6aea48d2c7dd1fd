/** Goes to anything by its name: pages, keys, personas, models and calls; and says which keys do what. */

import { signal } from "@preact/signals";
import { useEffect, useId, useState } from "preact/hooks";
import type { KeyPage } from "../api/keys.ts";
import type { PlaygroundModel } from "../api/playground.ts";
import type { Listed } from "../api/shape.ts";
import { get } from "./api.ts";
import { useResource } from "./data.ts";
import { pageTitles } from "./page-titles.ts";
import { withoutSecret } from "./pages/keys/types.ts";
import { go, href } from "./router.ts";
import { Dialog } from "./ui/form.tsx";
import { type Option, Options, stepped } from "./ui/options.tsx";
import { isFree } from "./ui/rows.ts";

const shown = signal<"palette" | "keys" | undefined>(undefined);
export const openPalette = () => {
  shown.value = "palette";
};
const close = () => {
  shown.value = undefined;
};

addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]") !== null) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") openPalette();
  else if (isFree(event) && event.key === "?") shown.value = "keys";
  else return;
  event.preventDefault();
});

type Place = { readonly title: string; readonly note: string; readonly href: string };

const parts: readonly (readonly [title: string, page: string, part: string])[] = [
  ["Budgets", "keys", "budgets"],
  ["Doctor", "system", "doctor"],
  ["Alerts", "system", "alerts"],
  ["Facts and bills", "system", "facts"],
  ["Nodes", "system", "nodes"],
  ["Configuration", "system", "configuration"],
  ["Sessions", "system", "sessions"],
  ["Audit", "system", "audit"],
];
const pages: readonly Place[] = [
  ...pageTitles.map(({ name, title }) => ({ title, note: "page", href: href(name) })),
  ...parts.map(([title, page, part]) => ({ title, note: "page", href: href(page, [part]) })),
];

const most = "6";
const typedMs = 120;

async function find(search: string, signal: AbortSignal): Promise<readonly Place[]> {
  if (search === "") return [];
  const asked = { search, limit: most };
  const [keys, models] = await Promise.all([
    get<KeyPage>("v1/keys", asked, { signal }),
    get<Listed<PlaygroundModel>>("v1/playground/models", asked, { signal }),
  ]);
  return [
    ...keys.data.map(({ id, name, prefix }) => ({ title: name, note: `key ${prefix}…`, href: href("keys", [id]) })),
    ...models.data.map(({ id, kind }) =>
      kind === "persona"
        ? { title: id, note: "persona", href: href("personas", [id]) }
        : { title: id, note: `calls of this ${kind}`, href: href("calls", [], { model: id }) },
    ),
  ];
}

/** Request ids are found as they are written: whole. */
const callOf = (text: string): readonly Place[] =>
  /^req_\S{8,100}$/.test(text) ? [{ title: text, note: "call", href: href("calls", [text]) }] : [];

function Palette() {
  const [typed, setTyped] = useState("");
  const [search, setSearch] = useState("");
  const [at, setAt] = useState(0);
  const listId = useId();
  const text = withoutSecret(typed.trim());
  useEffect(() => {
    const timer = setTimeout(() => setSearch(text), typedMs);
    return () => clearTimeout(timer);
  }, [text]);
  const found = useResource((left) => find(search, left), [search]);
  const fits = ({ title }: Place) => title.toLowerCase().includes(text.toLowerCase());
  const isNew = search === text;
  const places = [...callOf(text), ...pages.filter(fits), ...(found.data ?? []).filter((one) => isNew || fits(one))];
  const options = places.map(
    ({ title, note, href: to }): Option => ({
      ...{ id: to, words: title, note },
      take: () => {
        close();
        go(to);
      },
    }),
  );
  const current = options[Math.min(at, options.length - 1)];
  const isLooking = !isNew || found.loading;
  return (
    <div class="palette">
      <input
        type="text"
        role="combobox"
        autocomplete="off"
        spellcheck={false}
        autofocus
        aria-label="Go to"
        aria-expanded="true"
        aria-controls={listId}
        aria-activedescendant={current && `${listId}-${current.id}`}
        placeholder="A page, a key, a persona, a model, or a request id"
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const to = stepped(event, at, options.length);
          if (to !== undefined) setAt(to);
          else if (event.key === "Enter") current?.take();
          else return;
          event.preventDefault();
        }}
      />
      <Options
        {...{ id: listId, label: "Places that fit", options, at: Math.min(at, options.length - 1), isShown: true }}
        none={isLooking ? "Looking…" : found.error === undefined ? "Nothing is called so." : found.error.message}
      />
    </div>
  );
}

const keys = [
  ["Ctrl K", "go to a page, a key, a persona, a model or a call"],
  ["j k", "the next row and the one before; beside an open call, the next call"],
  ["Enter", "open the row"],
  ["Esc", "close what is open"],
  ["Ctrl Enter", "send the question of the playground"],
  ["← →", "in a chart: read its values; Enter opens their calls"],
  ["?", "this list"],
] as const;

export function PaletteDialogs() {
  return (
    <>
      <Dialog title="Go to" isBare open={shown.value === "palette"} onClose={close}>
        <Palette />
      </Dialog>
      <Dialog title="Keys" open={shown.value === "keys"} onClose={close}>
        <dl class="keys">
          {keys.map(([key, words]) => (
            <>
              <dt>
                <kbd>{key}</kbd>
              </dt>
              <dd>{words}</dd>
            </>
          ))}
        </dl>
      </Dialog>
    </>
  );
}
