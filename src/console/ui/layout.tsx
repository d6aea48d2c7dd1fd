/** The parts that pages are made of. */
import type { ComponentChildren } from "preact";
import { Sparkline } from "./sparkline.tsx";
import { TimeRange } from "./time-range.tsx";

type Children = { readonly children?: ComponentChildren };
export type Tone = "ok" | "warn" | "bad" | "quiet";

type HeadProps = { readonly title: string; readonly note?: ComponentChildren; readonly actions?: ComponentChildren };

/** @param isOfTime whether what it shows is of the time that is chosen for all pages */
export function Page({
  title,
  note,
  actions,
  isOfTime = false,
  children,
}: Children & HeadProps & { readonly isOfTime?: boolean }) {
  return (
    <>
      <header class="page-head">
        <h1 tabIndex={-1}>{title}</h1>
        {note !== undefined && <p class="muted">{note}</p>}
        <div class="actions">
          {actions}
          {isOfTime && <TimeRange />}
        </div>
      </header>
      {children}
    </>
  );
}

export function Panel({ title, note, actions, children }: Children & HeadProps) {
  return (
    <section class="panel">
      <header>
        <h2>{title}</h2>
        {note !== undefined && <span class="muted">{note}</span>}
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </section>
  );
}

/** What a number is beside the one of the time before. */
export type Changed = { readonly text: string; readonly tone: "better" | "worse" | "muted"; readonly title: string };

type StatProps = {
  readonly label: string;
  readonly value: ComponentChildren;
  readonly note?: ComponentChildren;
  readonly tone?: Tone;
  readonly href?: string;
  /** All of its digits. */
  readonly exact?: string;
  readonly change?: Changed | undefined;
  /** How it came about, span by span. */
  readonly course?: readonly (number | null)[];
};

/** One number that matters. */
export function Stat({ label, value, note, tone, href, exact, change, course }: StatProps) {
  return (
    <div class={`stat ${tone ?? ""}`}>
      <span class="muted">{label}</span>
      <div class="stat-line">
        <strong title={exact}>{href === undefined ? value : <a href={href}>{value}</a>}</strong>
        {change !== undefined && (
          <small class={change.tone} title={change.title}>
            {change.text}
            <span class="unseen"> against {change.title}</span>
          </small>
        )}
      </div>
      {note !== undefined && <small class="muted">{note}</small>}
      {course !== undefined && <Sparkline of={course} />}
    </div>
  );
}

export const Stats = ({ children }: Children) => <div class="stats">{children}</div>;
/** Parts beside each other where there is room. */
export const Columns = ({ children }: Children) => <div class="columns">{children}</div>;
/** A row of filters or buttons, which wraps. */
export const Bar = ({ children, label }: Children & { readonly label?: string }) => (
  <div class="bar" {...(label !== undefined && { role: "group", "aria-label": label })}>
    {children}
  </div>
);

export const Badge = ({ tone, children }: Children & { readonly tone: Tone }) => (
  <span class={`badge ${tone}`}>{children}</span>
);

/** A state: what is as it should be needs no mark. */
export const State = ({ tone, children }: Children & { readonly tone: Tone }) =>
  tone === "ok" ? <span class="muted">{children}</span> : <Badge tone={tone}>{children}</Badge>;

/** Names and values. @param items those whose value is undefined are left out */
export function Facts({ items }: { readonly items: readonly (readonly [string, ComponentChildren])[] }) {
  const shown = items.filter(([, value]) => value !== undefined);
  return (
    <dl class="facts">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** Links to the views of one thing. */
export function Tabs({
  label,
  tabs,
  current,
}: {
  readonly label: string;
  readonly tabs: readonly { readonly id: string; readonly title: string; readonly href: string }[];
  readonly current: string;
}) {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ id, title, href }) => (
        <a key={id} href={href} aria-current={id === current ? "page" : undefined}>
          {title}
        </a>
      ))}
    </nav>
  );
}
