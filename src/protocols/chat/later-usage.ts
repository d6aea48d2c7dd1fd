/** Joins the counts of an answer that came in several reports. */
import { raised } from "../../lib/json/raised.ts";
import { billed, type Usage } from "./schema.ts";

/** @returns a later report of an answer's counts with what was reported before: it only raises them */
export function laterUsage(known: Usage | undefined, reported: Usage): Usage {
  if (known === undefined) return reported;
  const joined = raised(known, reported) as Usage;
  const more = { ...known[billed], ...reported[billed] };
  return {
    ...joined,
    total_tokens: Math.max(joined.total_tokens, joined.prompt_tokens + joined.completion_tokens),
    ...(Object.keys(more).length > 0 && { [billed]: more }),
  };
}
