/** Whose words this tab holds. Another person at the same browser sees none of them: they go with the sign-out, and before another key is let in. */

const mark = "troupe.actor";
const tabs = new BroadcastChannel("troupe.actor");

let settle: () => void;
/** Done once it is known that what the tab keeps is of who is signed in. */
export const isOwn = new Promise<void>((resolve) => {
  settle = resolve;
});

/** Forgets all that this tab shows and keeps, by a page that begins anew. */
function forget(): void {
  sessionStorage.clear();
  location.reload();
}

tabs.addEventListener("message", ({ data }) => {
  const own = sessionStorage.getItem(mark);
  if (own !== null && data !== own) forget();
});

/** @param actor who is signed in @returns false: it is another than before, and the page begins anew */
export function isSameActor(actor: string): boolean {
  const own = sessionStorage.getItem(mark) ?? actor;
  if (own !== actor) sessionStorage.clear();
  sessionStorage.setItem(mark, actor);
  // Tabs share the cookie: the others are of this actor by now.
  tabs.postMessage(actor);
  if (own === actor) settle();
  else location.reload();
  return own === actor;
}

/** @returns who is signed in, or was until the session ended; undefined: nobody was in this tab */
export const ownActor = (): string | undefined => sessionStorage.getItem(mark) ?? undefined;

/** Forgets it in all tabs. */
export function forgetEverywhere(): void {
  tabs.postMessage("");
  forget();
}
