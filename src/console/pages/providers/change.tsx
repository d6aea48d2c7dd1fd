/** A number beside what it was before. */
import type { ComponentChildren } from "preact";
import { type Changed, Stat } from "../../ui/layout.tsx";
import "./change.css";

export const percent = (value: number | null): string => (value === null ? "–" : `${value.toFixed(2)} %`);

/** What a number is shown as: a sum of money with its exact value behind it. */
type Shown = (value: number | null) => ComponentChildren;
type ChangeProps = {
  readonly now: number | null;
  readonly before: number | null;
  readonly shown: Shown;
  /** The time before, in a word; absent where it is said above. */
  readonly word?: string;
  /** Whether less is better; absent: neither is. */
  readonly lessIsBetter?: boolean;
  /** Percent already: what changes is said in percentage points. */
  readonly isShare?: boolean;
  readonly href?: string;
};

/** @returns such as "+12 %"; in percentage points for shares */
export function changeOf(now: number | null, before: number | null, isShare = false): string {
  if (now === null || before === null) return "";
  const sign = (value: string) =>
    value.startsWith("-") ? `−${value.slice(1)}` : Number(value) === 0 ? "±0" : `+${value}`;
  if (isShare) return `${sign((now - before).toFixed(2))} points`;
  if (before > 0 && now >= 10 * before) return `× ${(now / before).toFixed(0)}`;
  return before === 0 ? (now === 0 ? "±0 %" : "new") : `${sign((100 * (now / before - 1)).toFixed(1))} %`;
}

/** Changes below a tenth are noise. */
function toneOf({ now, before, lessIsBetter, isShare }: Omit<ChangeProps, "shown">): "worse" | "better" | "muted" {
  if (!lessIsBetter || now === null || before === null) return "muted";
  const isMuch = isShare ? Math.abs(now - before) >= 0.5 : Math.abs(now - before) > before * 0.1;
  return !isMuch ? "muted" : now > before ? "worse" : "better";
}

function Note({ now, before, shown, word = "was", isShare }: ChangeProps) {
  const change = changeOf(now, before, isShare);
  return (
    <>
      {word} {shown(before)}
      {change && `, ${change}`}
    </>
  );
}

/** In a cell of a table. */
export function Change(props: ChangeProps) {
  const { now, shown, href } = props;
  return (
    <span class="against">
      {href === undefined ? <span>{shown(now)}</span> : <a href={href}>{shown(now)}</a>}
      <small class={toneOf(props)}>
        <Note {...props} />
      </small>
    </span>
  );
}

/** @returns what stands beside a number; undefined: there was nothing before */
export function changedOf(props: Omit<ChangeProps, "shown"> & { readonly shown: (value: number | null) => string }) {
  const { now, before, shown, word = "before", isShare } = props;
  const text = changeOf(now, before, isShare);
  return text === ""
    ? undefined
    : ({ text, tone: toneOf(props), title: `${word}: ${shown(before)}` } satisfies Changed);
}

export function ChangeStat({ label, ...props }: ChangeProps & { readonly label: string }) {
  return (
    <Stat
      label={label}
      value={props.shown(props.now)}
      note={
        <span class={toneOf(props)}>
          <Note {...props} />
        </span>
      }
      {...(props.href !== undefined && { href: props.href })}
    />
  );
}
