/** A button that opens a few choices below it; a press elsewhere and Escape close them. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "./menu.css";

type MenuProps = {
  /** What stands on the button. */
  readonly title: ComponentChildren;
  /** For a button whose title is no words. */
  readonly label?: string;
  readonly children: ComponentChildren;
};

export function Menu({ title, label, children }: MenuProps) {
  const place = useRef<HTMLDetailsElement>(null);
  useEffect(() => {
    const own = place.current!;
    const close = (event: Event) => {
      if (own.open && !(event.target instanceof Node && own.contains(event.target))) own.open = false;
    };
    const press = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || !own.open) return;
      event.preventDefault();
      event.stopPropagation();
      own.open = false;
      own.querySelector("summary")!.focus();
    };
    addEventListener("pointerdown", close);
    own.addEventListener("keydown", press);
    return () => {
      removeEventListener("pointerdown", close);
      own.removeEventListener("keydown", press);
    };
  }, []);
  return (
    <details
      class="menu"
      ref={place}
      // Who goes on by keyboard has left it.
      onFocusOut={({ currentTarget, relatedTarget }) => {
        if (relatedTarget instanceof Node && !currentTarget.contains(relatedTarget)) currentTarget.open = false;
      }}
    >
      <summary class="button" aria-label={label}>
        {title}
      </summary>
      <div class="menu-body">{children}</div>
    </details>
  );
}
