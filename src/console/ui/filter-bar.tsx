/** One line by which a list is filtered: names and values are suggested as one types, each filter in force is a button that takes it away. */
import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { route, setQuery } from "../router.ts";
import { Button } from "./form.tsx";
import "./filter-bar.css";
import { type Option, Options, stepped } from "./options.tsx";

type Suggestion = { readonly value: string; readonly title?: string | undefined };

export type Filter = {
  /** The parameter of the address, and what stands before the colon. */
  readonly name: string;
  /** What it means, in a word or two. */
  readonly title: string;
  /** Asked for once it is chosen; absent: any text, or none where `isGiven`. */
  readonly suggest?: (signal: AbortSignal, typed: string) => readonly Suggestion[] | Promise<readonly Suggestion[]>;
  /** Whether what is typed is looked for there, as there are more than are suggested at once. */
  readonly isSearched?: boolean;
  /** Whether only what is suggested can be chosen. */
  readonly isClosed?: boolean;
  /** Set by links from elsewhere: shown, not offered. */
  readonly isGiven?: boolean;
};

export type FilterBarProps = {
  readonly filters: readonly Filter[];
  /** The filter that a text without a name is for; absent: a name is needed. */
  readonly free?: string;
  /** Parameters that go with each change, such as the place in the list. */
  readonly dropped?: readonly string[];
  /** How a value is shown, where not as it is. */
  readonly shown?: (name: string, value: string) => string | undefined;
  /** What a text becomes before it is kept in an address. */
  readonly cleaned?: (text: string) => string;
  /** Beside the line: the time, the order. */
  readonly children?: ComponentChildren;
};

const maxShown = 12;
const maxKnown = 200;
const words = (name: string) => name.replaceAll("_", " ");

/** What is typed: a filter's name and what stands behind the colon, or a text alone. */
function parse(text: string, filters: readonly Filter[]): { readonly filter?: Filter; readonly text: string } {
  const colon = text.indexOf(":");
  const name = text.slice(0, colon).trim().replaceAll(" ", "_");
  const filter =
    colon < 0 ? undefined : filters.find((one) => one.name === name || one.title.toLowerCase() === words(name));
  return filter === undefined ? { text: text.trim() } : { filter, text: text.slice(colon + 1).trim() };
}

/** @returns what a filter suggests, once it is chosen. @param text typed so far */
function useSuggestions(filter: Filter | undefined, text: string): readonly Suggestion[] | undefined {
  const [known, setKnown] = useState<Readonly<Record<string, readonly Suggestion[]>>>({});
  const { name, isSearched = false } = filter ?? {};
  const searched = isSearched ? text : "";
  useEffect(() => {
    if (filter?.suggest === undefined) return;
    const left = new AbortController();
    Promise.resolve(filter.suggest(left.signal, searched)).then(
      // What was found before and fits as well stands behind it.
      (found) =>
        !left.signal.aborted &&
        setKnown((before) => {
          const added = (before[filter.name] ?? []).filter(({ value }) => !found.some((one) => one.value === value));
          return { ...before, [filter.name]: found.concat(added).slice(0, maxKnown) };
        }),
      // What can't be suggested can be typed.
      () => {},
    );
    return () => left.abort();
  }, [name, searched]);
  return name === undefined ? undefined : known[name];
}

type Acts = {
  readonly take: (name: string, value: string) => void;
  readonly write: (text: string) => void;
};

/** @returns what fits what is typed: names of filters, then values of one */
function optionsFor(
  { filters, free }: Pick<FilterBarProps, "filters" | "free">,
  { filter, text }: ReturnType<typeof parse>,
  suggested: readonly Suggestion[] | undefined,
  acts: Acts,
): readonly Option[] {
  const fits = (one: string) => one.toLowerCase().includes(text.toLowerCase());
  const options: Option[] = [];
  if (filter === undefined) {
    if (free !== undefined && text !== "")
      options.push({
        id: "free",
        words: text,
        note: filters.find(({ name }) => name === free)?.title,
        take: () => acts.take(free, text),
      });
    for (const { name, title, isGiven } of filters)
      if (!isGiven && name !== free && (fits(words(name)) || fits(title)))
        options.push({ id: name, words: `${words(name)}:`, note: title, take: () => acts.write(`${name}:`) });
  } else {
    const { name, isClosed } = filter;
    const found = (suggested ?? []).filter(({ value, title }) => fits(value) || fits(title ?? ""));
    const isKnown = found.some(({ value, title }) => value === text || title === text);
    if (text !== "" && !isKnown && !isClosed)
      options.push({
        id: "typed",
        words: text,
        note: "as it is written: the whole name",
        take: () => acts.take(name, text),
      });
    for (const { value, title } of found.slice(0, maxShown))
      options.push({
        id: `of ${value}`,
        words: title ?? value,
        ...(title !== undefined && title !== value && { note: value }),
        take: () => acts.take(name, value),
      });
  }
  return options;
}

type ChipsProps = {
  readonly names: readonly string[];
  readonly shown: FilterBarProps["shown"];
  readonly remove: (name: string) => void;
};

function Chips({ names, shown, remove }: ChipsProps) {
  return (
    <>
      {names.map((name) => {
        const value = route.value.query.get(name) ?? "";
        return (
          <Button key={name} onClick={() => remove(name)}>
            {words(name)}: {shown?.(name, value) ?? (value.replaceAll(",", ", ") || "none")}{" "}
            <span aria-hidden="true">✕</span>
            <span class="unseen">, remove this filter</span>
          </Button>
        );
      })}
    </>
  );
}

/** What is typed, and which of the suggestions is at hand. @param choose sets a filter */
function useLine(choose: (name: string, value: string) => void) {
  const input = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState("");
  const [isOpen, setOpen] = useState(false);
  const [at, setAt] = useState(0);
  const write = (next: string) => {
    setTyped(next);
    setAt(0);
    setOpen(true);
    input.current?.focus();
  };
  const take = (name: string, value: string) => {
    if (value === "") return;
    choose(name, value);
    setTyped("");
    setAt(0);
    setOpen(false);
  };
  return { input, typed, setTyped, isOpen, setOpen, at, setAt, write, take };
}

/** @returns names of the filters that the address has */
export const inForceOf = (filters: readonly Filter[]) =>
  [...route.value.query.keys()].filter(
    (name) => filters.some((one) => one.name === name) || name.startsWith("metadata."),
  );

function hintOf(filters: readonly Filter[], free: string | undefined): string {
  const offered = filters.filter(({ isGiven, name }) => !isGiven && name !== free);
  const names = offered.slice(0, 3).map(({ name }) => `${words(name)}:`);
  return free === undefined ? `Filter by ${names.join(" ")}…` : `Find, or filter by ${names.join(" ")}…`;
}

export function FilterBar({ filters, free, dropped = [], shown, cleaned = String, children }: FilterBarProps) {
  const inForce = inForceOf(filters);
  const listId = useId();
  const { input, typed, setTyped, isOpen, setOpen, at, setAt, write, take } = useLine((name, text) =>
    change(name, cleaned(text)),
  );
  const { filter, text } = parse(typed, filters);
  const suggested = useSuggestions(filter, text);
  const change = (name: string, value: string | undefined) =>
    setQuery({ ...Object.fromEntries(dropped.map((one) => [one, undefined])), [name]: value });
  const options = optionsFor(
    { filters, ...(free !== undefined && { free }) },
    { ...(filter && { filter }), text },
    suggested,
    { take, write },
  );
  const current = options[Math.min(at, options.length - 1)];
  const press = (event: KeyboardEvent) => {
    const to = stepped(event, at, options.length);
    if (to !== undefined) {
      setOpen(true);
      setAt(to);
    } else if (event.key === "Enter" && isOpen && current !== undefined) current.take();
    else if (event.key === "Escape" && (isOpen || typed !== "")) {
      if (isOpen) setOpen(false);
      else setTyped("");
    } else if (event.key === "Backspace" && typed === "") {
      const last = inForce.at(-1);
      if (last !== undefined) change(last, undefined);
      return;
    } else return;
    event.preventDefault();
  };
  const isShown = isOpen && (options.length > 0 || filter !== undefined);
  return (
    <div class="filter-bar">
      <fieldset class="filter-line">
        <legend class="unseen">Filters</legend>
        <Chips names={inForce} shown={shown} remove={(name) => change(name, undefined)} />
        <div class="filter-input">
          <input
            ref={input}
            type="text"
            role="combobox"
            autocomplete="off"
            spellcheck={false}
            aria-label="Add a filter"
            aria-autocomplete="list"
            aria-expanded={isShown}
            aria-controls={listId}
            aria-activedescendant={isShown && current !== undefined ? `${listId}-${current.id}` : undefined}
            placeholder={inForce.length > 0 ? "Add filter" : hintOf(filters, free)}
            value={typed}
            onInput={(event) => write(event.currentTarget.value)}
            onFocus={() => setOpen(true)}
            // Who is in it already, and clicks, wants to see what there is.
            onClick={() => setOpen(true)}
            onBlur={() => setOpen(false)}
            onKeyDown={press}
          />
          <Options
            {...{ id: listId, label: "Filters that fit", options, isShown, at: Math.min(at, options.length - 1) }}
            none={filter && (filter.suggest && !suggested ? "Looking…" : "Type a whole name.")}
          />
        </div>
        {inForce.length > 1 && (
          <Button
            tone="quiet"
            onClick={() => setQuery(Object.fromEntries([...inForce, ...dropped].map((name) => [name, undefined])))}
          >
            Clear
          </Button>
        )}
      </fieldset>
      {children}
    </div>
  );
}
