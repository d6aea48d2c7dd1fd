/** How attempts failed, each a link to those that did. */
import { href, type Query } from "../../router.ts";
import { count } from "../../ui/format.tsx";
import { failedEnds, type Totals } from "./sums.ts";

export function Ends({ of, chosen }: { readonly of: Totals; readonly chosen: Query }) {
  const shown = failedEnds.filter((end) => (of.ended[end] ?? 0) > 0);
  if (shown.length === 0) return <>of {count(of.calls)} attempts</>;
  return (
    <>
      {shown.map((end, at) => (
        <span key={end}>
          {at > 0 && ", "}
          <a href={href("calls", [], { ...chosen, ended: end })}>
            {count(of.ended[end]!)} {end}
          </a>
        </span>
      ))}{" "}
      of {count(of.calls)} attempts
    </>
  );
}
