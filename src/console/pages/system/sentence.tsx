/** What was done, as one says it: who did what to what. */
import type { ComponentChildren } from "preact";
import { detailsOf, verbOf } from "./act-words.ts";

type SentenceProps = {
  readonly who: ComponentChildren;
  readonly act: string;
  readonly subject: string;
  readonly after: unknown;
  /** What it was done to, as a link where there is one. */
  readonly children: ComponentChildren;
};

export function Sentence({ who, act, subject, after, children }: SentenceProps) {
  const details = detailsOf(act, subject, after);
  return (
    <span class="among-words">
      {who} {verbOf(act)} {children}
      {details !== "" && <span title={details}>, {details}</span>}
    </span>
  );
}
