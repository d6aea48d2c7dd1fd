/** When each attempt of a request waited, thought and wrote, along one axis of time, and why it was left. */
import { duration } from "../../ui/numbers.ts";
import { whyLeft } from "./explain.ts";
import { type Call, endWords, targetOf } from "./line.ts";
import "./waterfall.css";

type Part = { readonly kind: "waiting" | "writing" | "between"; readonly from: number; readonly to: number };

type Row = { readonly id: string; readonly name: string; readonly parts: readonly Part[]; readonly words: string };

/** @param attempts of one request, the first first @returns milliseconds since it began */
export function rowsOf(attempts: readonly Call[]): { readonly rows: readonly Row[]; readonly total: number } {
  const begun = Date.parse(attempts[0]!.at);
  const rows: Row[] = [];
  let ended = 0;
  for (const [index, one] of attempts.entries()) {
    const from = Math.max(0, Date.parse(one.at) - begun);
    const first = one.first_token_ms === null ? one.total_ms : Math.min(one.first_token_ms, one.total_ms);
    const to = from + one.total_ms;
    const before = attempts[index - 1];
    // A turn that ended well was followed by another: its tools ran in between.
    if (before?.failure === null && before.ended === "finished" && from > ended)
      rows.push({
        id: `${one.id} tools`,
        name: "tools by MCP",
        parts: [{ kind: "between", from: ended, to: from }],
        words: duration(from - ended),
      });
    const parts: Part[] = [{ kind: "waiting", from, to: from + first }];
    if (first < one.total_ms) parts.push({ kind: "writing", from: from + first, to });
    const isLast = index === attempts.length - 1;
    const isFine = endWords[one.ended].tone === "ok" && one.failure === null;
    const left = isFine ? "" : `: ${isLast ? "" : "left, because "}${whyLeft(one)}`;
    const token = one.first_token_ms === null ? "no token" : `first token ${duration(one.first_token_ms)}`;
    rows.push({
      ...{ id: one.id, name: `${one.attempt}. ${targetOf(one) ?? one.model}`, parts },
      words: `${token}, ${duration(one.total_ms)} in all${left}`,
    });
    ended = Math.max(ended, to);
  }
  return { rows, total: Math.max(1, ended) };
}

export function Waterfall({ attempts }: { readonly attempts: readonly Call[] }) {
  const { rows, total } = rowsOf(attempts);
  return (
    <figure class="waterfall" aria-label="Attempts along the time">
      <figcaption>
        <span>
          <i class="waiting" aria-hidden="true" /> waiting for the first token
        </span>
        <span>
          <i class="writing" aria-hidden="true" /> writing
        </span>
        <span class="muted">{duration(total)} in all</span>
      </figcaption>
      <ol>
        {rows.map(({ id, name, parts, words }) => (
          <li key={id}>
            <strong>{name}</strong>
            <div class="track">
              {parts.map(({ kind, from, to }) => (
                <i
                  key={kind}
                  class={kind}
                  style={{ left: `${(100 * from) / total}%`, width: `${Math.max(0.3, (100 * (to - from)) / total)}%` }}
                />
              ))}
            </div>
            <small class="muted">{words}</small>
          </li>
        ))}
      </ol>
    </figure>
  );
}
