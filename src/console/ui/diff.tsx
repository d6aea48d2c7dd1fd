/** Two texts' differences, line by line. */
import { structuredPatch } from "diff";

export function Diff({ before, after }: { readonly before: string; readonly after: string }) {
  const { hunks } = structuredPatch("", "", before, after, "", "", { context: 3 });
  if (hunks.length === 0) return <p class="muted">No difference.</p>;
  const text = hunks.map(({ oldStart, newStart, lines }) => [`@@ −${oldStart} +${newStart} @@`, ...lines].join("\n"));
  return <Patch text={text.join("\n")} />;
}

const kinds: Readonly<Record<string, string>> = { "+": "added", "-": "removed", "@": "place" };

/** A unified diff without its headers. */
export const Patch = ({ text }: { readonly text: string }) => (
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
  <pre class="diff" tabIndex={0}>
    {text.split("\n").map((line, at) => (
      <span key={at} class={kinds[line[0] ?? ""]}>{`${line}\n`}</span>
    ))}
  </pre>
);
