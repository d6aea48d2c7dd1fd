/** What can be done with one row, behind a button: a menu by arrow keys, which Escape and a press elsewhere close. */
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { Icon } from "./icon.tsx";
import "./menu.css";

/** Either leads somewhere or does something. */
export type RowAction = {
  readonly title: string;
  readonly href?: string;
  readonly run?: () => unknown;
  readonly isDanger?: boolean;
};

const dots = "M3.5 8h.01M8 8h.01M12.5 8h.01";
const gap = 4;

/** @param of whose actions they are, for screen readers */
export function ActionMenu({ of, actions }: { readonly of: string; readonly actions: readonly RowAction[] }) {
  const id = useId();
  const opener = useRef<HTMLButtonElement>(null);
  const menu = useRef<HTMLDivElement>(null);
  const [isOpen, setOpen] = useState(false);
  const items = () => [...menu.current!.querySelectorAll<HTMLElement>("[role=menuitem]")];
  const close = () => {
    menu.current!.hidePopover();
    opener.current!.focus();
  };
  useEffect(() => {
    if (!isOpen) return;
    items()[0]?.focus();
    const leave = () => menu.current?.hidePopover();
    addEventListener("scroll", leave, { capture: true, once: true });
    return () => removeEventListener("scroll", leave, { capture: true });
  }, [isOpen]);
  /** Below its button, or above it where there is more room: it lies over whatever scrolls. */
  const place = () => {
    const { top, bottom, right } = opener.current!.getBoundingClientRect();
    const { style } = menu.current!;
    const isBelow = bottom < innerHeight * 0.6;
    style.top = isBelow ? `${bottom + gap}px` : "auto";
    style.bottom = isBelow ? "auto" : `${innerHeight - top + gap}px`;
    style.right = `${Math.max(gap, document.documentElement.clientWidth - right)}px`;
  };
  const press = (event: KeyboardEvent) => {
    const all = items();
    const at = all.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + all.length, Home: 0, End: all.length - 1 }[event.key];
    event.stopPropagation();
    if (event.key === "Tab") return menu.current!.hidePopover();
    if (event.key === "Escape") close();
    else if (to === undefined) return;
    else all[to % all.length]!.focus();
    event.preventDefault();
  };
  const item = { role: "menuitem", tabIndex: -1 } as const;
  return (
    <>
      <button
        type="button"
        class="button quiet dots"
        ref={opener}
        popovertarget={id}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-label={`Actions: ${of}`}
      >
        <Icon path={dots} />
      </button>
      <div
        id={id}
        role="menu"
        aria-label={of}
        class="menu-body"
        popover="auto"
        tabIndex={-1}
        ref={menu}
        onKeyDown={press}
        onBeforeToggle={({ newState }: { readonly newState: string }) => {
          if (newState === "open") place();
          setOpen(newState === "open");
        }}
      >
        {isOpen &&
          actions.map(({ title, href, run, isDanger = false }) =>
            href === undefined ? (
              <button
                key={title}
                {...item}
                type="button"
                class={`button ${isDanger ? "danger" : ""}`}
                onClick={() => {
                  close();
                  run?.();
                }}
              >
                {title}
              </button>
            ) : (
              <a key={title} {...item} class="button" href={href} onClick={() => menu.current!.hidePopover()}>
                {title}
              </a>
            ),
          )}
      </div>
    </>
  );
}
