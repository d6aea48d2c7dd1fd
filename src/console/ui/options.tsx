/** What fits what is typed, below the field that it is typed into. */
import { useEffect } from "preact/hooks";
import "./options.css";

export type Option = {
  readonly id: string;
  readonly words: string;
  readonly note?: string | undefined;
  readonly take: () => void;
};

type ListProps = {
  readonly id: string;
  readonly label: string;
  readonly options: readonly Option[];
  readonly at: number;
  /** Said where nothing fits. */
  readonly none: string | undefined;
  readonly isShown: boolean;
};

/** @returns the option that an arrow key leads to; undefined: it is another key */
export function stepped({ key }: KeyboardEvent, at: number, length: number): number | undefined {
  const by = { ArrowDown: 1, ArrowUp: -1 }[key];
  if (by === undefined) return undefined;
  return length === 0 ? 0 : (Math.min(at, length - 1) + by + length) % length;
}

export function Options({ id: listId, label, options, at, none, isShown }: ListProps) {
  const current = options[at]?.id;
  useEffect(() => document.getElementById(`${listId}-${current}`)?.scrollIntoView({ block: "nearest" }), [current]);
  return (
    <div id={listId} role="listbox" aria-label={label} hidden={!isShown} tabIndex={-1}>
      {options.map(({ id, words: name, note, take: choose }, index) => (
        <div
          key={id}
          id={`${listId}-${id}`}
          role="option"
          tabIndex={-1}
          aria-selected={index === at}
          // Before the field loses the focus.
          onPointerDown={(event) => {
            event.preventDefault();
            choose();
          }}
        >
          <span>{name}</span>
          {note !== undefined && <small class="muted">{note}</small>}
        </div>
      ))}
      {none !== undefined && options.length === 0 && <p class="muted">{none}</p>}
    </div>
  );
}
