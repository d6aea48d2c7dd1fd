/** Two texts' differences, line by line. */
import { structuredPatch } from "diff";

export function Diff({ before, after }: { readonly before: string; readonly after: string }) {
  const { hunks } = structuredPatch("", "", before, after, "", "", { context: 3 });
  if (hunks.length === 0) return <p class="muted">No difference.</p>;
  const kinds: Readonly<Record<string, string>> = { "+": "added", "-": "removed" };
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <pre class="diff" tabIndex={0}>
      {hunks.flatMap(({ oldStart, newStart, lines }) => [
        <span key={`@${newStart}`} class="place">{`@@ −${oldStart} +${newStart} @@\n`}</span>,
        ...lines.map((line, index) => <span key={`${newStart}.${index}`} class={kinds[line[0]!]}>{`${line}\n`}</span>),
      ])}
    </pre>
  );
}
