/**
 * An editor for YAML: a plain text field over the same text in colours, with what the checker found behind its lines. Everything is made of nodes,
 * as the page's policy lets no text become markup.
 */
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Piece, piecesOf } from "../../ui/code.tsx";
import type { Finding } from "./types.ts";

function linesOf(text: string): readonly (readonly Piece[])[] {
  const lines: Piece[][] = [[]];
  for (const { kind, text: part } of piecesOf(text, "yaml")) {
    for (const [at, piece] of part.split("\n").entries()) {
      if (at > 0) lines.push([]);
      if (piece !== "") lines.at(-1)!.push({ kind, text: piece });
    }
  }
  return lines;
}

export type Cursor = { readonly line: number; readonly column: number };

/** @returns how many characters stand before a place that counts from 1 */
function offsetOf(text: string, { line, column }: Cursor): number {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return before + Math.min(column - 1, lines[line - 1]?.length ?? 0);
}

type EditorProps = {
  readonly label: string;
  readonly value: string;
  readonly onInput: (value: string) => void;
  readonly readOnly: boolean;
  readonly findings: readonly Finding[];
  /** Where the cursor is put when it changes. */
  readonly cursor?: Cursor | undefined;
  /** The id of what describes its faults. */
  readonly describedBy: string;
};

export function Editor({ label, value, onInput, readOnly, findings, cursor, describedBy }: EditorProps) {
  const field = useRef<HTMLTextAreaElement>(null);
  const lines = useMemo(() => linesOf(value), [value]);
  const byLine = Map.groupBy(findings, ({ line }) => line);
  useEffect(() => {
    if (cursor === undefined || field.current === null) return;
    const at = offsetOf(field.current.value, cursor);
    field.current.focus();
    field.current.setSelectionRange(at, at);
    field.current.parentElement?.querySelectorAll(".line")[cursor.line - 1]?.scrollIntoView({ block: "nearest" });
  }, [cursor]);
  /** A new line begins below the beginning of the one before. */
  const indent = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing || readOnly) return;
    const { selectionStart, value: text } = event.currentTarget as HTMLTextAreaElement;
    const own = text.slice(text.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart);
    const space = /^ */.exec(own)![0];
    if (space === "") return;
    event.preventDefault();
    // The browser's own way, so that it can be undone.
    document.execCommand("insertText", false, `\n${space}`);
  };
  return (
    <div class="editor">
      <pre aria-hidden="true">
        {lines.map((pieces, at) => {
          const found = byLine.get(at + 1);
          const worst = found?.some(({ severity }) => severity === "error") ? "bad" : "warn";
          return (
            <span key={at} class={`line${found === undefined ? "" : ` ${worst}`}`}>
              {pieces.map(({ kind, text }, index) => (
                <span key={index} class={kind && `t-${kind}`}>
                  {text}
                </span>
              ))}
              {found !== undefined && <em>{found.map(({ message }) => message).join("; ")}</em>}
              {"\n"}
            </span>
          );
        })}
      </pre>
      <textarea
        ref={field}
        aria-label={label}
        aria-describedby={describedBy}
        aria-invalid={findings.some(({ severity }) => severity === "error")}
        value={value}
        readOnly={readOnly}
        spellcheck={false}
        autocapitalize="off"
        autocomplete="off"
        wrap="off"
        onKeyDown={indent}
        onInput={(event) => onInput(event.currentTarget.value)}
      />
    </div>
  );
}
