/** The way to the pages, with what waits behind them: beside the page, and where there is no room a bar above it that opens. */

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { PersonaSummary } from "../api/personas.ts";
import type { ProviderList } from "../api/providers.ts";
import type { Listed } from "../api/shape.ts";
import { get } from "./api.ts";
import { useResource } from "./data.ts";
import { brandIcon, pageGroups, pageTitles } from "./page-titles.ts";
import { openPalette } from "./palette.tsx";
import { href, route } from "./router.ts";
import { Icon } from "./ui/icon.tsx";
import "./navigation.css";

const most = 20;

/** What needs a look behind each page, in a word or two. */
function useWaiting(): Readonly<Record<string, string | undefined>> {
  const everyMs = 15_000;
  const asked = { stopped: "true", limit: String(most) };
  const stopped = useResource((signal) => get<Listed<PersonaSummary>>("v1/personas", asked, { signal }), [], {
    everyMs,
  });
  const providers = useResource((signal) => get<ProviderList>("v1/providers", {}, { signal }), [], { everyMs });
  const variants = (stopped.data?.data ?? []).reduce((sum, one) => sum + one.stopped_variants.length, 0);
  const inCooldown = (providers.data?.data ?? []).filter(({ state }) => state !== "ok").length;
  return {
    personas: variants === 0 ? undefined : `${variants}${stopped.data?.has_more ? "+" : ""} stopped`,
    providers: inCooldown === 0 ? undefined : `${inCooldown} in cooldown`,
  };
}

const menuIcon = "M2.5 4.5h11M2.5 8h11M2.5 11.5h11";
const findIcon = "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3l3.2 3.2";

/** @param current the name of the page that is shown @param children what stands below */
export function Navigation({
  current,
  children,
}: {
  readonly current: string | undefined;
  readonly children: ComponentChildren;
}) {
  const [isOpen, setOpen] = useState(false);
  const waiting = useWaiting();
  const address = route.value;
  useEffect(() => setOpen(false), [address]);
  return (
    <nav
      class="side"
      aria-label="Pages"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !isOpen) return;
        setOpen(false);
        event.currentTarget.querySelector<HTMLElement>(".bar-button.opens-pages")?.focus();
      }}
    >
      <a class="brand" href="#/">
        <svg class="mark" viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
          <rect width="16" height="16" rx="4" />
          <path d={brandIcon} />
        </svg>
        Troupe
      </a>
      <div class={`side-body ${isOpen ? "open" : ""}`} id="pages">
        {pageGroups.map(({ title, pages }) => (
          <section key={title}>
            <p class="muted">{title}</p>
            <ul>
              {pageTitles
                .filter(({ name }) => pages.includes(name))
                .map(({ name, title: words, icon }) => (
                  <li key={name}>
                    <a href={href(name)} aria-current={current === name ? "page" : undefined}>
                      <Icon path={icon} />
                      {words}
                      {waiting[name] !== undefined && <span class="badge warn">{waiting[name]}</span>}
                    </a>
                  </li>
                ))}
            </ul>
          </section>
        ))}
        {children}
      </div>
      <button type="button" class="bar-button finds" onClick={openPalette}>
        <Icon path={findIcon} />
        <span>Go to…</span>
        <kbd>Ctrl K</kbd>
      </button>
      <button
        type="button"
        class="bar-button opens-pages"
        aria-expanded={isOpen}
        aria-controls="pages"
        aria-label="Pages"
        onClick={() => setOpen(!isOpen)}
      >
        <Icon path={menuIcon} />
      </button>
    </nav>
  );
}
