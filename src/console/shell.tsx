/** What stands around every page: navigation, sign-in, and what the page can't know by itself. */
import { signal } from "@preact/signals";
import { Component, type ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { get, isOffline, needsSignIn } from "./api.ts";
import { Navigation } from "./navigation.tsx";
import { missingPage, pages } from "./pages.tsx";
import { PaletteDialogs } from "./palette.tsx";
import { route } from "./router.ts";
import { Account, SignIn } from "./sign-in.tsx";
import { Button, Select } from "./ui/form.tsx";
import { isFree, moveRow } from "./ui/rows.ts";
import { Failure } from "./ui/states.tsx";

/** Whether the server has a newer console than this page. */
const isStale = signal(false);
const own = document.querySelector<HTMLMetaElement>('meta[name="troupe-console"]')!;
const isDevelopment = own.dataset["development"] === "true";

async function lookForNewer(): Promise<void> {
  const answer = await fetch("console", { cache: "no-cache" }).catch(() => undefined);
  const served =
    answer?.ok === true ? /name="troupe-console" content="(\w+)"/.exec(await answer.text())?.[1] : undefined;
  isStale.value = served !== undefined && served !== own.content;
  if (isStale.value && isDevelopment) location.reload();
}
const lookIfSeen = () => void (document.hidden || lookForNewer());
// Most answers are a 304. Who comes back to a page is told at once.
setInterval(lookIfSeen, isDevelopment ? 1_000 : 60_000);
document.addEventListener("visibilitychange", lookIfSeen);

addEventListener("keydown", (event) => {
  if (!isFree(event) || (event.key !== "j" && event.key !== "k")) return;
  if (moveRow(event.key === "j" ? 1 : -1)) event.preventDefault();
});

const themes = [
  { value: "", title: "Theme: system" },
  { value: "light", title: "Theme: light" },
  { value: "dark", title: "Theme: dark" },
];
/** Looks for a server that went away; what failed meanwhile is loaded anew once it is back. */
setInterval(() => isOffline.value && !document.hidden && void get("v1/session").catch(() => {}), 3_000);

/** Kept in a cookie, by which the server sends the page in this theme from its first paint on. */
const theme = signal(document.documentElement.dataset["theme"]!);

function chooseTheme(chosen: string): void {
  theme.value = chosen;
  document.documentElement.dataset["theme"] = chosen;
  const age = chosen === "" ? 0 : 31_536_000;
  // biome-ignore lint/suspicious/noDocumentCookie: Firefox has had the Cookie Store API for too short a time
  document.cookie = `troupe_theme=${chosen}; path=${location.pathname}; max-age=${age}; samesite=strict`;
}

/** Shows an error of a page in its place, and the next page again. */
class Boundary extends Component<{ readonly children: ComponentChildren }, { readonly error?: Error }> {
  override state: { readonly error?: Error } = {};
  static override getDerivedStateFromError(error: Error) {
    return { error };
  }
  override render() {
    const { error } = this.state;
    return error === undefined ? (
      this.props.children
    ) : (
      <Failure error={error} retry={() => this.setState({ error: undefined } as never)} />
    );
  }
}

export function Shell() {
  const { page, rest } = route.value;
  const shown = pages.find(({ name }) => name === page) ?? missingPage;
  const main = useRef<HTMLElement>(null);
  const before = useRef<typeof shown | undefined>(undefined);
  useEffect(() => {
    document.title = `${shown.title} · Troupe`;
    // Screen readers begin at the new page's heading, as after any link; so they do where one thing took the place of a list, and the focus is gone with it.
    const isNew = before.current !== shown || document.activeElement === document.body;
    if (before.current !== undefined && isNew) main.current?.querySelector<HTMLElement>("h1")?.focus();
    before.current = shown;
  }, [shown, rest.join("/")]);
  const Shown = shown.component;
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.querySelector<HTMLElement>("h1")?.focus()}>
        Skip to the page
      </button>
      <Navigation current={shown === missingPage ? undefined : shown.name}>
        <Select aria-label="Theme" value={theme.value} options={themes} onChange={chooseTheme} />
        <Account />
      </Navigation>
      <main ref={main}>
        {isOffline.value && (
          <p class="notice warn" role="status">
            The server does not answer. What is shown may be old; the page goes on by itself once it does.
          </p>
        )}
        {isStale.value && (
          <p class="notice" role="status">
            The server has a newer console. <Button onClick={() => location.reload()}>Reload</Button>
          </p>
        )}
        <Boundary key={page}>
          <Shown />
        </Boundary>
      </main>
      <PaletteDialogs />
      {needsSignIn.value && <SignIn />}
    </>
  );
}
