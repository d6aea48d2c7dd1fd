/** Rows that open: the whole of one leads where its first cell's link does, and j and k go from row to row, as Enter opens one. */

/** Where a press has a meaning of its own. */
const own = "a, button, input, select, textarea, summary, label, dialog, [contenteditable]";

const linkOf = (row: Element | null | undefined) => row?.querySelector<HTMLAnchorElement>("td a[data-opens]");

/** The rows that j and k go through: those of the table that has the focus, else of the page's first. */
function rowsInUse(): readonly HTMLElement[] {
  const table =
    document.activeElement?.closest("main table") ?? document.querySelector("main tr.opens")?.closest("table") ?? null;
  return [...(table?.querySelectorAll<HTMLElement>("tr.opens") ?? [])];
}

/** @param by 1: the next one, −1: the one before @returns the link of the row that has the focus now */
export function moveRow(by: 1 | -1): HTMLAnchorElement | undefined {
  const rows = rowsInUse();
  const focused = rows.findIndex((row) => row.contains(document.activeElement));
  const from = focused >= 0 ? focused : rows.findIndex((row) => row.getAttribute("aria-current") === "true");
  const to = from < 0 ? 0 : Math.max(0, Math.min(rows.length - 1, from + by));
  const link = linkOf(rows[to]);
  link?.focus({ preventScroll: true });
  rows[to]?.scrollIntoView({ block: "nearest" });
  return link ?? undefined;
}

addEventListener("click", (event) => {
  const { target } = event;
  if (!(target instanceof Element) || event.defaultPrevented || event.button !== 0 || target.closest(own)) return;
  const link = linkOf(target.closest("tr.opens"));
  // Who marks a text wants to have it.
  if (!link || !getSelection()?.isCollapsed) return;
  if (event.ctrlKey || event.metaKey) open(link.href, "_blank", "noopener");
  else link.click();
});

/** Whether a key that was pressed is no text, and no dialog has it. */
export const isFree = ({ target, ctrlKey, metaKey, altKey, defaultPrevented }: KeyboardEvent): boolean =>
  !defaultPrevented &&
  !(ctrlKey || metaKey || altKey) &&
  !(target instanceof Element && target.closest("input, select, textarea, dialog, [contenteditable]"));
